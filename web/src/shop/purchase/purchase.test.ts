// A purchase, step by step, with a shop that answers what the test wants.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Failure, Outcome } from '../../api/client';
import type { Challenge, Order, Pass, Ticket } from '../../api/schema';
import { browserMemory, type Memory } from './memory';
import { FRESH_MS, Purchase, type Terms } from './purchase.svelte';
import { MAX_TRIES } from './retry';
import type { Lock, World } from './world';

const NAME = 'buyer.sale';

function failed(code: Failure['code'], status = 409, retryAfterSeconds?: number): Outcome<never> {
  return { ok: false, failure: { code, status, detail: '', fields: {}, retryAfterSeconds } };
}

function fine<T>(data: T): Outcome<T> {
  return { ok: true, data };
}

function order(change: Partial<Order> = {}): Order {
  const price = { amount: '1.00', currency: 'CNY' };
  return {
    id: 'order-1',
    sale_id: 'sale',
    item: { id: 'item', title: 'Phone X' },
    quantity: 1,
    unit_price: price,
    total: price,
    state: 'held',
    created_at: '2026-01-01T00:00:00Z',
    pay_before: '2026-01-01T00:15:00Z',
    ...change,
  };
}

function ticket(change: Partial<Ticket> = {}): Ticket {
  return { ticket: 'ticket-1', number: 1, state: 'waiting', position: 3, ...change };
}

const admitted = (name = 'ticket-1') =>
  ticket({ ticket: name, state: 'admitted', position: null, admitted_until: '2026-01-01T00:01:00Z' });
const pow: Challenge = { id: 'challenge', kind: 'pow', salt: 'salt', difficulty: 8, expires_at: '' };
const picture = (id: string): Challenge => ({ id, kind: 'captcha', image: `data:${id}`, expires_at: '' });

/** Locks as tabs of one browser share them. */
function locks(): World['exclusively'] {
  const tails = new Map<string, Promise<unknown>>();
  const busy = new Map<string, number>();
  return async <T>(name: string, { onwait }: Lock, work: () => Promise<T>): Promise<T> => {
    const count = busy.get(name) ?? 0;
    if (count > 0) onwait?.();
    busy.set(name, count + 1);
    const run = (tails.get(name) ?? Promise.resolve()).then(work);
    const end = run.catch(() => {}).then(() => busy.set(name, (busy.get(name) ?? 1) - 1));
    tails.set(name, end);
    return run;
  };
}

