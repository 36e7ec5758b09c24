import { cleanup, fireEvent, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { Item } from '../../api/schema';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { forgetAllDrafts } from '../lib/drafts';
import { loadWords } from '../words.svelte';
import * as uploads from '../lib/upload';
import EditItem from './EditItem.svelte';

const kettle: Item = {
  id: 'p7',
  title: 'Kettle',
  description: '',
  picture: null,
  regular_price: { amount: '19.90', currency: 'CNY' },
  created_at: '2026-11-11T10:00:00Z',
};

/** A server that creates an item but loses the answer, and then has these items. */
function serve(items: Item[]): void {
  vi.spyOn(api, 'POST').mockImplementation((() => Promise.reject(new TypeError('lost'))) as never);
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: { data: items }, response: new Response(null) })) as never);
}

async function save(): Promise<void> {
  render(EditItem);
  await fireEvent.input(screen.getByLabelText('Title'), { target: { value: 'Kettle' } });
  await fireEvent.input(screen.getByLabelText('Regular price'), { target: { value: '19.9' } });
  await fireEvent.click(screen.getByRole('button', { name: 'Save' }));
}

beforeEach(async () => {
  await startLanguage(loadWords);
  await speak('en', false);
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
  forgetAllDrafts();
});

it('finds the item that was created although the answer is lost', async () => {
  serve([{ ...kettle, id: 'p8', title: 'Pot' }, kettle]);
  await save();
  const link = await screen.findByRole('link', { name: 'Look at it' });
  expect(link.getAttribute('href')).toBe('/console/items/p7');
  expect((screen.getByLabelText('Title') as HTMLInputElement).value).toBe('Kettle');
});

it('says that it may be there if it can’t be found', async () => {
  serve([]);
  await save();
  expect(await screen.findByText(/Look at the list before you save again/)).toBeTruthy();
});

it('shows an error at its field, and focuses it', async () => {
  const post = vi.spyOn(api, 'POST');
  post.mockClear();
  render(EditItem);
  await fireEvent.input(screen.getByLabelText('Title'), { target: { value: 'Kettle' } });
  await fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  const price = screen.getByLabelText('Regular price');
  await vi.waitFor(() => expect(document.activeElement).toBe(price));
  expect(price.getAttribute('aria-invalid')).toBe('true');
  expect(post).not.toHaveBeenCalled();
});

it('stops complaining about what was corrected', async () => {
  render(EditItem);
  await fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  const [title, price] = [screen.getByLabelText('Title'), screen.getByLabelText('Regular price')];
  const isRed = (field: Element) => field.getAttribute('aria-invalid') === 'true';
  expect([isRed(title), isRed(price)]).toEqual([true, true]);
  await fireEvent.input(title, { target: { value: 'Kettle' } });
  await fireEvent.input(price, { target: { value: '19.999' } });
  expect([isRed(title), isRed(price)]).toEqual([false, true]);
  screen.getByText(/Some fields are not right yet/);
  await fireEvent.input(price, { target: { value: '19.99' } });
  expect(isRed(price)).toBe(false);
  expect(screen.queryByText(/Some fields are not right yet/)).toBeNull();
});

it('removes the server’s complaint when the field changes', async () => {
  const errors = [{ field: 'title', message: 'has to have 1 to 200 characters' }];
  const refused = {
    error: { code: 'invalid_request', errors },
    response: new Response(null, { status: 422 }),
  };
  vi.spyOn(api, 'POST').mockResolvedValue(refused as never);
  await save();
  const title = screen.getByLabelText('Title');
  await vi.waitFor(() => expect(title.getAttribute('aria-invalid')).toBe('true'));
  // The price was not the problem.
  await fireEvent.input(screen.getByLabelText('Regular price'), { target: { value: '20' } });
  expect(title.getAttribute('aria-invalid')).toBe('true');
  await fireEvent.input(title, { target: { value: 'Pot' } });
  expect(title.getAttribute('aria-invalid')).toBeNull();
  expect(screen.queryByRole('alert')).toBeNull();
});

it('keeps text typed during saving', async () => {
  let answer = (_: unknown): void => {};
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: kettle, response: new Response(null) })) as never);
  vi.spyOn(api, 'PATCH').mockImplementation((() => new Promise((resolve) => (answer = resolve))) as never);
  render(EditItem, { id: 'p7' });
  const title = (await screen.findByLabelText('Title')) as HTMLInputElement;
  await fireEvent.input(title, { target: { value: 'Kettle K' } });
  await fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  await fireEvent.input(title, { target: { value: 'Kettle K2' } });
  answer({ data: { ...kettle, title: 'Kettle K' }, response: new Response(null) });
  await screen.findByRole('heading', { name: 'Edit Kettle K' });
  expect(title.value).toBe('Kettle K2');
  await screen.findByText('Not saved yet');
});

it('restores text typed before, and discards it on demand', async () => {
  render(EditItem);
  await fireEvent.input(screen.getByLabelText('Title'), { target: { value: 'Kettle' } });
  cleanup();
  render(EditItem);
  expect((screen.getByLabelText('Title') as HTMLInputElement).value).toBe('Kettle');
  await fireEvent.click(screen.getByRole('button', { name: 'Discard it' }));
  expect((screen.getByLabelText('Title') as HTMLInputElement).value).toBe('');
});

it('says that a picture is not saved yet, until it is', async () => {
  const picture = '/pictures/k.png';
  const bytes = Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a);
  vi.stubGlobal('createImageBitmap', () => Promise.resolve({ width: 4, height: 3, close: () => {} }));
  vi.spyOn(uploads, 'upload').mockResolvedValue({
    ok: true,
    data: { picture, width: 4, height: 3, bytes: 2048 } as never,
  });
  vi.spyOn(api, 'GET').mockResolvedValue({ data: kettle, response: new Response(null) } as never);
  vi.spyOn(api, 'PATCH').mockResolvedValue({
    data: { ...kettle, picture },
    response: new Response(null),
  } as never);
  render(EditItem, { id: 'p7' });
  const input = await screen.findByLabelText('Choose a picture', { selector: 'input' });
  await fireEvent.change(input, { target: { files: [new File([bytes], 'k.png')] } });
  await screen.findByText(/once you save/);
  await fireEvent.click(screen.getByRole('button', { name: 'Save' }));
  await screen.findByText(/^Saved\./);
  expect(screen.queryByText(/once you save/)).toBeNull();
  expect(screen.getByText(/4 × 3 pixels/)).toBeTruthy();
});
