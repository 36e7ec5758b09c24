import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { Sale } from '../../api/schema';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { windowInWords } from '../lib/words-of';
import { aSale, someStats } from '../lib/samples';
import { loadWords, w } from '../words.svelte';
import Page from './Sale.svelte';

type Answer = { data?: unknown; error?: unknown; response: Response };
const given = (data: unknown): Answer => ({ data, response: new Response(null) });
const refused = (status: number, code: string): Answer => ({
  error: { code },
  response: new Response(null, { status }),
});

/** Answers requests to each address in turn; the last answer repeats. */
function serve(sales: Answer[], counts: Answer[]): void {
  vi.spyOn(api, 'GET').mockImplementation(((path: string) => {
    const answers = path.endsWith('/stats') ? counts : sales;
    return Promise.resolve(answers.length > 1 ? answers.shift() : answers[0]);
  }) as never);
}

beforeEach(async () => {
  vi.useFakeTimers();
  await startLanguage(loadWords);
  await speak('en', false);
});
afterEach(() => {
  cleanup();
  vi.useRealTimers();
});

async function open(sale: Sale, counts: Answer[], ...later: Answer[]): Promise<void> {
  serve([given(sale), ...later], counts);
  render(Page, { id: sale.id });
  await vi.advanceTimersByTimeAsync(0);
}

it('waits for a node that has not heard of the publishing yet', async () => {
  const notYet = refused(409, 'not_published');
  await open(aSale({ state: 'open' }), [notYet, notYet, refused(503, 'unavailable'), given(someStats())]);
  for (let second = 0; second < 3; second += 1) {
    expect(screen.queryByRole('alert')).toBeNull();
    await vi.advanceTimersByTimeAsync(1000);
  }
  expect(screen.queryByRole('alert')).toBeNull();
  expect(screen.getByText('42')).toBeTruthy();
});

it('says so if it lasts', async () => {
  await open(aSale({ state: 'open' }), [refused(409, 'not_published')]);
  await vi.advanceTimersByTimeAsync(12_000);
  expect(screen.getByRole('alert').textContent).toContain('still a draft');
});

it('says that held units of a closed sale can still be paid, and keeps watching it', async () => {
  const closed = aSale({ state: 'closed' });
  await open(closed, [given(someStats({ held: 2 })), given(someStats({ held: 0 }))]);
  expect(screen.getByText(/no more orders are accepted. Units that are held can still be paid/)).toBeTruthy();
  expect(screen.getByText('Closed by hand')).toBeTruthy();
  await vi.advanceTimersByTimeAsync(4000);
  expect(screen.queryByText(/Units that are held can still be paid/)).toBeNull();
});

it('does not call a closed sale a draft when it is no longer counted', async () => {
  await open(aSale({ state: 'closed' }), [refused(409, 'not_published')]);
  await vi.advanceTimersByTimeAsync(12_000);
  expect(screen.queryByRole('alert')).toBeNull();
});

it('shows the window of a closed sale as a plan', () => {
  const now = Date.parse('2026-11-11T12:00:00Z');
  const told = (state: string, opens_at: string | null, closes_at: string | null) =>
    Object.values(
      windowInWords(w(), { state, opens_at, closes_at } as Sale, now, (time) => time.slice(11, 13)),
    );
  expect(told('draft', null, null)).toEqual(['When it is published', 'When you close it']);
  expect(told('open', null, '2026-11-11T13:00:00Z')).toEqual(['When it was published', '13']);
  expect(told('closed', null, null)).toEqual(['When it was published', 'Closed by hand']);
  expect(told('closed', '2026-11-11T13:00:00Z', '2026-11-11T14:00:00Z')).toEqual([
    'Planned for 13',
    'Closed early; planned for 14',
  ]);
  expect(told('closed', null, '2026-11-11T11:00:00Z')).toEqual(['When it was published', '11 at the latest']);
});

it('names the parts of its bar', async () => {
  await open(aSale({ state: 'open' }), [given(someStats())]);
  expect(screen.getByRole('img', { name: 'Phone X: 20 paid, 42 held, 38 left' })).toBeTruthy();
});

it('never shows a published sale as a draft again', async () => {
  await open(aSale({ state: 'open' }), [given(someStats())], given(aSale()));
  await vi.advanceTimersByTimeAsync(4000);
  expect(screen.getByRole('button', { name: 'Pause' })).toBeTruthy();
});