/** What the shop was asked, in order. */
function shop(gate: Partial<Terms['gate']> = {}) {
  const storage = new Map<string, string>();
  const memory: Memory = browserMemory(
    () =>
      ({
        getItem: (key: string) => storage.get(key) ?? null,
        setItem: (key: string, value: string) => storage.set(key, value),
        removeItem: (key: string) => storage.delete(key),
      }) as unknown as Storage,
  );
  let keys = 0;
  let now = Date.parse('2026-01-01T00:00:00Z');
  const calls = {
    order: vi.fn(async (..._: unknown[]): Promise<Outcome<Order>> => fine(order())),
    findOrder: vi.fn(async (id: string): Promise<Outcome<Order>> => fine(order({ id }))),
    takeTicket: vi.fn(async (): Promise<Outcome<Ticket>> => fine(ticket())),
    ticket: vi.fn(async (): Promise<Outcome<Ticket>> => fine(ticket())),
    challenge: vi.fn(async (..._: unknown[]): Promise<Outcome<Challenge>> => fine(pow)),
    pass: vi.fn(async (..._: unknown[]): Promise<Outcome<Pass>> => fine({ pass: 'pass', expires_at: '' })),
  };
  /** What the waiting room tells, by ticket. */
  const told = new Map<string, Outcome<Ticket>[]>();
  const world: World = {
    calls,
    memory,
    now: () => now,
    random: () => 0,
    newKey: () => `key-${(keys += 1)}`,
    sleep: (milliseconds, signal) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, milliseconds);
        signal.addEventListener('abort', () => {
          clearTimeout(timer);
          reject(signal.reason as Error);
        });
      }),
    online: vi.fn(async () => {}),
    exclusively: locks(),
    follow: async function* (_sale, name, signal) {
      for (const one of told.get(name) ?? [fine(admitted(name))]) yield one;
      // Then nothing more is told until nobody listens.
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    },
    solve: vi.fn(async (_work, onprogress) => {
      onprogress(0.5);
      return '42';
    }),
    signedOut: vi.fn(),
  };
  const terms: Terms = {
    id: 'sale',
    opens_at: null,
    gate: { challenge: 'none', waiting_room: false, pass_required: false, ...gate },
  };
  return {
    calls,
    memory,
    told,
    world,
    /** A page that has the sale open. */
    tab: (done: (order: Order) => void = () => {}) => new Purchase('buyer', () => terms, world, done),
    /** The page before goes away without a word, and its locks with it. */
    reload: () => new Purchase('buyer', () => terms, { ...world, exclusively: locks() }),
    keys: () => calls.order.mock.calls.map((call) => call[2]),
    wait: (milliseconds: number) => (now += milliseconds),
    terms,
  };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('without a gate', () => {
  test('a click becomes a hold', async () => {
    const { tab, calls } = shop();
    const done = vi.fn();
    const purchase = tab(done);
    const bought = purchase.buy(2);
    expect(purchase.step.at).toBe('ordering');
    await bought;
    expect(purchase.step).toEqual({ at: 'done', order: order() });
    expect(calls.order).toHaveBeenCalledExactlyOnceWith('sale', 2, 'key-1', undefined);
    expect(done).toHaveBeenCalledExactlyOnceWith(order());
  });

  test('a double click sends one request', async () => {
    const { tab, calls } = shop();
    const purchase = tab();
    await Promise.all([purchase.buy(1), purchase.buy(1)]);
    expect(calls.order).toHaveBeenCalledTimes(1);
  });

  test.each(['busy', 'unavailable', 'rate_limited', 'network', 'request_timeout', 'internal'] as const)(
    '%s is tried again, visibly, with the same key',
    async (code) => {
      const { tab, calls, keys } = shop();
      calls.order.mockResolvedValueOnce(failed(code, 503)).mockResolvedValueOnce(failed(code, 503));
      const purchase = tab();
      const bought = purchase.buy(1);
      await vi.advanceTimersByTimeAsync(400);
      expect(purchase.trouble?.code).toBe(code);
      expect(purchase.step.at).toBe('ordering');
      await vi.runAllTimersAsync();
      await bought;
      expect(purchase.step.at).toBe('done');
      expect(purchase.trouble).toBeUndefined();
      expect(keys()).toEqual(['key-1', 'key-1', 'key-1']);
    },
  );

  test('no try comes before the shop said it may', async () => {
    const { tab, calls } = shop();
    calls.order.mockResolvedValueOnce(failed('rate_limited', 429, 30));
    const bought = tab().buy(1);
    await vi.advanceTimersByTimeAsync(29_900);
    expect(calls.order).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(200);
    await bought;
    expect(calls.order).toHaveBeenCalledTimes(2);
  });

  test('who is told to come back much later is told so at once', async () => {
    const { tab, calls } = shop();
    calls.order.mockResolvedValue(failed('rate_limited', 429, 3600));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step).toMatchObject({ at: 'refused', goesOn: true });
  });

  test('tries end, and trying again is still the same purchase', async () => {
    const { tab, calls, keys } = shop();
    calls.order.mockResolvedValue(failed('busy', 503));
    const purchase = tab();
    const bought = purchase.buy(1);
    await vi.runAllTimersAsync();
    await bought;
    expect(calls.order).toHaveBeenCalledTimes(MAX_TRIES);
    expect(purchase.step).toMatchObject({ at: 'refused', goesOn: true });
    calls.order.mockResolvedValue(fine(order()));
    await purchase.tryAgain();
    expect(purchase.step.at).toBe('done');
    expect(new Set(keys())).toEqual(new Set(['key-1']));
  });

  test('a lost network is waited for', async () => {
    const { tab, calls, world } = shop();
    let back = () => {};
    vi.mocked(world.online).mockReturnValue(new Promise((resolve) => (back = resolve)));
    calls.order.mockResolvedValueOnce(failed('network', 0));
    const bought = tab().buy(1);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(calls.order).toHaveBeenCalledTimes(1);
    back();
    await vi.runAllTimersAsync();
    await bought;
    expect(calls.order).toHaveBeenCalledTimes(2);
  });

  test.each(['sold_out', 'limit_reached', 'paused', 'closed', 'not_open', 'idempotency_key_reused'] as const)(
    '%s is final, and the next purchase has another key',
    async (code) => {
      const { tab, calls, keys, memory } = shop();
      calls.order.mockResolvedValueOnce(failed(code));
      const purchase = tab();
      await purchase.buy(1);
      expect(purchase.step).toMatchObject({ at: 'refused', goesOn: false, failure: { code } });
      expect(memory.intent(NAME)).toBeUndefined();
      await purchase.buy(1);
      expect(keys()).toEqual(['key-1', 'key-2']);
    },
  );

  test('a refusal is taken back when the sale has changed, but not what goes on', async () => {
    const { tab, calls } = shop();
    calls.order.mockResolvedValueOnce(failed('sold_out'));
    const purchase = tab();
    await purchase.buy(1);
    purchase.forgive();
    expect(purchase.step.at).toBe('idle');
    calls.order.mockResolvedValue(failed('rate_limited', 429, 3600));
    await purchase.buy(1);
    purchase.forgive();
    expect(purchase.step.at).toBe('refused');
  });

  test('a click in the very moment of the opening is not refused because two clocks differ', async () => {
    const { tab, calls, terms, world } = shop();
    terms.opens_at = new Date(world.now() + 200).toISOString();
    calls.order.mockResolvedValueOnce(failed('not_open'));
    const purchase = tab();
    const bought = purchase.buy(1);
    await vi.runAllTimersAsync();
    await bought;
    expect(purchase.step.at).toBe('done');
  });

  test('a session that is over leads to signing in, and the same purchase goes on after that', async () => {
    const { tab, calls, keys, world } = shop();
    calls.order.mockResolvedValueOnce(failed('unauthorized', 401));
    const purchase = tab();
    await purchase.buy(2);
    expect(purchase.step.at).toBe('sign_in');
    expect(world.signedOut).toHaveBeenCalled();
    const after = tab();
    await after.resume();
    expect(after.step.at).toBe('done');
    expect(keys()).toEqual(['key-1', 'key-1']);
    expect(calls.order.mock.calls[1]?.[1]).toBe(2);
  });
});

