// The shop's frame when a page can't be loaded.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { speak } from '../i18n/index.svelte';
import { go } from '../lib/router.svelte';
import App from './App.svelte';
import NotFound from './pages/NotFound.svelte';
import * as routes from './routes';
import { loadWords } from './words.svelte';

vi.hoisted(() => {
  globalThis.fetch = async () => Response.json({});
});

beforeEach(async () => {
  await Promise.all([speak('en', false), loadWords('en')]);
});
afterEach(cleanup);

test('a page that can’t be loaded can be tried again, and the error goes away with another page', async () => {
  go('/here');
  render(App, { first: { path: '/here', Page: NotFound } });
  vi.spyOn(routes, 'pageAt').mockRejectedValue(new Error('gone'));
  go('/account');
  const alert = await screen.findByRole('alert');
  expect(alert.textContent).toContain('can’t be loaded');
  expect(alert.querySelector('button')?.textContent).toBe('Try again');
  go('/here');
  await vi.waitFor(() => expect(screen.queryByRole('alert')).toBeNull());
});
