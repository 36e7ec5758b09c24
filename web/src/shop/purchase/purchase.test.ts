// A purchase in a sale without a gate, through refusals, reloads and second tabs.
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Outcome } from '../../api/client';
import type { Order } from '../../api/schema';
import { failed, fine, NAME, order, shop, ticket } from './pretended';
import { FRESH_MS } from './memory';
import { MAX_TRIES } from '../../lib/retry';

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

  test('no try comes earlier than the shop allows', async () => {
    const { tab, calls } = shop();
    calls.order.mockResolvedValueOnce(failed('rate_limited', 429, 30));
    const bought = tab().buy(1);
    await vi.advanceTimersByTimeAsync(29_900);
    expect(calls.order).toHaveBeenCalledTimes(1);
    await vi.advanceTimersByTimeAsync(200);
    await bought;
    expect(calls.order).toHaveBeenCalledTimes(2);
  });

  test('a buyer who has to come back much later is told so at once', async () => {
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

  test('trying again continues the purchase after any delay', async () => {
    const { tab, calls, keys, wait } = shop();
    calls.order.mockResolvedValueOnce(failed('rate_limited', 429, 3600));
    const purchase = tab();
    await purchase.buy(1);
    wait(FRESH_MS * 2);
    await purchase.tryAgain();
    expect(purchase.step.at).toBe('done');
    expect(keys()).toEqual(['key-1', 'key-1']);
  });

  test('a purchase waits for a lost network', async () => {
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

  test.each(['sold_out', 'limit_reached', 'closed', 'not_open', 'idempotency_key_reused'] as const)(
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

  test('a refusal is taken back when the sale has changed, but not a running purchase', async () => {
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

  test('a purchase waits for the end of a pause, and continues', async () => {
    const { tab, calls, keys, wait } = shop();
    calls.order.mockResolvedValueOnce(failed('paused'));
    const purchase = tab();
    await purchase.buy(1);
    expect(purchase.step).toMatchObject({ at: 'refused', goesOn: true });
    for (let looks = 0; looks < 400; looks += 1) {
      wait(5_000);
      purchase.forgive();
      purchase.seen(true);
    }
    expect(calls.order).toHaveBeenCalledTimes(1);
    purchase.seen(false);
    await vi.runAllTimersAsync();
    expect(purchase.step.at).toBe('done');
    expect(keys()).toEqual(['key-1', 'key-1']);
  });

  test('the end of a pause orders nothing if the buyer is long gone', async () => {
    const { tab, calls, memory, wait } = shop();
    calls.order.mockResolvedValueOnce(failed('paused'));
    const purchase = tab();
    await purchase.buy(1);
    wait(FRESH_MS + 1);
    purchase.seen(false);
    await vi.runAllTimersAsync();
    expect(calls.order).toHaveBeenCalledTimes(1);
    expect(purchase.step.at).toBe('idle');
    expect(memory.intent(NAME)).toBeUndefined();
  });

  test('nothing new begins once the page is closed', async () => {
    const { tab, calls } = shop();
    calls.order.mockResolvedValueOnce(failed('paused'));
    await tab().buy(1);
    const left = tab();
    left.close();
    await left.resume();
    expect(calls.order).toHaveBeenCalledTimes(1);
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

  test('a buyer who hears that the sale is not open has a wrong clock', async () => {
    const { tab, calls, world } = shop();
    calls.order.mockResolvedValueOnce(failed('not_open'));
    await tab().buy(1);
    expect(world.doubtNow).toHaveBeenCalledTimes(1);
  });

  test('the end of a session leads to signing in, and the same purchase continues', async () => {
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

  test('an old purchase does not continue by itself', async () => {
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

  test('a tab says that another one is working on the purchase', async () => {
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

  test('a buyer who sees their order and buys again means another one', async () => {
    const { tab, keys } = shop();
    const purchase = tab();
    await purchase.buy(1);
    await purchase.buy(1, ['order-1']);
    expect(keys()).toEqual(['key-1', 'key-2']);
  });

  test('the quantity may change before ordering, with the same key', async () => {
    const { tab, calls, memory, world } = shop();
    memory.keepIntent(NAME, { key: 'key-0', quantity: 1, touchedAt: world.now() });
    const purchase = tab();
    expect(purchase.wasAsked).toBe(false);
    await purchase.buy(2);
    expect(calls.order).toHaveBeenCalledExactlyOnceWith('sale', 2, 'key-0', undefined);
    expect(purchase.wasAsked).toBe(true);
  });

  test('an unknown order without a result does not block a purchase', async () => {
    const { tab, calls, keys } = shop();
    await tab().buy(1);
    calls.findOrder.mockResolvedValueOnce(fine(order({ state: 'expired' })));
    const other = tab();
    await other.buy(1);
    expect(other.step.at).toBe('done');
    expect(keys()).toEqual(['key-1', 'key-2']);
  });

  test('the key is used up when the order is finished', async () => {
    const { tab, memory } = shop();
    const purchase = tab();
    await purchase.buy(1);
    purchase.finished('another order');
    expect(memory.intent(NAME)?.order).toBe('order-1');
    purchase.finished('order-1');
    expect(memory.intent(NAME)).toBeUndefined();
  });

  test('news from another tab ends the waiting, if it is about this purchase', async () => {
    const { tab, told, memory } = shop({ waiting_room: true, pass_required: true });
    told.set('ticket-1', [fine(ticket())]);
    const purchase = tab();
    void purchase.buy(1);
    await vi.advanceTimersByTimeAsync(0);
    await purchase.heard('order-8');
    expect(purchase.step.at).toBe('waiting');
    memory.keepIntent(NAME, { key: 'key-1', quantity: 1, touchedAt: 0, order: 'order-9' });
    await purchase.heard('order-9');
    expect(purchase.step).toEqual({ at: 'done', order: order({ id: 'order-9' }) });
  });

  test('a closed page stops, and forgets nothing', async () => {
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