describe('reloads and tabs', () => {
  test('a reload in the middle of an order asks again with the same key', async () => {
    const { tab, reload, calls, keys } = shop();
    calls.order.mockReturnValueOnce(new Promise(() => {}));
    void tab().buy(2);
    await vi.advanceTimersByTimeAsync(0);
    const after = reload();
    await after.resume();
    expect(after.step.at).toBe('done');
    expect(keys()).toEqual(['key-1', 'key-1']);
    expect(calls.order.mock.calls[1]?.[1]).toBe(2);
  });

  test('a reload does nothing if nothing was under way', async () => {
    const { tab, calls } = shop();
    const purchase = tab();
    await purchase.resume();
    expect(purchase.step.at).toBe('idle');
    expect(calls.order).not.toHaveBeenCalled();
  });

  test('what was left alone for long does not go on by itself', async () => {
    const { tab, calls, memory, world } = shop();
    memory.keepIntent(NAME, { key: 'old', quantity: 1, touchedAt: world.now() - FRESH_MS - 1, asked: true });
    const purchase = tab();
    await purchase.resume();
    expect(calls.order).not.toHaveBeenCalled();
    expect(memory.intent(NAME)).toBeUndefined();
  });

  test('two tabs send one key, and both come to the one order', async () => {
    const { tab, keys } = shop();
    const [left, right] = [tab(), tab()];
    await Promise.all([left.buy(1), right.buy(1)]);
    expect(keys()).toEqual(['key-1']);
    expect(left.step).toEqual({ at: 'done', order: order() });
    expect(right.step).toEqual({ at: 'done', order: order() });
  });

  test('a tab says so while another one is at it', async () => {
    const { tab, calls } = shop();
    let answer: (outcome: Outcome<Order>) => void = () => {};
    calls.order.mockReturnValueOnce(new Promise((resolve) => (answer = resolve)));
    const [left, right] = [tab(), tab()];
    void left.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    void right.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(right.step.at).toBe('elsewhere');
    answer(fine(order()));
    await vi.advanceTimersByTimeAsync(0);
    expect(right.step.at).toBe('done');
    expect(calls.order).toHaveBeenCalledTimes(1);
  });

  test('a tab that did not know of the order shows it and buys nothing', async () => {
    const { tab, calls } = shop();
    await tab().buy(1);
    const stale = tab();
    await stale.buy(1, []);
    expect(stale.step).toEqual({ at: 'done', order: order() });
    expect(calls.order).toHaveBeenCalledTimes(1);
  });

  test('who sees his order and buys again means another one', async () => {
    const { tab, keys } = shop();
    const purchase = tab();
    await purchase.buy(1);
    await purchase.buy(1, ['order-1']);
    expect(keys()).toEqual(['key-1', 'key-2']);
  });

  test('an unknown order that came to nothing does not stand in the way', async () => {
    const { tab, calls, keys } = shop();
    await tab().buy(1);
    calls.findOrder.mockResolvedValueOnce(fine(order({ state: 'expired' })));
    const other = tab();
    await other.buy(1);
    expect(other.step.at).toBe('done');
    expect(keys()).toEqual(['key-1', 'key-2']);
  });

  test('the key has served when the order is finished', async () => {
    const { tab, memory } = shop();
    const purchase = tab();
    await purchase.buy(1);
    purchase.finished('another order');
    expect(memory.intent(NAME)?.order).toBe('order-1');
    purchase.finished('order-1');
    expect(memory.intent(NAME)).toBeUndefined();
  });

  test('news of another tab end the waiting', async () => {
    const { tab, told } = shop({ waiting_room: true, pass_required: true });
    told.set('ticket-1', [fine(ticket())]);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step.at).toBe('waiting');
    await purchase.heard('order-9');
    expect(purchase.step).toEqual({ at: 'done', order: order({ id: 'order-9' }) });
  });

  test('a page that goes away stops, and forgets nothing', async () => {
    const { tab, calls, memory } = shop();
    calls.order.mockResolvedValue(failed('busy', 503));
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(100);
    purchase.stop();
    await vi.runAllTimersAsync();
    expect(calls.order).toHaveBeenCalledTimes(1);
    expect(purchase.step.at).toBe('idle');
    expect(memory.intent(NAME)?.key).toBe('key-1');
  });
});

