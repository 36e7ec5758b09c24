// The buyer's own part of a sale: the waitlist, its offers, and the order on the stage.
import { cleanup, render } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Order } from '../../api/schema';
import { speak } from '../../i18n/index.svelte';
import { serverNow } from '../../lib/clock.svelte';
import { session, whoAmI } from '../../lib/session.svelte';
import { Desk } from '../orders/desk.svelte';
import OrderStage from '../orders/OrderStage.svelte';
import { browserMemory } from '../purchase/memory';
import { order } from '../purchase/pretended';
import { loadWords } from '../words.svelte';
import { Mine } from './mine.svelte';
import { nextLookMs } from './waitlist';

/** The shop's answers, by method and path. */
const answers = vi.hoisted(() => {
  const answers = new Map<string, () => Response>();
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    const { method, url } = input as Request;
    const answer = answers.get(`${method} ${new URL(url).pathname}`);
    return answer ? answer() : Response.json({ code: 'not_found' }, { status: 404 });
  };
  return answers;
});

const WAITLIST = '/api/v1/sales/sale/waitlist';
const place = (position: number) => () =>
  Response.json({ sale_id: 'sale', quantity: 1, position, joined_at: '2026-01-01T00:00:00Z' });
const problem = (code: string, status: number) => () => Response.json({ code, detail: '' }, { status });
const orders = (...data: Order[]) =>
  answers.set('GET /api/v1/orders', () => Response.json({ data, next: null }));

beforeEach(async () => {
  vi.useFakeTimers();
  answers.clear();
  orders();
  document.cookie = 'penstock_signed_in=1';
  answers.set('GET /api/v1/me', () => Response.json({ buyer: 'ada', role: 'buyer', account: null }));
  await Promise.all([speak('en', false), loadWords('en'), whoAmI()]);
});
afterEach(() => void vi.useRealTimers());

async function waiting(): Promise<Mine> {
  answers.set(`POST ${WAITLIST}`, place(2));
  answers.set(`GET ${WAITLIST}`, place(2));
  const mine = new Mine('sale');
  await mine.refresh(false);
  expect(await mine.join(1)).toBeUndefined();
  return mine;
}

