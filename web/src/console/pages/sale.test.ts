import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { Sale } from '../../api/schema';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { aSale, someStats } from '../lib/samples';
import { loadWords } from '../words.svelte';
import Page from './Sale.svelte';

type Answer = { data?: unknown; error?: unknown; response: Response };
const given = (data: unknown): Answer => ({ data, response: new Response(null) });
const refused = (status: number, code: string): Answer => ({
  error: { code },
  response: new Response(null, { status }),
});

/** Answers to each address in turn; the last one stays. */
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

it('says so when it lasts', async () => {
  await open(aSale({ state: 'open' }), [refused(409, 'not_published')]);
  await vi.advanceTimersByTimeAsync(12_000);
  expect(screen.getByRole('alert').textContent).toContain('still a draft');
});

it('does not take a published sale for a draft again', async () => {
  await open(aSale({ state: 'open' }), [given(someStats())], given(aSale()));
  await vi.advanceTimersByTimeAsync(4000);
  expect(screen.getByRole('button', { name: 'Pause' })).toBeTruthy();
});