describe('the waiting room', () => {
  const gate = { waiting_room: true, pass_required: true };

  test('the place is shown, and the turn goes on by itself', async () => {
    const { tab, told, calls } = shop(gate);
    told.set('ticket-1', [
      fine(ticket({ position: 9 })),
      fine(ticket({ position: 4, estimated_wait_seconds: 30 })),
    ]);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step).toMatchObject({ at: 'waiting', from: 3, ticket: { position: 4 } });
    expect(calls.pass).not.toHaveBeenCalled();
    purchase.stop();

    // After a reload the same ticket is followed.
    told.set('ticket-1', [fine(admitted())]);
    const after = tab();
    await after.resume();
    expect(after.step.at).toBe('done');
    expect(calls.takeTicket).toHaveBeenCalledTimes(1);
    expect(calls.pass).toHaveBeenCalledExactlyOnceWith('sale', {
      challenge: null,
      answer: null,
      ticket: 'ticket-1',
    });
    expect(calls.order).toHaveBeenCalledExactlyOnceWith('sale', 1, 'key-1', 'pass');
  });

  test('before the draw there is no place', async () => {
    const { tab, told, calls } = shop(gate);
    calls.takeTicket.mockResolvedValue(fine(ticket({ position: null })));
    told.set('ticket-1', []);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step).toMatchObject({ at: 'waiting', from: null, ticket: { position: null } });
  });

  test('a place is kept for as long as it stands', async () => {
    const { tab, told, calls, wait } = shop(gate);
    told.set('ticket-1', [fine(ticket())]);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    purchase.stop();
    wait(FRESH_MS * 6);
    const after = tab();
    void after.resume();
    await vi.advanceTimersByTimeAsync(0);
    expect(after.step.at).toBe('waiting');
    after.stop();

    calls.ticket.mockResolvedValue(fine(ticket({ state: 'gone', reason: 'turn_over' })));
    const late = tab();
    await late.resume();
    expect(late.step.at).toBe('idle');
    expect(calls.takeTicket).toHaveBeenCalledTimes(1);
  });

  test('a missed turn means a new place, and that is said', async () => {
    const { tab, told, calls } = shop(gate);
    calls.takeTicket
      .mockResolvedValueOnce(fine(ticket()))
      .mockResolvedValueOnce(fine(ticket({ ticket: 'ticket-2' })));
    told.set('ticket-1', [fine(ticket({ state: 'gone', reason: 'turn_over' }))]);
    told.set('ticket-2', [fine(ticket({ ticket: 'ticket-2' }))]);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step).toMatchObject({ at: 'waiting', ticket: { ticket: 'ticket-2' } });
    expect(purchase.missedTurn).toBe(true);
  });

  test('a turn that was used up is replaced by a new ticket', async () => {
    const { tab, calls } = shop(gate);
    calls.takeTicket
      .mockResolvedValueOnce(fine(ticket()))
      .mockResolvedValueOnce(fine(ticket({ ticket: 'ticket-2' })));
    calls.pass.mockResolvedValueOnce(failed('not_admitted', 403));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
    expect(calls.pass.mock.calls[1]?.[1]).toMatchObject({ ticket: 'ticket-2' });
  });

  test('new tickets are not taken without end', async () => {
    const { tab, calls } = shop(gate);
    calls.pass.mockResolvedValue(failed('not_admitted', 403));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step).toMatchObject({ at: 'refused', failure: { code: 'not_admitted' } });
    expect(calls.takeTicket.mock.calls.length).toBeLessThan(8);
  });

  test.each(['sold_out', 'closed'] as const)('who waits is told %s', async (reason) => {
    const { tab, told, memory } = shop(gate);
    told.set('ticket-1', [fine(ticket({ state: 'gone', reason }))]);
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step).toMatchObject({ at: 'refused', failure: { code: reason } });
    expect(memory.intent(NAME)).toBeUndefined();
  });

  test('an unknown ticket is replaced', async () => {
    const { tab, told, memory, calls } = shop(gate);
    memory.keepTicket(NAME, { ticket: 'unknown', from: null });
    told.set('unknown', [failed('ticket_not_found', 404)]);
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
    expect(calls.takeTicket).toHaveBeenCalledTimes(1);
  });

  test('two tabs share one place', async () => {
    const { tab, told, calls } = shop(gate);
    told.set('ticket-1', [fine(ticket())]);
    const [left, right] = [tab(), tab()];
    void left.buy(1);
    void right.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(left.step.at).toBe('waiting');
    expect(right.step.at).toBe('waiting');
    expect(calls.takeTicket).toHaveBeenCalledTimes(1);
  });

  test('leaving gives the place up', async () => {
    const { tab, told, memory } = shop(gate);
    told.set('ticket-1', [fine(ticket())]);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    purchase.leave();
    expect(purchase.step.at).toBe('idle');
    expect(memory.ticket(NAME)).toBeUndefined();
    expect(memory.intent(NAME)).toBeUndefined();
  });
});

