// The whole page of a sale: its requests to the shop, and its messages when the session ends.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { go } from '../../lib/router.svelte';
import { signedOut, whoAmI } from '../../lib/session.svelte';
// Loaded in advance, so that no test waits for it.
import '../sale/personal';
import { order, sale } from '../purchase/pretended';
import { loadWords } from '../words.svelte';
import SalePage from './SalePage.svelte';

const { answers, asked } = vi.hoisted(() => {
  const answers = new Map<string, () => Response | Promise<Response>>();
  const asked: string[] = [];
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    const { method, url } = input as Request;
    const call = `${method} ${new URL(url).pathname}`;
    asked.push(call);
    return answers.get(call)?.() ?? Response.json({ code: 'not_found' }, { status: 404 });
  };
  // A stream of the waiting room that never says anything.
  globalThis.EventSource = class {
    addEventListener(): void {}
    close(): void {}
  } as unknown as typeof EventSource;
  return { answers, asked };
});

const ORDER = 'POST /api/v1/sales/sale/orders';

/** The number of requests for the sale. */
const looks = () => asked.filter((call) => call === 'GET /api/v1/sales/sale').length;

async function buyButton(): Promise<HTMLButtonElement> {
  return vi.waitFor(() => {
    const buy: HTMLButtonElement = screen.getByRole('button', { name: /Buy now/ });
    expect(buy.disabled).toBe(false);
    return buy;
  });
}

beforeEach(async () => {
  vi.useFakeTimers();
  vi.spyOn(Math, 'random').mockReturnValue(0.9);
  document.cookie = 'penstock_signed_in=1';
  localStorage.clear();
  answers.clear();
  answers.set('GET /api/v1/me', () => Response.json({ buyer: 'ada', role: 'buyer', account: null }));
  answers.set('GET /api/v1/orders', () => Response.json({ data: [], next: null }));
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale()));
  go('/sales/sale');
  await Promise.all([speak('en', false), loadWords('en'), whoAmI()]);
  asked.length = 0;
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.useRealTimers();
});

test('a buyer whose session ends in the waiting room is told so', async () => {
  const ticket = { ticket: 't', number: 7, state: 'waiting', position: 7 };
  answers.set('GET /api/v1/sales/sale', () =>
    Response.json(sale({ gate: { challenge: 'none', waiting_room: true, pass_required: true } })),
  );
  answers.set('POST /api/v1/sales/sale/tickets', () => Response.json(ticket, { status: 201 }));
  render(SalePage);
  (await buyButton()).click();
  await vi.waitFor(() => screen.getByText('You are in the waiting room'));
  signedOut();
  await vi.waitFor(() => screen.getByText(/Your session is over/));
});

test('a refusal is shown at once, and nothing is requested in the same moment', async () => {
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  render(SalePage);
  const buy = await buyButton();
  asked.length = 0;
  buy.click();
  await vi.waitFor(() => screen.getByRole('button', { name: /Join the waitlist/ }));
  expect(asked).toEqual([ORDER]);
});

test('the page says once that it is sold out, and nothing that contradicts it, before and after it looks again', async () => {
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale({ stock: { total: 100, available: 12 } })));
  answers.set('GET /api/v1/sales/sale/waitlist', () =>
    Response.json({ code: 'not_waiting' }, { status: 404 }),
  );
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  const { container } = render(SalePage);
  const buy = await buyButton();
  screen.getByText('12 of 100');
  buy.click();
  await vi.waitFor(() => screen.getByRole('button', { name: /Join the waitlist/ }));
  const says = () => container.textContent ?? '';
  for (const _ of ['at once', 'after the next look']) {
    expect(says().match(/sold out/gi)).toHaveLength(1);
    expect(says()).not.toMatch(/\d+ left|Plenty|12 of 100|Buy now/);
    expect(says()).toContain('You were not charged.');
    answers.set('GET /api/v1/sales/sale', () =>
      Response.json(sale({ state: 'sold_out', stock: { total: 100, available: 0 }, waitlist: 3 })),
    );
    await vi.advanceTimersByTimeAsync(5_000);
  }
  screen.getByText('If you join now, you are likely number 4.');
});

