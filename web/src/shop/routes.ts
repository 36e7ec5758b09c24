// The shop's pages by their address. The two most visited ones are always included; each of the others is
// loaded when it is needed, the first one together with the words.
import type { Component } from 'svelte';
import { match } from '../lib/router.svelte';
import Home from './pages/Home.svelte';
import SalePage from './pages/SalePage.svelte';

type Page = { default: Component };

const PAGES: [pattern: string, load: () => Promise<Page>][] = [
  ['/', async () => ({ default: Home })],
  ['/sales/:id', async () => ({ default: SalePage as Component })],
  ['/orders', () => import('./pages/Orders.svelte')],
  ['/orders/:id', () => import('./pages/OrderPage.svelte')],
  ['/sign-in', () => import('./pages/SignIn.svelte')],
  ['/sign-up', () => import('./pages/SignUp.svelte')],
  ['/account', () => import('./pages/Account.svelte')],
];

/** The page at `path`; unknown addresses have one, too. */
export async function pageAt(path: string): Promise<Component> {
  const found = PAGES.find(([pattern]) => match(pattern, path));
  return (await (found ? found[1]() : import('./pages/NotFound.svelte'))).default;
}
