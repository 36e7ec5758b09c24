// Payments over an unreliable network: they continue on any page, and nobody pays twice or too late.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { serverNow } from '../../lib/clock.svelte';
import { order } from '../purchase/pretended';
import { loadWords } from '../words.svelte';
import { Desk } from './desk.svelte';
import OrderCard from './OrderCard.svelte';
import OrderStage from './OrderStage.svelte';

/** A shop that can be out of reach, and the requests it got. */
const shop = vi.hoisted(() => {
  const shop = {
    isAway: false,
    /** How many of the next answers are lost, although the requests are carried out. */
    losesAnswers: 0,
    state: 'held' as 'held' | 'paid',
    payBefore: '',
    refusal: undefined as { code: string; status: number } | undefined,
    paid: 0,
    asked: [] as string[],
    order: (): unknown => undefined,
  };
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    const { method, url } = input as Request;
    if (shop.isAway) throw new TypeError('no network');
    if (!url.includes('/orders/')) return Response.json({}, { status: 404 });
    const call = `${method} ${new URL(url).pathname.replace('/api/v1/orders/order-1', 'order')}`;
    shop.asked.push(call);
    if (method === 'POST' && shop.refusal) return Response.json(shop.refusal, shop.refusal);
    if (call === 'POST order/pay' && shop.state === 'held') {
      shop.state = 'paid';
      shop.paid += 1;
    }
    if (shop.losesAnswers > 0) {
      shop.losesAnswers -= 1;
      throw new TypeError('lost');
    }
    return Response.json(shop.order());
  };
  return shop;
});

shop.order = () => order({ state: shop.state, pay_before: shop.payBefore });
const held = () => order({ pay_before: shop.payBefore });
const pays = () => shop.asked.filter((call) => call === 'POST order/pay').length;

beforeEach(async () => {
  vi.useFakeTimers();
  localStorage.clear();
  const payBefore = new Date(serverNow() + 15 * 60_000).toISOString();
  Object.assign(shop, { isAway: false, losesAnswers: 0, state: 'held', payBefore, refusal: undefined });
  Object.assign(shop, { paid: 0, asked: [] });
  await Promise.all([speak('en', false), loadWords('en')]);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test('a payment continues by itself when the network is back', async () => {
  const desk = new Desk(held());
  render(OrderStage, { desk, now: serverNow() });
  shop.isAway = true;
  const paying = desk.pay();
  await vi.advanceTimersByTimeAsync(30_000);
  screen.getByText('Still trying …');
  screen.getByText(/Nothing is paid twice/);
  shop.isAway = false;
  await vi.advanceTimersByTimeAsync(60_000);
  await paying;
  screen.getByText('Paid. It’s yours!');
  expect([shop.paid, desk.trouble, desk.failure]).toEqual([1, undefined, undefined]);
});

test('a lost answer leads to no second payment', async () => {
  const desk = new Desk(held());
  shop.losesAnswers = 1;
  await desk.pay();
  expect([desk.order.state, pays()]).toEqual(['paid', 1]);
});

test('a payment continues after a reload, and only once', async () => {
  shop.isAway = true;
  const before = new Desk(held());
  void before.pay();
  await vi.advanceTimersByTimeAsync(5_000);
  // The page is closed.
  before.close();
  shop.isAway = false;
  const after = new Desk(held());
  await after.resume();
  expect([after.order.state, shop.paid, pays()]).toEqual(['paid', 1, 1]);
  shop.asked = [];
  await new Desk(held()).resume();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(shop.asked).toEqual([]);
});

test('nobody pays by coming back much later, or when the time is over', async () => {
  const begin = async () => {
    shop.isAway = true;
    const desk = new Desk(held());
    void desk.pay();
    await vi.advanceTimersByTimeAsync(1_000);
    desk.close();
    shop.isAway = false;
  };
  await begin();
  vi.advanceTimersByTime(11 * 60_000);
  await new Desk(held()).resume();
  expect(pays()).toBe(0);
  await begin();
  vi.advanceTimersByTime(5 * 60_000);
  await new Desk(held()).resume();
  expect(pays()).toBe(0);
});

test('a payment that is delayed until the time is over is not made', async () => {
  shop.payBefore = new Date(serverNow() + 20_000).toISOString();
  const desk = new Desk(held());
  shop.isAway = true;
  const paying = desk.pay();
  await vi.advanceTimersByTimeAsync(21_000);
  shop.isAway = false;
  await vi.advanceTimersByTimeAsync(60_000);
  await paying;
  expect([shop.paid, pays(), desk.busy]).toEqual([0, 0, undefined]);
});

test('a buyer may stop the tries, and then nothing continues', async () => {
  const desk = new Desk(held());
  render(OrderStage, { desk, now: serverNow() });
  shop.isAway = true;
  void desk.pay();
  await vi.advanceTimersByTimeAsync(5_000);
  const stop = screen.getByRole('button', { name: 'Stop trying' });
  stop.focus();
  stop.click();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(document.activeElement).toBe(screen.getByRole('button', { name: /^Pay/ }));
  shop.isAway = false;
  await vi.advanceTimersByTimeAsync(60_000);
  await new Desk(held()).resume();
  expect(pays()).toBe(0);
});

/** Locks as in browsers: one holder at a time, and later ones wait. */
function locks(): Pick<LockManager, 'request'> {
  let last: Promise<unknown> = Promise.resolve();
  let held = 0;
  const request = async (_: string, options: LockOptions, work: (lock: Lock | null) => unknown) => {
    if (options.ifAvailable && held > 0) return work(null);
    held += 1;
    const before = last;
    const mine = (async () => {
      await before.catch(() => undefined);
      return work({} as Lock);
    })();
    last = mine;
    return mine.finally(() => (held -= 1));
  };
  return { request: request as LockManager['request'] };
}

test('a payment stopped in one tab does not continue in another that waited for its turn', async () => {
  vi.spyOn(navigator, 'locks', 'get').mockReturnValue(locks() as LockManager);
  shop.isAway = true;
  const [first, second] = [new Desk(held()), new Desk(held())];
  void first.pay();
  await vi.advanceTimersByTimeAsync(5_000);
  const resumed = second.resume();
  await vi.advanceTimersByTimeAsync(1_000);
  expect(second.busy).toBe('pay');
  void first.giveUp();
  shop.isAway = false;
  await vi.advanceTimersByTimeAsync(60_000);
  await resumed;
  expect([pays(), second.busy]).toEqual([0, undefined]);
});

test('a final refusal is not retried', async () => {
  shop.refusal = { code: 'hold_expired', status: 409 };
  const desk = new Desk(held());
  await desk.pay();
  expect([desk.failure?.code, pays()]).toEqual(['hold_expired', 1]);
  shop.asked = [];
  await new Desk(held()).resume();
  expect(shop.asked).toEqual([]);
});

test.each([
  ['on the stage', OrderStage],
  ['in the list', OrderCard],
])('the focus stays near the button after paying by keyboard: %s', async (_, part) => {
  const desk = new Desk(held());
  const { container } = render(part, { desk, now: serverNow() });
  const pay = screen.getByRole('button', { name: /^Pay/ });
  pay.focus();
  pay.click();
  // The focus stays during the payment.
  expect(document.activeElement).toBe(pay);
  await vi.advanceTimersByTimeAsync(100);
  expect(desk.order.state).toBe('paid');
  const focused = document.activeElement;
  expect(focused !== document.body && container.contains(focused)).toBe(true);
});
