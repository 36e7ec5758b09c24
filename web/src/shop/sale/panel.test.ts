// The sale page's panel in its main states, as a buyer sees them.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Failure } from '../../api/client';
import type { Order, Sale, Ticket } from '../../api/schema';
import { speak } from '../../i18n/index.svelte';
import { whoAmI } from '../../lib/session.svelte';
import type { Step } from '../purchase/purchase.svelte';
import { loadWords } from '../words.svelte';
import Panel from './Panel.svelte';
import * as parts from './personal';
import * as pretended from '../purchase/pretended';
import type { Phase } from './phase';

// The client keeps `fetch` from when it is loaded. Nothing here needs an answer.
vi.hoisted(() => {
  globalThis.fetch = async () => Response.json({ buyer: 'ada', role: 'buyer', account: null, data: [] });
});

const NOW = Date.parse('2026-01-01T12:00:00Z');
const price = { amount: '199.00', currency: 'CNY' };

const order = pretended.order({
  unit_price: price,
  total: price,
  created_at: '2026-01-01T11:59:00Z',
  pay_before: '2026-01-01T12:14:00Z',
});

function failure(code: Failure['code']): Failure {
  return { code, status: 409, detail: '', fields: {}, retryAfterSeconds: undefined };
}

/** A purchase that stands at `step`. */
function at(step: Step, trouble?: Failure) {
  return {
    step,
    trouble,
    wasAsked: true,
    missedTurn: false,
    buy: vi.fn(async () => {}),
    tryAgain: vi.fn(async () => {}),
    takeOver: vi.fn(async () => {}),
    answer: vi.fn(),
    another: vi.fn(),
    leave: vi.fn(),
  };
}

function show(
  step: Step,
  {
    phase = 'open' as Phase,
    orders = [] as Order[],
    desk = undefined as Order | undefined,
    trouble = undefined as Failure | undefined,
    change = {} as Partial<Sale>,
    now = NOW,
    purchase = at(step, trouble),
  } = {},
) {
  const mine = new parts.Mine('sale');
  mine.orders = orders;
  if (desk) mine.show(desk);
  const { rerender } = render(Panel, {
    sale: pretended.sale({ limit_per_buyer: 2, ...change }),
    phase,
    parts,
    mine,
    purchase: purchase as unknown as parts.Purchase,
    wasCutOff: false,
    now,
  });
  return { mine, purchase, rerender };
}

const button = (name: RegExp) => screen.getByRole('button', { name });

beforeEach(async () => {
  document.cookie = 'penstock_signed_in=1';
  document.cookie = 'penstock_signed_in=1';
  await Promise.all([speak('en', false), loadWords('en'), whoAmI()]);
});
afterEach(cleanup);

describe('a buyer who can buy', () => {
  test('chooses how many, sees what it costs, and buys with one click', async () => {
    const { purchase } = show({ at: 'idle' });
    button(/One more/).click();
    await vi.waitFor(() => button(/Buy now\s+· CN¥398/).click());
    expect(purchase.buy).toHaveBeenCalledExactlyOnceWith(2, []);
    // The choice stays; reset it for the next test.
    button(/One fewer/).click();
    await vi.waitFor(() => button(/Buy now\s+· CN¥199/));
  });

  test('has no choice where there is none', () => {
    show({ at: 'idle' }, { change: { limit_per_buyer: 1 } });
    expect(screen.queryByText('Quantity')).toBeNull();
    expect((button(/^Buy now\s+· CN¥199/) as HTMLButtonElement).disabled).toBe(false);
  });

  test('has as many as allowed: is led to the orders', () => {
    show({ at: 'idle' }, { orders: [{ ...order, state: 'paid', quantity: 2 }] });
    screen.getByText(/as many as one person may buy/);
    expect(screen.queryByRole('button', { name: /Buy/ })).toBeNull();
    expect(screen.getByRole('link', { name: 'See my orders' }).getAttribute('href')).toBe('/orders');
  });
});