describe('the waitlist', () => {
  test('shows how the place moves up', async () => {
    const mine = await waiting();
    expect(mine.place?.position).toBe(2);
    answers.set(`GET ${WAITLIST}`, place(1));
    await vi.advanceTimersByTimeAsync(6_000);
    expect(mine.place?.position).toBe(1);
    mine.stop();
  });

  test('is fetched more often near the front, and rarely on a hidden page', () => {
    expect(nextLookMs(1, false, 0.5)).toBeLessThan(5_000);
    expect(nextLookMs(500, false, 0.5)).toBe(15_000);
    expect(nextLookMs(1, true, 0)).toBe(15_000);
    expect(nextLookMs(1, true, 1)).toBeLessThanOrEqual(30_000);
  });

  test('turns to the hold when something comes back', async () => {
    const mine = await waiting();
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    orders(order({ id: 'offer' }));
    await vi.advanceTimersByTimeAsync(6_000);
    expect(mine.desk?.order.id).toBe('offer');
    expect(mine.desk?.wasOffered).toBe(true);
    expect(mine.place).toBeNull();
    expect(mine.wasDropped).toBe(false);
  });

  test('keeps looking for the offer if orders can’t be read', async () => {
    answers.set('GET /api/v1/orders', problem('unavailable', 503));
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    const mine = new Mine('sale');
    await mine.refresh(true);
    expect(mine.desk).toBeUndefined();
    orders(order({ id: 'offer' }));
    await vi.advanceTimersByTimeAsync(60_000);
    expect(mine.desk?.order.id).toBe('offer');
    mine.stop();
  });

  test('is found again after a reload, even if the offer came meanwhile', async () => {
    answers.set(`GET ${WAITLIST}`, place(5));
    const mine = new Mine('sale');
    await mine.refresh(true);
    expect(mine.place?.position).toBe(5);
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    orders(order({ id: 'offer' }));
    await mine.refresh(true);
    expect(mine.desk?.order.id).toBe('offer');
    expect(mine.desk?.wasOffered).toBe(true);
  });

  test('finds an offer that comes while both are being fetched', async () => {
    const mine = await waiting();
    // The orders were read before the offer, the place after it.
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    answers.set('GET /api/v1/orders', () => {
      orders(order({ id: 'offer' }));
      return Response.json({ data: [], next: null });
    });
    await mine.refresh(true);
    expect(mine.desk?.order.id).toBe('offer');
    expect(mine.wasDropped).toBe(false);
    expect(mine.place).toBeNull();
  });

  test('is not dropped because of an answer from before joining', async () => {
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    const mine = new Mine('sale');
    const looking = mine.refresh(true);
    mine.place = { sale_id: 'sale', quantity: 1, position: 2, joined_at: '' };
    await looking;
    expect(mine.place?.position).toBe(2);
    expect(mine.wasDropped).toBe(false);
  });

  test('is no longer fetched when the session is over', async () => {
    await waiting();
    const asked = vi.fn(problem('unauthenticated', 401));
    answers.set(`GET ${WAITLIST}`, asked);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveBeenCalledTimes(1);
    expect(session.me).toBeNull();
  });

  test('is fetched again if the shop could not be reached', async () => {
    answers.set(`GET ${WAITLIST}`, problem('unavailable', 503));
    const mine = new Mine('sale');
    await mine.refresh(true);
    expect(mine.place).toBeUndefined();
    answers.set(`GET ${WAITLIST}`, place(4));
    await vi.advanceTimersByTimeAsync(6_000);
    expect(mine.place?.position).toBe(4);
    mine.stop();
  });

  test('says when it ended without an offer', async () => {
    const mine = await waiting();
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    await vi.advanceTimersByTimeAsync(6_000);
    expect(mine.place).toBeNull();
    expect(mine.wasDropped).toBe(true);
    expect(mine.desk).toBeUndefined();
  });

  test('is kept while the shop can’t be reached', async () => {
    const mine = await waiting();
    answers.set(`GET ${WAITLIST}`, problem('unavailable', 503));
    await vi.advanceTimersByTimeAsync(6_000);
    expect(mine.place?.position).toBe(2);
    const asked = vi.fn(problem('unavailable', 503));
    answers.set(`GET ${WAITLIST}`, asked);
    await vi.advanceTimersByTimeAsync(300_000);
    expect(asked.mock.calls.length).toBeLessThan(25);
    answers.set(`GET ${WAITLIST}`, place(1));
    await vi.advanceTimersByTimeAsync(30_000);
    expect(mine.place?.position).toBe(1);
    mine.stop();
  });

  test('is no longer fetched once it was left', async () => {
    const mine = await waiting();
    answers.set(`DELETE ${WAITLIST}`, () => new Response(null, { status: 204 }));
    expect(await mine.leave()).toBeUndefined();
    expect(mine.place).toBeNull();
    const asked = vi.fn(place(1));
    answers.set(`GET ${WAITLIST}`, asked);
    await vi.advanceTimersByTimeAsync(20_000);
    expect(asked).not.toHaveBeenCalled();
    expect(mine.wasDropped).toBe(false);
  });

  test('says why it can’t be joined, and that the sale has changed', async () => {
    answers.set(`POST ${WAITLIST}`, problem('not_sold_out', 409));
    const stale = vi.fn();
    const mine = new Mine('sale', stale);
    expect((await mine.join(1))?.code).toBe('not_sold_out');
    expect(stale).toHaveBeenCalledTimes(1);
  });
});

