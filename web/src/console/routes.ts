// The page of each address. Each is loaded when it is first needed.
import type { Component } from 'svelte';
import { match } from '../lib/router.svelte';

// Every page gets the parameters of its address.
type Page = Component<Record<string, string>>;
type Load = () => Promise<{ default: unknown }>;

const pages: [pattern: string, section: Section, load: Load][] = [
  ['/console', 'overview', () => import('./pages/Overview.svelte')],
  ['/console/items', 'items', () => import('./pages/Items.svelte')],
  ['/console/items/new', 'items', () => import('./pages/EditItem.svelte')],
  ['/console/items/:id', 'items', () => import('./pages/EditItem.svelte')],
  ['/console/sales', 'sales', () => import('./pages/Sales.svelte')],
  ['/console/sales/new', 'sales', () => import('./pages/EditSale.svelte')],
  ['/console/sales/:id', 'sales', () => import('./pages/Sale.svelte')],
  ['/console/sales/:id/edit', 'sales', () => import('./pages/EditSale.svelte')],
  ['/console/sales/:id/live', 'sales', () => import('./pages/Live.svelte')],
  ['/console/orders', 'orders', () => import('./pages/Orders.svelte')],
  ['/console/dead-letters', 'deadLetters', () => import('./pages/DeadLetters.svelte')],
  ['/console/audit', 'audit', () => import('./pages/Audit.svelte')],
  ['/console/rehearse', 'rehearse', () => import('./pages/Rehearse.svelte')],
];

export type Section = 'overview' | 'sales' | 'items' | 'orders' | 'deadLetters' | 'audit' | 'rehearse';

export interface Found {
  section: Section;
  params: Record<string, string>;
  load: () => Promise<Page>;
}

export function find(path: string): Found | undefined {
  for (const [pattern, section, load] of pages) {
    const params = match(pattern, path);
    if (params) return { section, params, load: async () => (await load()).default as Page };
  }
  return undefined;
}
