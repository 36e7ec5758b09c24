// The shop's pages by their address. Each comes when it is needed, the first one together with the words.
import type { Component } from 'svelte';
import { match } from '../lib/router.svelte';

type Page = { default: Component };

const PAGES: [pattern: string, load: () => Promise<Page>][] = [
  ['/', () => import('./pages/Home.svelte')],
  ['/sales/:id', () => import('./pages/SalePage.svelte')],
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
