import { cleanup, fireEvent, render, screen, waitFor } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { Sale } from '../../api/schema';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { aSale, someStats } from '../lib/samples';
import { loadWords } from '../words.svelte';
import en from '../words/en';
import zh from '../words/zh';
import Steer from './Steer.svelte';

let calls: string[] = [];

/** A server with the given answers for `METHOD /path`. */
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

it('confirms with current figures before it closes a sale', async () => {
  serve({
    [`GET ${path}/stats`]: [200, someStats({ held: 42, available: 8 })],
    [`POST ${path}/close`]: [200, { ...open, state: 'closed' }],
  });
  const done: Sale[] = [];
  render(Steer, { sale: open, ondone: (sale: Sale) => done.push(sale) });
  await fireEvent.click(screen.getByRole('button', { name: 'Close the sale' }));
  expect(await screen.findByText('42 units that are held can still be paid.')).toBeTruthy();
  expect(screen.getByText('This can’t be undone.')).toBeTruthy();
  expect(calls).toEqual([`GET ${path}/stats`]);
  const [, confirm] = screen.getAllByRole('button', { name: 'Close the sale' });
  await fireEvent.click(confirm as HTMLElement);
  await waitFor(() => expect(done.map(({ state }) => state)).toEqual(['closed']));
  expect(screen.getByText('Closed.')).toBeTruthy();
});

it.each(['publish', 'pause', 'resume', 'restock', 'close'] as const)(
  'labels the buttons of a dialog clearly in each language: %s',
  (action) => {
    for (const words of [en, zh]) {
      const [does, keeps] = [words.sale.does[action], words.sale.keeps[action]];
      // On their own these could refer to the dialog as well as to the sale.
      for (const says of [does, keeps])
        expect(says).not.toMatch(/^(Close|Back|Cancel|OK|Yes|No|关闭|返回|取消)$/);
      expect(does).not.toBe(keeps);
    }
  },
);

it('removes a complaint as soon as the field is corrected', async () => {
  serve({ [`GET ${path}/stats`]: [200, someStats()] });
  render(Steer, { sale: open, ondone: () => expect.fail('nothing should be done') });
  const field = await restock('0');
  await waitFor(() => expect(screen.queryByText('Loading …')).toBeNull());
  await enter(field);
  await waitFor(() => expect(field.getAttribute('aria-invalid')).toBe('true'));
  await fireEvent.input(field, { target: { value: '5' } });
  expect(field.getAttribute('aria-invalid')).toBeNull();
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
  await fireEvent.click(screen.getByRole('button', { name: 'Add the units' }));
  expect(await screen.findByText('The sale is closed for good.')).toBeTruthy();
  expect(field.value).toBe('50');
});

/** Opens the restock of the sale and types the number. */
async function restock(units: string): Promise<HTMLInputElement> {
  await fireEvent.click(screen.getByRole('button', { name: 'Restock' }));
  const field = (await screen.findByLabelText('Units to add')) as HTMLInputElement;
  await fireEvent.input(field, { target: { value: units } });
  return field;
}

const posts = () => calls.filter((call) => call.startsWith('POST'));
const enter = (field: HTMLElement, more: KeyboardEventInit = {}) =>
  fireEvent.keyDown(field, { key: 'Enter', ...more });

it('says in our words that the units are too many', async () => {
  const errors = [{ field: 'units', message: 'the sale would have more units than a sale can have' }];
  serve({
    [`GET ${path}/stats`]: [200, someStats()],
    [`POST ${path}/restock`]: [422, { code: 'invalid_request', errors }],
  });
  await speak('zh', false);
  render(Steer, { sale: open, ondone: () => expect.fail('it was refused') });
  await fireEvent.click(screen.getByRole('button', { name: '补货' }));
  const field = await screen.findByLabelText('补货件数');
  await fireEvent.input(field, { target: { value: '100000000' } });
  await screen.findByText(/100,000,100/);
  await enter(field);
  expect(await screen.findByText('一场活动总共最多 100,000,000 件。')).toBeTruthy();
  expect(screen.queryByText(/more units than/)).toBeNull();
});

