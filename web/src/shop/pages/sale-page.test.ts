// The page of a sale as a whole: what it asks the shop for, and what it says when the session ends.
import { cleanup, configure, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { go } from '../../lib/router.svelte';
import { signedOut, whoAmI } from '../../lib/session.svelte';
// Already there, so that no test waits for it.
import '../sale/personal';
import { loadWords } from '../words.svelte';
import SalePage from './SalePage.svelte';

const { answers, asked } = vi.hoisted(() => {
  const answers = new Map<string, () => Response>();
  const asked: string[] = [];
  // The client takes hold of `fetch` when it is loaded.
  globalThis.fetch = async (input) => {
    const { method, url } = input as Request;
    const call = `${method} ${new URL(url).pathname}`;
    asked.push(call);
    return answers.get(call)?.() ?? Response.json({ code: 'not_found' }, { status: 404 });
  };
  // Whoever waits here waits for ever.
  globalThis.EventSource = class {
    addEventListener(): void {}
    close(): void {}
  } as unknown as typeof EventSource;
  return { answers, asked };
});

configure({ asyncUtilTimeout: 4_000 });

const price = { amount: '199.00', currency: 'CNY' };
const sale = (waiting_room: boolean) => ({
  id: 'sale',
  item: { id: 'item', title: 'Phone X', description: '' },
  price,
  regular_price: price,
  opens_at: null,
  closes_at: null,
  state: 'open',
  stock: { total: 100, available: 40 },
  limit_per_buyer: 1,
  hold_seconds: 900,
  gate: { challenge: 'none', waiting_room, pass_required: waiting_room },
});

async function visit(hasRoom: boolean): Promise<HTMLElement> {
  answers.set('GET /api/v1/sales/sale', () => Response.json(sale(hasRoom)));
  render(SalePage);
  const buy = await screen.findByRole('button', { name: /Buy now/ });
  await vi.waitFor(() => expect((buy as HTMLButtonElement).disabled).toBe(false), 4_000);
  return buy;
}

beforeEach(async () => {
  document.cookie = 'penstock_signed_in=1';
  localStorage.clear();
  answers.clear();
  answers.set('GET /api/v1/me', () => Response.json({ buyer: 'ada', role: 'buyer', account: null }));
  answers.set('GET /api/v1/orders', () => Response.json({ data: [], next: null }));
  go('/sales/sale');
  await Promise.all([speak('en', false), loadWords('en'), whoAmI()]);
});
afterEach(cleanup);

test('whoever loses the session in the waiting room is told so', async () => {
  const ticket = { ticket: 't', number: 7, state: 'waiting', position: 7 };
  answers.set('POST /api/v1/sales/sale/tickets', () => Response.json(ticket, { status: 201 }));
  (await visit(true)).click();
  await screen.findByText('You are in the waiting room');
  signedOut();
  await screen.findByText(/Your session is over/);
});

test('a refusal is shown at once, and nothing is asked in the same moment', async () => {
  answers.set('POST /api/v1/sales/sale/orders', () => Response.json({ code: 'sold_out' }, { status: 409 }));
  const buy = await visit(false);
  vi.spyOn(Math, 'random').mockReturnValue(0.9);
  asked.length = 0;
  buy.click();
  await screen.findByRole('button', { name: /Join the waitlist/ });
  expect(asked).toEqual(['POST /api/v1/sales/sale/orders']);
  vi.restoreAllMocks();
});