describe('a buyer who can’t buy', () => {
  test('is told before the opening', () => {
    show({ at: 'idle' }, { phase: 'soon' });
    expect((button(/Not open yet/) as HTMLButtonElement).disabled).toBe(true);
  });

  test('may join the waiting room before the opening', () => {
    const gate: Sale['gate'] = { challenge: 'none', waiting_room: true, pass_required: true };
    const { purchase } = show({ at: 'idle' }, { phase: 'soon', change: { gate } });
    button(/Join the waiting room/).click();
    expect(purchase.buy).toHaveBeenCalledTimes(1);
  });

  test('is told that it is paused, closed, or sold out with a waitlist', () => {
    show({ at: 'idle' }, { phase: 'paused' });
    screen.getByText('The seller has paused this sale.');
    cleanup();
    show({ at: 'idle' }, { phase: 'closed' });
    screen.getByText('This sale is over.');
    cleanup();
    show({ at: 'idle' }, { phase: 'closed', orders: [{ ...order, state: 'paid' }] });
    screen.getByText(/You have 1 of this already/);
    cleanup();
    show({ at: 'idle' }, { phase: 'sold_out' });
    screen.getByText('Sold out');
    button(/Join the waitlist/);
  });

  test('sees the place on the waitlist', async () => {
    const { mine } = show({ at: 'idle' }, { phase: 'sold_out' });
    mine.place = { sale_id: 'sale', quantity: 1, position: 7, joined_at: '' };
    await vi.waitFor(() => screen.getByText('You are on the waitlist'));
    screen.getByText('7');
    mine.stop();
  });

  test('is told why, and what to do', () => {
    show({ at: 'refused', failure: failure('limit_reached'), goesOn: false });
    const alert = screen.getByRole('alert');
    expect(alert.textContent).toContain('over the limit per person');
    expect(alert.querySelector('a')?.getAttribute('href')).toBe('/orders');
    // The choice is still there.
    button(/Buy now/);
  });

  test('is told once that it is sold out, that nothing was charged, and the likely place on the waitlist', async () => {
    const refused: Step = { at: 'refused', failure: failure('sold_out'), goesOn: false, atMost: 0 };
    const { rerender } = show(refused, { phase: 'sold_out', change: { waitlist: 12 } });
    await vi.waitFor(() => screen.getByText(/You were not charged/));
    expect(screen.getAllByText(/sold out/i)).toHaveLength(1);
    expect(screen.queryByRole('alert')).toBeNull();
    screen.getByText('If you join now, you are likely number 13.');
    button(/Join the waitlist/);
    expect(screen.queryByRole('button', { name: /Buy/ })).toBeNull();
    // Something came back.
    await rerender({
      purchase: at({ at: 'idle' }) as unknown as parts.Purchase,
      phase: 'open',
      sale: pretended.sale({ limit_per_buyer: 2 }),
    });
    button(/Buy now/);
    expect(screen.queryByText(/You were not charged/)).toBeNull();
  });

  test('is told no unknown place, and is told if they would be first', async () => {
    const { rerender } = show({ at: 'idle' }, { phase: 'sold_out' });
    expect(screen.queryByText(/likely/)).toBeNull();
    expect(screen.queryByText(/You were not charged/)).toBeNull();
    await rerender({ sale: pretended.sale({ limit_per_buyer: 2, waitlist: 0 }) });
    screen.getByText('Nobody is waiting yet: if you join now, you are likely first.');
  });

  test('is told to choose fewer if only some are left, not that nothing is', () => {
    show({ at: 'refused', failure: failure('sold_out'), goesOn: false, atMost: 1 });
    screen.getByText('There are fewer than 2 left. Choose fewer and try again.');
    expect(screen.queryByText(/sold out/i)).toBeNull();
    button(/Buy now/);
  });

  test('has all that one person may have: needs no waitlist', () => {
    const orders: Order[] = [{ ...order, state: 'paid', quantity: 2 }];
    show({ at: 'idle' }, { phase: 'sold_out', orders });
    screen.getByText(/as many as one person may buy/);
    expect(screen.queryByRole('button', { name: /waitlist/ })).toBeNull();
  });

  test('can continue after a passing failure', () => {
    const { purchase } = show({ at: 'refused', failure: failure('busy'), goesOn: true });
    button(/Try again/).click();
    expect(purchase.tryAgain).toHaveBeenCalledTimes(1);
    expect(screen.queryByRole('button', { name: /Buy/ })).toBeNull();
    button(/Give up/).click();
    expect(purchase.leave).toHaveBeenCalledTimes(1);
  });

  test('can change the quantity before ordering', () => {
    const refused = { ...at({ at: 'refused', failure: failure('busy'), goesOn: true }), wasAsked: false };
    const { purchase } = show(refused.step, { purchase: refused });
    button(/Try again/);
    button(/One more/);
    button(/Buy now/).click();
    expect(purchase.buy).toHaveBeenCalledTimes(1);
  });

  test('may wait for another one while an order is in doubt', () => {
    show({ at: 'refused', failure: failure('busy'), goesOn: true }, { phase: 'sold_out' });
    button(/Try again/);
    button(/Join the waitlist/);
  });
});

