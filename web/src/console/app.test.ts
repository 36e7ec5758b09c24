import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../api/client';
import { speak, startLanguage } from '../i18n/index.svelte';
import { go } from '../lib/router.svelte';
import { signedOut, whoAmI } from '../lib/session.svelte';
import App from './App.svelte';
import { keepDraft, keptDraft } from './lib/drafts';
import { loadWords } from './words.svelte';

beforeEach(async () => {
  // happy-dom shows no dialogs.
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function () {
    this.open = false;
  };
  document.cookie = 'penstock_signed_in=1';
  const me = { role: 'admin', account: { id: 'a', name: 'Ada', phone: '+861' } };
  const countries = { default: 'CN', data: [{ country: 'CN', calling_code: '86' }] };
  vi.spyOn(api, 'GET').mockImplementation(((path: string) =>
    Promise.resolve({
      data: path === '/api/v1/countries' ? countries : me,
      response: new Response(null),
    })) as never);
  await startLanguage(loadWords);
  await speak('en', false);
  await whoAmI();
  // A page that requests nothing.
  go('/console/nowhere');
});
afterEach(cleanup);

function answerSignOut(status: number): void {
  vi.spyOn(api, 'DELETE').mockImplementation((() =>
    Promise.resolve({ error: {}, response: new Response(null, { status }) })) as never);
}

it('says that signing out failed, and forgets what was typed only when it succeeds', async () => {
  keepDraft('item:new', { title: 'Kettle' });
  answerSignOut(503);
  render(App);
  await fireEvent.click(screen.getByRole('button', { name: 'Sign out' }));
  expect(await screen.findByText('A part of the shop can’t be reached at the moment.')).toBeTruthy();
  expect(keptDraft('item:new')).toEqual({ title: 'Kettle' });

  answerSignOut(204);
  await fireEvent.click(screen.getByRole('button', { name: 'Sign out' }));
  await waitFor(() => expect(screen.queryByRole('navigation')).toBeNull());
  expect(keptDraft('item:new')).toBeUndefined();
});

it('keeps asking to sign in again until somebody does', async () => {
  render(App);
  await screen.findByText('Ada');
  const dialog = document.querySelector('dialog') as HTMLDialogElement;
  signedOut();
  await waitFor(() => expect(dialog.open).toBe(true));
  // A browser does this at a second Escape.
  dialog.open = false;
  await fireEvent(dialog, new Event('close'));
  expect(dialog.open).toBe(true);
  await whoAmI();
  await waitFor(() => expect(dialog.open).toBe(false));
  await fireEvent(dialog, new Event('close'));
  expect(dialog.open).toBe(false);
});
