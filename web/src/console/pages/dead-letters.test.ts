import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { loadWords } from '../words.svelte';
import DeadLetters from './DeadLetters.svelte';

const letter = (id: string) => ({
  id,
  position: 1,
  event: 'paid',
  sale_id: 's',
  order_id: `order-${id}`,
  cause: 'order_state',
  reason: 'The records are of another mind.',
  tries: 1,
  decided_at: '2026-11-11T10:00:00Z',
  created_at: '2026-11-11T10:00:00Z',
});

/** A server that settles all letters except the named ones. */
function serve(stuck: string[] = []): void {
  const page = { data: ['a', 'b', 'c'].map(letter) };
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: page, response: new Response(null) })) as never);
  vi.spyOn(api, 'POST').mockImplementation(((_: string, call: { params: { path: { id: string } } }) => {
    const status = stuck.includes(call.params.path.id) ? 409 : 200;
    const response = new Response(null, { status });
    return Promise.resolve({ error: { code: 'dead_letter_stuck' }, response });
  }) as never);
}

beforeEach(async () => {
  await startLanguage(loadWords);
  await speak('en', false);
});
afterEach(cleanup);

const button = (id: string) => screen.findByRole('button', { name: new RegExp(`order-${id} was paid`) });

it('moves the focus to the next letter when one is settled, and at the last message after the last', async () => {
  serve();
  render(DeadLetters);
  await fireEvent.click(await button('b'));
  const next = await button('c');
  await waitFor(() => expect(document.activeElement).toBe(next));
  await fireEvent.click(next);
  const left = await button('a');
  await waitFor(() => expect(document.activeElement).toBe(left));
  await fireEvent.click(left);
  await waitFor(() => expect(document.activeElement?.textContent).toContain('Settled: Order order-a'));
});

it('stays at a letter that still can’t be settled', async () => {
  serve(['b']);
  render(DeadLetters);
  await fireEvent.click(await button('b'));
  await screen.findByText('It still can’t be settled.');
  const same = await button('b');
  await waitFor(() => expect(document.activeElement).toBe(same));
});

it('reports no success when it stopped', async () => {
  serve(['b']);
  render(DeadLetters);
  await fireEvent.click(await screen.findByRole('button', { name: 'Retry all, from top to bottom' }));
  const said = await screen.findByText('1 decision is settled now; the next one still can’t be.');
  expect(said.closest('.notice')?.classList).toContain('warn');
});

it.each([
  ['en', 'is in another state than it should be', 'mend the records, then retry'],
  ['zh', '订单状态与应有的不符', '修复记录库后重试'],
] as const)('says why and what to do, and shows the server’s words, in %s', async (language, why, todo) => {
  serve();
  await speak(language, false);
  render(DeadLetters);
  expect(await screen.findAllByText(why, { exact: false })).toHaveLength(3);
  expect(screen.getAllByText(todo, { exact: false })).toHaveLength(3);
  const [said] = screen.getAllByText('The records are of another mind.');
  expect(said?.getAttribute('lang')).toBe('en');
});
