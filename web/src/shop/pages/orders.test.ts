// The pages of orders when another buyer signs in, for example in another tab.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { speak } from '../../i18n/index.svelte';
import { go } from '../../lib/router.svelte';
import { whoAmI } from '../../lib/session.svelte';
import { order } from '../purchase/pretended';
import { loadWords } from '../words.svelte';
import OrderPage from './OrderPage.svelte';
import Orders from './Orders.svelte';

const answers = vi.hoisted(() => {
  const answers = new Map<string, () => Response | Promise<Response>>();
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = async (input) => {
    const answer = answers.get(new URL((input as Request).url).pathname);
    return answer ? answer() : Response.json({ code: 'order_not_found' }, { status: 404 });
  };
  return answers;
});

const orders = (id: string) => () => Response.json({ data: [order({ id })], next: null });

async function signedIn(buyer: string): Promise<void> {
  answers.set('/api/v1/me', () => Response.json({ buyer, role: 'buyer', account: null }));
  await whoAmI();
}

beforeEach(async () => {
  document.cookie = 'penstock_signed_in=1';
  answers.clear();
  await Promise.all([speak('en', false), loadWords('en'), signedIn('ada')]);
});
afterEach(cleanup);

test('an order is not shown to the next buyer who signs in', async () => {
  go('/orders/order-1');
  answers.set('/api/v1/orders/order-1', () => Response.json(order()));
  render(OrderPage);
  await screen.findByRole('link', { name: 'To the sale' });
  answers.delete('/api/v1/orders/order-1');
  await signedIn('bob');
  await screen.findByRole('alert');
  expect(screen.queryByRole('link', { name: 'To the sale' })).toBeNull();
});

test('the list is the new buyer’s, even if the former buyer’s list was still on its way', async () => {
  let arrive: (() => void) | undefined;
  answers.set('/api/v1/orders', () => new Promise((resolve) => (arrive = () => resolve(orders('adas')()))));
  const { container } = render(Orders);
  await vi.waitFor(() => expect(arrive).toBeDefined());
  answers.set('/api/v1/orders', orders('bobs'));
  await signedIn('bob');
  await vi.waitFor(() => expect(container.querySelector('a[href="/orders/bobs"]')).not.toBeNull());
  arrive?.();
  await new Promise((resolve) => setTimeout(resolve));
  expect(container.querySelector('a[href="/orders/adas"]')).toBeNull();
  expect(container.querySelector('a[href="/orders/bobs"]')).not.toBeNull();
});