describe('the challenge', () => {
  test('a proof of work is solved beside the page', async () => {
    const { tab, calls, world } = shop({ challenge: 'pow', pass_required: true });
    let finish: (answer: string) => void = () => {};
    vi.mocked(world.solve).mockImplementation((_work, onprogress) => {
      onprogress(0.25);
      return new Promise((resolve) => (finish = resolve));
    });
    const purchase = tab();
    const bought = purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step).toEqual({ at: 'working', part: 0.25, turnUntil: null });
    finish('7');
    await bought;
    expect(calls.pass).toHaveBeenCalledExactlyOnceWith('sale', {
      challenge: 'challenge',
      answer: '7',
      ticket: null,
    });
    expect(purchase.step.at).toBe('done');
  });

  test('one that came too late is replaced by itself, not without end', async () => {
    const { tab, calls } = shop({ challenge: 'pow', pass_required: true });
    calls.pass.mockResolvedValueOnce(failed('challenge_failed', 403));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
    expect(calls.challenge).toHaveBeenCalledTimes(2);

    const never = shop({ challenge: 'pow', pass_required: true });
    never.calls.pass.mockResolvedValue(failed('challenge_failed', 403));
    const refused = never.tab();
    await refused.buy(1);
    expect(refused.step).toMatchObject({ at: 'refused', failure: { code: 'challenge_failed' } });
  });

  test('a device that can’t work is no reason to wait for ever', async () => {
    vi.stubGlobal('reportError', vi.fn());
    const { tab, keys, world } = shop({ challenge: 'pow', pass_required: true });
    vi.mocked(world.solve).mockRejectedValueOnce(new Error('no worker'));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step).toMatchObject({ at: 'refused', goesOn: true });
    await purchase.tryAgain();
    expect(purchase.step.at).toBe('done');
    expect(keys()).toEqual(['key-1']);
    vi.unstubAllGlobals();
  });

  test('a picture is read by the buyer, who may err, ask for another one, or let the device work', async () => {
    const { tab, calls } = shop({ challenge: 'captcha', pass_required: true });
    calls.challenge
      .mockResolvedValueOnce(fine(picture('first')))
      .mockResolvedValueOnce(fine(picture('second')))
      .mockResolvedValueOnce(fine(picture('third')))
      .mockResolvedValueOnce(fine(pow));
    calls.pass.mockResolvedValueOnce(failed('challenge_failed', 403));
    const purchase = tab();
    const bought = purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step).toMatchObject({ at: 'captcha', image: 'data:first', wrong: false });
    purchase.answer('abcde');
    purchase.answer('abcde');
    await vi.advanceTimersByTimeAsync(0);
    expect(calls.pass).toHaveBeenCalledExactlyOnceWith('sale', {
      challenge: 'first',
      answer: 'abcde',
      ticket: null,
    });
    expect(purchase.step).toMatchObject({ at: 'captcha', image: 'data:second', wrong: true });
    purchase.another('captcha');
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step).toMatchObject({ at: 'captcha', image: 'data:third', wrong: false });
    purchase.another('pow');
    await bought;
    expect(calls.challenge.mock.calls.at(-1)).toEqual(['sale', 'pow']);
    expect(purchase.step.at).toBe('done');
  });

  test('a pass that is no longer good is replaced, and the order keeps its key', async () => {
    const { tab, calls, keys } = shop({ challenge: 'pow', pass_required: true });
    calls.order.mockResolvedValueOnce(failed('pass_invalid', 403));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
    expect(calls.pass).toHaveBeenCalledTimes(2);
    expect(keys()).toEqual(['key-1', 'key-1']);
  });

  test('passes that are all given out are waited for', async () => {
    const { tab, calls } = shop({ pass_required: true });
    calls.pass.mockResolvedValueOnce(failed('passes_exhausted'));
    const purchase = tab();
    const bought = purchase.buy(1);
    await vi.advanceTimersByTimeAsync(100);
    expect(purchase.trouble?.code).toBe('passes_exhausted');
    await vi.runAllTimersAsync();
    await bought;
    expect(purchase.step.at).toBe('done');
  });

  test('after a reload an order that was accepted is found without another challenge', async () => {
    const { tab, calls, memory, world } = shop({ challenge: 'captcha', pass_required: true });
    memory.keepIntent(NAME, { key: 'key-0', quantity: 1, touchedAt: world.now(), asked: true });
    const purchase = tab();
    await purchase.resume();
    expect(calls.order).toHaveBeenCalledExactlyOnceWith('sale', 1, 'key-0', undefined);
    expect(calls.challenge).not.toHaveBeenCalled();
    expect(purchase.step.at).toBe('done');
  });

  test('after a reload an order that was not accepted goes through the challenge', async () => {
    const { tab, calls, memory, world } = shop({ challenge: 'pow', pass_required: true });
    memory.keepIntent(NAME, { key: 'key-0', quantity: 1, touchedAt: world.now(), asked: true });
    calls.order.mockResolvedValueOnce(failed('pass_required', 403));
    const purchase = tab();
    await purchase.resume();
    expect(calls.order.mock.calls.at(-1)).toEqual(['sale', 1, 'key-0', 'pass']);
    expect(purchase.step.at).toBe('done');
  });

  test('a sale that asks for nothing after all just sells', async () => {
    const { tab, calls } = shop({ challenge: 'pow', pass_required: true });
    calls.challenge.mockResolvedValue(failed('not_gated'));
    calls.pass.mockResolvedValue(failed('not_gated'));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
  });
});
