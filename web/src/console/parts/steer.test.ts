import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { Sale } from '../../api/schema';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { aSale, someStats } from '../lib/samples';
import { loadWords } from '../words.svelte';
import Steer from './Steer.svelte';

let calls: string[] = [];

/** A server that answers with what is given for `METHOD /path`. */
function serve(answers: Record<string, [status: number, body: object]>): void {
  calls = [];
  for (const method of ['GET', 'POST'] as const) {
    const answer = (template: string, { params }: { params: { path: { id: string } } }) => {
      const call = `${method} ${template.replace('{id}', params.path.id)}`;
      calls.push(call);
      const [status, body] = answers[call] ?? [404, { code: 'not_found' }];
      const response = new Response(null, { status });
      return Promise.resolve(response.ok ? { data: body, response } : { error: body, response });
    };
    vi.spyOn(api, method).mockImplementation(answer as never);
  }
}

beforeEach(async () => {
  // happy-dom shows no dialogs.
  HTMLDialogElement.prototype.showModal = function () {
    this.open = true;
  };
  HTMLDialogElement.prototype.close = function () {
    this.open = false;
  };
  await startLanguage(loadWords);
  await speak('en', false);
});
afterEach(() => {
  cleanup();
});

const open = aSale({ state: 'open' });
const path = `/api/v1/admin/sales/${open.id}`;

it('asks with the figures of now before it closes a sale, and then closes it', async () => {
  serve({
    [`GET ${path}/stats`]: [200, someStats({ held: 42, available: 8 })],
    [`POST ${path}/close`]: [200, { ...open, state: 'closed' }],
  });
  const done: Sale[] = [];
  render(Steer, { sale: open, ondone: (sale: Sale) => done.push(sale) });
  await fireEvent.click(screen.getByRole('button', { name: 'Close' }));
  expect(await screen.findByText('42 units that are held can still be paid.')).toBeTruthy();
  expect(screen.getByText('This can’t be undone.')).toBeTruthy();
  expect(calls).toEqual([`GET ${path}/stats`]);
  const [, confirm] = screen.getAllByRole('button', { name: 'Close' });
  await fireEvent.click(confirm as HTMLElement);
  await waitFor(() => expect(done.map(({ state }) => state)).toEqual(['closed']));
  expect(screen.getByText('Closed.')).toBeTruthy();
});

it('keeps the number of a restock that was refused, and says why', async () => {
  serve({
    [`GET ${path}/stats`]: [200, someStats()],
    [`POST ${path}/restock`]: [409, { code: 'closed', status: 409 }],
  });
  render(Steer, { sale: open, ondone: () => expect.fail('it was refused') });
  await fireEvent.click(screen.getByRole('button', { name: 'Restock' }));
  const field = (await screen.findByLabelText('Units to add')) as HTMLInputElement;
  await fireEvent.input(field, { target: { value: '50' } });
  expect(await screen.findByText('50 units more, 150 in total.')).toBeTruthy();
  const [, confirm] = screen.getAllByRole('button', { name: 'Restock' });
  await fireEvent.click(confirm as HTMLElement);
  expect(await screen.findByText('The sale is closed for good.')).toBeTruthy();
  expect(field.value).toBe('50');
});

it('publishes nothing while something is missing', () => {
  serve({});
  render(Steer, { sale: aSale(), blocked: true, ondone: () => undefined });
  const publish = screen.getByRole('button', { name: 'Publish' }) as HTMLButtonElement;
  expect(publish.disabled).toBe(true);
});