test('a look with data from before the refusal changes nothing', async () => {
  const left = (available: number) =>
    answers.set('GET /api/v1/sales/sale', () => Response.json(sale({ stock: { total: 100, available } })));
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  left(12);
  const { container } = render(SalePage);
  (await buyButton()).click();
  await vi.waitFor(() => screen.getByRole('button', { name: /Join the waitlist/ }));
  // A proxy may have a newer page than ours that is still from before the refusal.
  for (const available of [12, 5]) {
    left(available);
    const before = looks();
    document.dispatchEvent(new Event('visibilitychange'));
    await vi.advanceTimersByTimeAsync(500);
    expect(looks()).toBe(before + 1);
    expect(container.textContent).not.toMatch(/\d+ left|\d+ of 100|Buy now/);
    expect(container.textContent?.match(/sold out/gi)).toHaveLength(1);
    expect(container.textContent).toContain('You were not charged.');
  }
  // Later on it counts: something came back.
  await vi.advanceTimersByTimeAsync(5_000);
  await buyButton();
  screen.getByText('Only 5 left');
});

test('the first look after a refusal waits until a proxy has the current sale', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0);
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  render(SalePage);
  (await buyButton()).click();
  await vi.waitFor(() => screen.getByRole('button', { name: /Join the waitlist/ }));
  const before = looks();
  await vi.advanceTimersByTimeAsync(1_200);
  expect(looks()).toBe(before);
  await vi.advanceTimersByTimeAsync(400);
  expect(looks()).toBe(before + 1);
});

test('a buyer who asked for too many is told so, without the outdated figure', async () => {
  const some = { limit_per_buyer: 5, stock: { total: 100, available: 12 } };
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale(some)));
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  const { container } = render(SalePage);
  await buyButton();
  screen.getByRole('button', { name: 'One more' }).click();
  await vi.waitFor(() => screen.getByRole('button', { name: /Buy now.*398/ }).click());
  await vi.waitFor(() => screen.getByText('There are fewer than 2 left. Choose fewer and try again.'));
  expect(container.textContent).not.toMatch(/12 (left|of)|sold out/i);
  // The next look has the figure.
  answers.set('GET /api/v1/sales/sale', () =>
    Response.json(sale({ ...some, stock: { total: 100, available: 1 } })),
  );
  await vi.advanceTimersByTimeAsync(6_000);
  screen.getByText('Only 1 left');
  expect(container.textContent).not.toMatch(/fewer than/);
});

test('a later refusal for another reason stays', async () => {
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  render(SalePage);
  (await buyButton()).click();
  await vi.waitFor(() => screen.getByRole('button', { name: /Join the waitlist/ }));
  // Something came back.
  await vi.advanceTimersByTimeAsync(5_000);
  answers.set(ORDER, () => Response.json({ code: 'limit_reached' }, { status: 409 }));
  (await buyButton()).click();
  await vi.waitFor(() => screen.getByText(/over the limit per person/));
  await vi.advanceTimersByTimeAsync(30_000);
  screen.getByText(/over the limit per person/);
});

test('after a session ends during a payment, the payment continues in a new one', async () => {
  const held = order({ pay_before: new Date(Date.now() + 900_000).toISOString() });
  let state = 'held';
  answers.set('GET /api/v1/orders', () => Response.json({ data: [{ ...held, state }], next: null }));
  answers.set('GET /api/v1/orders/order-1', () => Response.json({ ...held, state }));
  answers.set('POST /api/v1/orders/order-1/pay', () =>
    Response.json({ code: 'unauthorized' }, { status: 401 }),
  );
  render(SalePage);
  (await vi.waitFor(() => screen.getByRole('button', { name: /^Pay / }))).click();
  await vi.waitFor(() => screen.getByText(/Your session is over/));
  answers.set('POST /api/v1/orders/order-1/pay', () => {
    state = 'paid';
    return Response.json({ ...held, state });
  });
  await whoAmI();
  await vi.waitFor(() => screen.getByText('Paid. It’s yours!'));
});