describe('a buyer on the way to an order', () => {
  test('sees the order being placed, and that it is tried again', () => {
    show({ at: 'ordering' }, { trouble: failure('busy') });
    screen.getByText('Placing your order …');
    screen.getByText('Still trying …');
  });

  test('sees the place in line', () => {
    const ticket: Ticket = {
      ticket: 't',
      number: 1,
      state: 'waiting',
      position: 1234,
      estimated_wait_seconds: 130,
    };
    show({ at: 'waiting', from: 2000, ticket });
    screen.getByText('1,234');
    screen.getByText('1,233 people before you');
    screen.getByText('About 2 minutes to go');
    expect(screen.getByRole('progressbar').getAttribute('aria-valuenow')).toBe('767');
  });

  test('is told that places are drawn at the opening', () => {
    const ticket: Ticket = { ticket: 't', number: 1, state: 'waiting', position: null };
    show({ at: 'waiting', from: null, ticket }, { phase: 'soon' });
    screen.getByText('Places are drawn at the opening');
  });

  test('reads a picture, or has another way', async () => {
    const { purchase } = show({ at: 'captcha', image: 'data:,x', wrong: true, turnUntil: null });
    screen.getByText(/That was not right/);
    const input = screen.getByLabelText('Characters') as HTMLInputElement;
    input.value = ' abcde ';
    input.dispatchEvent(new Event('input', { bubbles: true }));
    await vi.waitFor(() => expect(screen.queryByText(/That was not right/)).toBeNull());
    button(/Continue/).click();
    expect(purchase.answer).toHaveBeenCalledExactlyOnceWith('abcde');
    button(/puzzle instead/).click();
    expect(purchase.another).toHaveBeenCalledExactlyOnceWith('pow');
  });

  test('sees the next step, wherever the page is scrolled to', async () => {
    const seen = vi.fn();
    Element.prototype.scrollIntoView = seen;
    const { rerender } = show({ at: 'idle' });
    expect(seen).not.toHaveBeenCalled();
    await rerender({ purchase: at({ at: 'ordering' }) as unknown as parts.Purchase });
    await vi.waitFor(() => expect(seen).toHaveBeenCalledTimes(1));
  });

  test('hears the place in line now and then, and when it is near', async () => {
    const standing = (position: number) => {
      const ticket: Ticket = { ticket: 't', number: 1, state: 'waiting', position };
      return at({ at: 'waiting', from: 2000, ticket }) as unknown as parts.Purchase;
    };
    const { rerender } = show(standing(1000).step);
    const said = () => screen.getByRole('status').textContent;
    await vi.waitFor(() => expect(said()).toContain('999 people'));
    await rerender({ purchase: standing(900) });
    screen.getByText('899 people before you');
    expect(said()).toContain('999 people');
    await rerender({ purchase: standing(2) });
    await vi.waitFor(() => expect(said()).toContain('1 person'));
    const later = Date.now() + 60_000;
    vi.spyOn(Date, 'now').mockReturnValue(later);
    await rerender({ purchase: standing(800) });
    await vi.waitFor(() => expect(said()).toContain('799 people'));
    vi.restoreAllMocks();
  });

  test('can take over from another tab', () => {
    const { purchase } = show({ at: 'elsewhere' });
    button(/Continue here/).click();
    expect(purchase.takeOver).toHaveBeenCalledTimes(1);
  });
});

describe('a buyer with an order', () => {
  test('can pay or cancel while it is held', () => {
    show({ at: 'done', order }, { desk: order });
    screen.getByText('It’s yours. Pay to keep it');
    button(/^Pay CN¥199$/);
    button(/Cancel order/);
    screen.getByText('order-1');
  });

  test('sees at once that the time is over, before the shop says so', () => {
    show({ at: 'done', order }, { desk: order, now: Date.parse(order.pay_before) });
    screen.getByText('The time to pay is over');
    expect(screen.queryByRole('button', { name: /^Pay/ })).toBeNull();
    button(/Buy again/);
  });

  test('may wait for another one if nothing is left', () => {
    show({ at: 'done', order }, { desk: { ...order, state: 'expired' }, phase: 'sold_out' });
    screen.getByText('The time to pay is over');
    button(/Join the waitlist/);
  });

  test('sees that it is paid, and may buy one more', () => {
    show({ at: 'done', order }, { desk: { ...order, state: 'paid' } });
    screen.getByText('Paid. It’s yours!');
    button(/Buy one more/);
  });
});
