// What a buyer reads about an order that was paid when nothing was left.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { order } from '../purchase/pretended';
import { loadWords } from '../words.svelte';
import { Desk } from './desk.svelte';
import OrderCard from './OrderCard.svelte';
import OrderStage from './OrderStage.svelte';

const answers = vi.hoisted(() => {
  const answers = new Map<string, () => Response>();
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    const { method, url } = input as Request;
    const answer = answers.get(`${method} ${new URL(url).pathname}`);
    if (!answer) throw new TypeError('no network');
    return answer();
  };
  return answers;
});

const NOW = Date.parse('2026-01-01T00:20:00Z');
const IN_TIME = Date.parse('2026-01-01T00:10:00Z');
const BACK = 'You get back what you paid. You don’t have to do anything.';
const problem = (code: string) => () => Response.json({ code, status: 409 }, { status: 409 });
const unpaid = order({ state: 'expired' });
const refunded = order({ state: 'expired', refund_due: true });

beforeEach(async () => {
  answers.clear();
  await Promise.all([speak('en', false), loadWords('en')]);
});
afterEach(cleanup);

describe.each([
  ['on the stage', OrderStage],
  ['in the list', OrderCard],
])('%s', (_, part) => {
  test('the refund is shown in both places', () => {
    const { container } = render(part, { desk: new Desk(refunded), now: NOW });
    expect(screen.getByText('The payment came too late: nothing was left for it.')).toBeTruthy();
    expect(screen.getByText(BACK)).toBeTruthy();
    expect(container.textContent).not.toMatch(/charged/);
  });

  test('a refund is not mentioned if nobody paid', () => {
    const { container } = render(part, { desk: new Desk(unpaid), now: NOW });
    expect(screen.queryByText(BACK)).toBeNull();
    expect(container.textContent).not.toMatch(/charged/);
  });

  test('a later cancellation does not hide the payment', async () => {
    answers.set('POST /api/v1/orders/order-1/cancel', problem('hold_expired'));
    answers.set('GET /api/v1/orders/order-1', () => Response.json(refunded));
    const desk = new Desk(order());
    render(part, { desk, now: IN_TIME });
    await desk.cancel();
    expect(await screen.findByText(BACK)).toBeTruthy();
    expect(screen.queryByText('The time to pay is over.')).toBeNull();
  });

  test('the refund is shown and paying again is impossible, even if the order can no longer be read', async () => {
    answers.set('POST /api/v1/orders/order-1/pay', problem('refund_due'));
    const desk = new Desk(order());
    render(part, { desk, now: IN_TIME });
    await desk.pay();
    expect(await screen.findByText(BACK)).toBeTruthy();
    expect(screen.queryByRole('button', { name: /^Pay/ })).toBeNull();
  });
});

test('in Chinese, too', async () => {
  await Promise.all([speak('zh', false), loadWords('zh')]);
  const paid = render(OrderStage, { desk: new Desk(refunded), now: NOW });
  expect(screen.getByText('款项会退还给你，无需任何操作。')).toBeTruthy();
  paid.unmount();
  render(OrderStage, { desk: new Desk(unpaid), now: NOW });
  expect(screen.getByText('未在规定时间内付款，商品不再为你保留。')).toBeTruthy();
});

test('a refund stays due, whatever a late answer says', () => {
  const desk = new Desk(refunded);
  desk.take(unpaid);
  expect(desk.refundDue).toBe(true);
});
