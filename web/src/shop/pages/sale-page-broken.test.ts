// The page of a sale whose code for buying can't be loaded.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { go } from '../../lib/router.svelte';
import { whoAmI } from '../../lib/session.svelte';
import { loadWords } from '../words.svelte';
import SalePage from './SalePage.svelte';

vi.mock('../sale/personal', () => {
  throw new Error('offline');
});
vi.hoisted(() => {
  const price = { amount: '199.00', currency: 'CNY' };
  const sale = {
    item: { title: 'Phone X', description: '' },
    ...{ id: 'sale', state: 'open', price, regular_price: price, limit_per_buyer: 1, hold_seconds: 900 },
    ...{ stock: { total: 100, available: 40 }, gate: { challenge: 'none', waiting_room: false } },
  };
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) =>
    Response.json((input as Request).url.endsWith('/me') ? { buyer: 'ada', role: 'buyer' } : sale);
});

afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

test('a buyer without a buy button is told so, and can reload', async () => {
  vi.useFakeTimers();
  document.cookie = 'penstock_signed_in=1';
  go('/sales/sale');
  await Promise.all([speak('en', false), loadWords('en'), whoAmI()]);
  render(SalePage);
  await vi.waitFor(() => screen.getByRole('button', { name: /Buy now/ }));
  expect(screen.queryByRole('button', { name: 'Try again' })).toBeNull();
  await vi.advanceTimersByTimeAsync(20_000);
  screen.getByRole('button', { name: 'Try again' });
});
