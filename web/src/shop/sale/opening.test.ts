// The sale page at the opening, when everybody looks at it.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Sale } from '../../api/schema';
import { speak } from '../../i18n/index.svelte';
import { go } from '../../lib/router.svelte';
import { whoAmI } from '../../lib/session.svelte';
import SalePage from '../pages/SalePage.svelte';
import { loadWords } from '../words.svelte';

const asked = vi.hoisted(() => {
  const price = { amount: '199.00', currency: 'CNY' };
  const sale: Sale = {
    id: 'sale',
    item: { id: 'item', title: 'Phone X', description: '' },
    price,
    regular_price: price,
    opens_at: '2026-01-01T12:00:00Z',
    closes_at: null,
    state: 'scheduled',
    stock: { total: 100, available: 40 },
    limit_per_buyer: 1,
    hold_seconds: 900,
    gate: { challenge: 'none', waiting_room: false, pass_required: false },
    server_time: '2026-01-01T11:59:00Z',
  };
  const asked: string[] = [];
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    asked.push((input as Request).url);
    return Response.json(sale);
  };
  vi.useFakeTimers();
  vi.setSystemTime('2026-01-01T11:59:50Z');
  return asked;
});

beforeEach(async () => {
  await Promise.all([speak('en', false), loadWords('en'), whoAmI()]);
  go('/sales/sale');
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

test('the page opens by the clock, and requests nothing in that moment', async () => {
  vi.spyOn(Math, 'random').mockReturnValue(0.5);
  render(SalePage);
  await vi.advanceTimersByTimeAsync(9_500);
  screen.getByText(/Opens in/);
  await vi.advanceTimersByTimeAsync(1_000);
  screen.getByRole('link', { name: 'Sign in to buy' });
  expect(asked).toHaveLength(1);
  // The figures come later, at a different time for everybody.
  await vi.advanceTimersByTimeAsync(2_000);
  expect(asked).toHaveLength(2);
});
