// What the first page will ask the API for is asked for while the page itself is still on its way.
import { api, outcome, type Outcome } from '../api/client';
import type { SalePage, Sale } from '../api/schema';
import { asked } from '../lib/clock.svelte';
import { match } from '../lib/router.svelte';
import { session } from '../lib/session.svelte';

/** As many sales as the list begins with. */
export const FIRST_SALES = 24;

/** So long the first answer is held back until it can be shown by the right time. */
const TIME_WITHIN_MS = 1_000;

let early: { path: string; answer: Promise<Outcome<unknown>> } | undefined;

const askForSale = (id: string) =>
  outcome(api.GET('/api/v1/sales/{id}', { params: { path: { id } }, cache: 'no-cache' }));
const askForSales = () => outcome(api.GET('/api/v1/sales', { params: { query: { limit: FIRST_SALES } } }));

export function foresee(path: string): void {
  const id = match('/sales/:id', path)?.['id'];
  if (id !== undefined) {
    early = { path, answer: onTime(askForSale(id)) };
    // Whoever may be signed in needs the rest of the page, too.
    if (session.me !== null) void import('./sale/personal').catch(() => {});
  } else if (path === '/') early = { path, answer: onTime(askForSales()) };
}

async function onTime<T>(answer: Promise<T>): Promise<T> {
  await Promise.race([asked, new Promise((resolve) => setTimeout(resolve, TIME_WITHIN_MS))]);
  return answer;
}

/** The answer that is on its way already; it is good for one time. */
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