test('a missing sale offers no retry', async () => {
  answers.set('GET /api/v1/sales/sale', () => Response.json({ code: 'sale_not_found' }, { status: 404 }));
  render(SalePage);
  await vi.waitFor(() => screen.getByRole('heading', { level: 1, name: 'This sale does not exist' }));
  expect(screen.queryByRole('alert')).toBeNull();
  expect(screen.queryByRole('button', { name: 'Try again' })).toBeNull();
  expect(screen.getByRole('link', { name: 'All sales' }).getAttribute('href')).toBe('/');
});

test('a purchase continues after a pause that the page has not seen', async () => {
  answers.set(ORDER, () => Response.json({ code: 'paused' }, { status: 409 }));
  render(SalePage);
  (await buyButton()).click();
  await vi.waitFor(() => screen.getByText('The seller has paused this sale.'));
  screen.getByRole('button', { name: 'Give up this purchase' });
  answers.set(ORDER, () => Response.json(order(), { status: 201 }));
  await vi.advanceTimersByTimeAsync(10_000);
  screen.getByText(/It’s yours/);
  expect(asked.filter((call) => call === ORDER)).toHaveLength(2);
});

test('a closed page orders nothing', async () => {
  const intent = { key: 'k', quantity: 1, touchedAt: Date.now(), keptAt: Date.now() };
  localStorage.setItem('penstock.purchase.ada.sale', JSON.stringify(intent));
  let arrive: (() => void) | undefined;
  const empty = () => Response.json({ data: [], next: null });
  answers.set('GET /api/v1/orders', () => new Promise((resolve) => (arrive = () => resolve(empty()))));
  const { unmount } = render(SalePage);
  await vi.waitFor(() => expect(arrive).toBeDefined());
  unmount();
  arrive?.();
  await vi.advanceTimersByTimeAsync(60_000);
  expect(asked).not.toContain(ORDER);
});

test('a sale that was closed early shows no end in the future', async () => {
  const over = { ...sale(), state: 'closed', closes_at: new Date(Date.now() + 3_600_000).toISOString() };
  answers.set('GET /api/v1/sales/sale', () => Response.json(over));
  render(SalePage);
  await vi.waitFor(() => screen.getByText('This sale is over.'));
  expect(screen.queryByText(/Ended/)).toBeNull();
  over.closes_at = new Date(Date.now() - 3_600_000).toISOString();
  cleanup();
  render(SalePage);
  await vi.waitFor(() => screen.getByText(/Ended/));
});

test('a buyer sent away from the waiting room after a reload is told that nothing is left, not to buy fewer', async () => {
  const intent = { key: 'k', quantity: 1, touchedAt: Date.now(), keptAt: Date.now() };
  localStorage.setItem('penstock.purchase.ada.sale', JSON.stringify(intent));
  answers.set(ORDER, () => Response.json({ code: 'sold_out' }, { status: 409 }));
  render(SalePage);
  await vi.waitFor(() => screen.getByRole('button', { name: /Join the waitlist/ }));
  expect(screen.queryByRole('button', { name: /Buy now/ })).toBeNull();
});

test('the opening and the end of a sale name their time zone', async () => {
  const zone = /(UTC|GMT|[A-Z]{3,4})([+-]\d|$)/;
  const opens = { state: 'scheduled', opens_at: '2100-01-01T12:00:00Z' } as const;
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale(opens)));
  render(SalePage);
  expect((await vi.waitFor(() => screen.getByText(/^Opens \S+ \d/))).textContent).toMatch(zone);
  cleanup();
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale({ closes_at: '2100-01-01T12:00:00Z' })));
  render(SalePage);
  expect((await vi.waitFor(() => screen.getByText(/^Ends in/))).textContent?.trim()).toMatch(zone);
  cleanup();
  const closed = { state: 'closed', closes_at: '2001-01-01T12:00:00Z' } as const;
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale(closed)));
  render(SalePage);
  expect((await vi.waitFor(() => screen.getByText(/^Ended/))).textContent).toMatch(zone);
});
