// A purchase in a sale with a gate: the waiting room, the challenge, the pass.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { admitted, failed, fine, NAME, picture, pow, shop, ticket } from './pretended';
import { FRESH_MS } from './memory';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('the waiting room', () => {
  const gate = { waiting_room: true, pass_required: true };

  test('the place is shown, and the purchase continues at the turn', async () => {
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

    // After a reload, the same ticket is followed.
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

  test('a place is kept as long as it is valid', async () => {
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

  test('a missed turn leads to a new place, and the buyer is told', async () => {
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

  test('a used turn is replaced by a new ticket', async () => {
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

  test('the number of new tickets is limited', async () => {
    const { tab, calls } = shop(gate);
    calls.pass.mockResolvedValue(failed('not_admitted', 403));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step).toMatchObject({ at: 'refused', failure: { code: 'not_admitted' } });
    expect(calls.takeTicket.mock.calls.length).toBeLessThan(8);
  });

  test.each(['sold_out', 'closed'] as const)('a waiting buyer is told %s', async (reason) => {
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

  test('a buyer signed out while waiting is told so, and has the same place after signing in', async () => {
    const { tab, told, calls } = shop(gate);
    told.set('ticket-1', [fine(ticket()), failed('unauthorized', 401)]);
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('sign_in');
    told.set('ticket-1', [fine(admitted())]);
    const after = tab();
    await after.resume();
    expect(after.step.at).toBe('done');
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
  test('a proof of work is solved outside the page', async () => {
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

  test('one that came too late is replaced automatically, up to a limit', async () => {
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

  test('a device that can’t solve it does not make the buyer wait for ever', async () => {
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

  test('a picture is read by the buyer, who may make a mistake, ask for another one, or let the device solve a puzzle', async () => {
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

  test('a buyer who reads a picture during the turn counts as present', async () => {
    const { tab, calls, world } = shop({ challenge: 'captcha', waiting_room: true, pass_required: true });
    calls.challenge.mockResolvedValue(fine(picture('picture')));
    const follow = vi.spyOn(world, 'follow');
    const purchase = tab();
    const bought = purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(purchase.step.at).toBe('captcha');
    const [, ticket, signal] = follow.mock.lastCall!;
    expect([follow.mock.calls.length, ticket, signal.aborted]).toEqual([2, 'ticket-1', false]);
    purchase.answer('abcde');
    await bought;
    expect(purchase.step.at).toBe('done');
    expect(signal.aborted).toBe(true);
  });

  test('continues in the tab that takes over, and the other one waits for the result', async () => {
    const { tab, calls, keys } = shop({ challenge: 'captcha', pass_required: true });
    calls.challenge.mockResolvedValue(fine(picture('picture')));
    const [left, right] = [tab(), tab()];
    void left.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(left.step.at).toBe('captcha');
    void right.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    expect(right.step.at).toBe('elsewhere');
    void right.takeOver();
    await vi.advanceTimersByTimeAsync(0);
    expect(right.step.at).toBe('captcha');
    expect(left.step.at).toBe('elsewhere');
    right.answer('abcde');
    await vi.advanceTimersByTimeAsync(0);
    expect(right.step.at).toBe('done');
    expect(left.step.at).toBe('done');
    expect(keys()).toEqual(['key-1']);
  });

  test('an invalid pass is replaced, and the order keeps its key', async () => {
    const { tab, calls, keys } = shop({ challenge: 'pow', pass_required: true });
    calls.order.mockResolvedValueOnce(failed('pass_invalid', 403));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
    expect(calls.pass).toHaveBeenCalledTimes(2);
    expect(keys()).toEqual(['key-1', 'key-1']);
  });

  test('a purchase waits while all passes are given out', async () => {
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

  test('a sale without any check just sells', async () => {
    const { tab, calls } = shop({ challenge: 'pow', pass_required: true });
    calls.challenge.mockResolvedValue(failed('not_gated'));
    calls.pass.mockResolvedValue(failed('not_gated'));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step.at).toBe('done');
  });
});