describe('the order on the stage', () => {
  test('is the one that has to be paid', async () => {
    orders(
      order({ id: 'newest', state: 'paid', created_at: '2026-01-02T00:00:00Z' }),
      order({ id: 'held' }),
      order({ id: 'else', sale_id: 'other' }),
    );
    const mine = new Mine('sale');
    await mine.refresh(false);
    expect(mine.desk?.order.id).toBe('held');
    expect(mine.orders?.map(({ id }) => id)).toEqual(['newest', 'held']);
  });

  test('is replaced by one that has to be paid once it is over', async () => {
    const mine = new Mine('sale');
    mine.show(order({ id: 'old', state: 'expired' }));
    orders(order({ id: 'new' }), order({ id: 'old', state: 'expired' }));
    await mine.refresh(false);
    expect(mine.desk?.order.id).toBe('new');
  });

  test('stays there during payment, and an offer that came meanwhile follows', async () => {
    const mine = await waiting();
    mine.show(order());
    let answer = (_: Response): void => {};
    const response = new Promise<Response>((resolve) => (answer = resolve));
    answers.set('POST /api/v1/orders/order-1/pay', () => response as unknown as Response);
    const paying = mine.desk?.pay();
    answers.set(`GET ${WAITLIST}`, problem('not_waiting', 404));
    orders(order({ id: 'offer', created_at: '2026-01-02T00:00:00Z' }), order());
    await vi.advanceTimersByTimeAsync(6_000);
    expect(mine.place).toBeNull();
    expect(mine.desk?.order.id).toBe('order-1');
    answer(Response.json(order({ state: 'paid' })));
    await paying;
    expect(mine.desk?.order.state).toBe('paid');
    orders(order({ id: 'offer', created_at: '2026-01-02T00:00:00Z' }), order({ state: 'paid' }));
    await mine.refresh(false);
    expect(mine.desk?.order.id).toBe('offer');
  });

  test('is the one whose payment was begun before the page was left', async () => {
    const older = order({ id: 'older', pay_before: '2999-01-01T00:00:00Z' });
    const newer = { ...older, id: 'newer', created_at: '2026-01-02T00:00:00Z' };
    browserMemory().keepPayment('older', serverNow());
    answers.set('GET /api/v1/orders/older', () => Response.json(older));
    answers.set('POST /api/v1/orders/older/pay', () => Response.json({ ...older, state: 'paid' }));
    orders(newer, older);
    const mine = new Mine('sale');
    await mine.refresh(false);
    await vi.advanceTimersByTimeAsync(1_000);
    expect(mine.desk?.order).toMatchObject({ id: 'older', state: 'paid' });
  });

  test('is paid once, and its end is reported', async () => {
    const finished = vi.fn();
    const mine = new Mine('sale', finished);
    mine.show(order());
    const pay = vi.fn(() => Response.json(order({ state: 'paid' })));
    answers.set('POST /api/v1/orders/order-1/pay', pay);
    await Promise.all([mine.desk?.pay(), mine.desk?.pay()]);
    expect(pay).toHaveBeenCalledTimes(1);
    expect(mine.desk?.order.state).toBe('paid');
    expect(finished).toHaveBeenCalledExactlyOnceWith(order({ state: 'paid' }));
  });

  test('shows its current state if it can’t be paid', async () => {
    const mine = new Mine('sale');
    mine.show(order());
    answers.set('POST /api/v1/orders/order-1/pay', problem('refund_due', 409));
    answers.set('GET /api/v1/orders/order-1', () => Response.json(order({ state: 'expired' })));
    await mine.desk?.pay();
    expect(mine.desk?.order.state).toBe('expired');
    expect(mine.desk?.failure?.code).toBe('refund_due');
  });

  test('may be paid by another tab without a failure', async () => {
    const mine = new Mine('sale');
    mine.show(order({ pay_before: '2999-01-01T00:00:00Z' }));
    answers.set('POST /api/v1/orders/order-1/cancel', problem('already_paid', 409));
    answers.set('GET /api/v1/orders/order-1', () => Response.json(order({ state: 'paid' })));
    await mine.desk?.cancel();
    expect(mine.desk?.order.state).toBe('paid');
    expect(mine.desk?.failure?.code).toBe('already_paid');
    answers.set('POST /api/v1/orders/order-1/pay', problem('unavailable', 503));
    await mine.desk?.pay();
    expect(mine.desk?.failure).toBeUndefined();
  });

  test('does not return after its time is over if the buyer wants another', async () => {
    const mine = new Mine('sale');
    mine.show(order({ pay_before: '2020-01-01T00:00:00Z' }));
    mine.leaveStage();
    orders(order({ pay_before: '2020-01-01T00:00:00Z' }));
    await mine.refresh(false);
    expect(mine.desk).toBeUndefined();
  });

  test('does not go back to held because of a late answer', () => {
    const mine = new Mine('sale');
    mine.show(order({ state: 'paid' }));
    mine.show(order({ state: 'held' }));
    expect(mine.desk?.order.state).toBe('paid');
  });

  test('is fetched less and less often, and not for ever, when its time is over', async () => {
    const asked = vi.fn(() => Response.json(order()));
    answers.set('GET /api/v1/orders/order-1', asked);
    render(OrderStage, { desk: new Desk(order()), now: Date.parse('2999-01-01') });
    await vi.advanceTimersByTimeAsync(10_000);
    const soon = asked.mock.calls.length;
    expect(soon).toBeGreaterThan(1);
    await vi.advanceTimersByTimeAsync(50_000);
    expect(asked.mock.calls.length).toBeLessThan(12);
    await vi.advanceTimersByTimeAsync(3_600_000);
    const last = asked.mock.calls.length;
    expect(last).toBeGreaterThan(soon);
    await vi.advanceTimersByTimeAsync(3_600_000);
    expect(asked).toHaveBeenCalledTimes(last);
    cleanup();
  });

  test('is no longer fetched when the session is over', async () => {
    const desk = new Desk(order());
    const asked = vi.fn(problem('unauthenticated', 401));
    answers.set('GET /api/v1/orders/order-1', asked);
    desk.awaitExpiry();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(asked).toHaveBeenCalledTimes(1);
    expect(session.me).toBeNull();
  });
});