it('restocks once, however often Enter is pressed', async () => {
  serve({
    [`GET ${path}/stats`]: [200, someStats()],
    [`POST ${path}/restock`]: [200, open],
  });
  let done = 0;
  render(Steer, { sale: open, ondone: () => (done += 1) });
  const field = await restock('50');
  await screen.findByText('50 units more, 150 in total.');
  void enter(field);
  void enter(field);
  await enter(field, { repeat: true });
  await waitFor(() => expect(done).toBe(1));
  expect(posts()).toEqual([`POST ${path}/restock`]);
});

it('ignores Enter while the figures are fetched, and while the key is held', async () => {
  let tell: (answer: object) => void = () => undefined;
  serve({ [`POST ${path}/restock`]: [200, open] });
  vi.spyOn(api, 'GET').mockImplementation((() => new Promise((resolve) => (tell = resolve))) as never);
  render(Steer, { sale: open, ondone: () => expect.fail('nothing should be done') });
  const field = await restock('50');
  await enter(field);
  tell({ data: someStats(), response: new Response(null) });
  await screen.findByText('50 units more, 150 in total.');
  await enter(field, { repeat: true });
  expect(posts()).toEqual([]);
});

it('stays open during the call, so that the answer belongs to the dialog', async () => {
  let tell: (answer: object) => void = () => undefined;
  serve({ [`GET ${path}/stats`]: [200, someStats()] });
  vi.spyOn(api, 'POST').mockImplementation((() => new Promise((resolve) => (tell = resolve))) as never);
  render(Steer, { sale: open, ondone: () => undefined });
  const field = await restock('50');
  await screen.findByText('50 units more, 150 in total.');
  await enter(field);
  const dialog = field.closest('dialog') as HTMLDialogElement;
  expect((screen.getByRole('button', { name: 'Add no units' }) as HTMLButtonElement).disabled).toBe(true);
  // A browser may do this whatever the page says.
  dialog.open = false;
  await fireEvent(dialog, new Event('close'));
  expect(dialog.open).toBe(true);
  tell({ data: open, response: new Response(null) });
  expect(await screen.findByText('Restocked.')).toBeTruthy();
  expect(dialog.open).toBe(false);
});

it('shows the total if the answer of a restock is lost, and asks for the number again', async () => {
  let total = 100;
  serve({ [`POST ${path}/restock`]: [503, { code: 'unavailable' }] });
  const stats = () => Promise.resolve({ data: someStats({ total }), response: new Response(null) });
  vi.spyOn(api, 'GET').mockImplementation(stats as never);
  render(Steer, { sale: open, ondone: () => expect.fail('nobody knows whether it was done') });
  const field = await restock('50');
  await screen.findByText('50 units more, 150 in total.');
  total = 150;
  await enter(field);
  expect(await screen.findByText(/It may have been done: the total is 150 now/)).toBeTruthy();
  expect(field.value).toBe('');
  await enter(field);
  expect(posts()).toHaveLength(1);
  await fireEvent.input(field, { target: { value: '5' } });
  expect(await screen.findByText('5 units more, 155 in total.')).toBeTruthy();
});

it('does not restock again while the total is unknown', async () => {
  serve({ [`POST ${path}/restock`]: [503, { code: 'unavailable' }] });
  render(Steer, { sale: open, ondone: () => undefined });
  const field = await restock('50');
  await screen.findByText('50 units more, 150 in total.');
  await enter(field);
  await screen.findByText(/Look at the total before you add/);
  await fireEvent.input(field, { target: { value: '50' } });
  await enter(field);
  expect(posts()).toHaveLength(1);
});

it('publishes nothing while something is missing', () => {
  serve({});
  render(Steer, { sale: aSale(), blocked: true, ondone: () => undefined });
  const publish = screen.getByRole('button', { name: 'Publish' }) as HTMLButtonElement;
  expect(publish.disabled).toBe(true);
});
