// Requests the first page's data while the page itself is still being loaded.
import { api, outcome, type Outcome } from '../api/client';
import type { SalePage, Sale } from '../api/schema';
import { asked } from '../lib/clock.svelte';
import { match } from '../lib/router.svelte';
import { session } from '../lib/session.svelte';

/** The number of sales that the list begins with. */
export const FIRST_SALES = 24;

/** How long the first answer is held back until the server's time is known. */
const TIME_WITHIN_MS = 1_000;

let early: { path: string; answer: Promise<Outcome<unknown>> } | undefined;

const askForSale = (id: string) =>
  outcome(api.GET('/api/v1/sales/{id}', { params: { path: { id } }, cache: 'no-cache' }));
const askForSales = () => outcome(api.GET('/api/v1/sales', { params: { query: { limit: FIRST_SALES } } }));

export function foresee(path: string): void {
  const id = match('/sales/:id', path)?.['id'];
  if (id !== undefined) {
    early = { path, answer: onTime(askForSale(id)) };
    // A visitor who may be signed in needs the rest of the page, too.
    if (session.me !== null) void import('./sale/personal').catch(() => {});
  } else if (path === '/') early = { path, answer: onTime(askForSales()) };
}

async function onTime<T>(answer: Promise<T>): Promise<T> {
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, TIME_WITHIN_MS))]);
  return answer;
}

/** The answer that is already on its way; it is used once. */
function taken<T>(path: string): Promise<Outcome<T>> | undefined {
  const found = early?.path === path ? early.answer : undefined;
  early = undefined;
  return found as Promise<Outcome<T>> | undefined;
}

export function saleById(id: string): Promise<Outcome<Sale>> {
  return taken<Sale>(`/sales/${id}`) ?? askForSale(id);
}

export function firstSales(): Promise<Outcome<SalePage>> {
  return taken<SalePage>('/') ?? askForSales();
}
