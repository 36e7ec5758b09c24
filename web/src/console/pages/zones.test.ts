// Wherever the console says when a sale opens or closes, it names the time zone.
import { cleanup, render, screen } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { FakeStream } from '../lib/pretended';
import { aSale, someStats } from '../lib/samples';
import { loadWords } from '../words.svelte';
import Overview from './Overview.svelte';
import SalePage from './Sale.svelte';
import Sales from './Sales.svelte';

const TIME = /\d:\d\d\s[AP]M/g;
const ZONED = /\d:\d\d\s[AP]M\s[A-Z]{3,4}/g;
const sales = [
  aSale({ state: 'scheduled', opens_at: '2100-01-01T12:00:00Z' }),
  aSale({ id: '2', state: 'open', closes_at: '2100-01-02T12:00:00Z' }),
];

beforeEach(async () => {
  vi.stubGlobal('EventSource', FakeStream);
  await startLanguage(loadWords);
  await speak('en', false);
});
afterEach(() => {
  cleanup();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

function serve(data: unknown): void {
  vi.spyOn(api, 'GET').mockImplementation(((path: string) =>
    Promise.resolve({
      data: path.endsWith('/stats') ? someStats() : data,
      response: new Response(null),
    })) as never);
}

async function expectZones(container: HTMLElement): Promise<void> {
  await screen.findAllByText(/Phone X/);
  const says = container.textContent ?? '';
  const times = says.match(TIME) ?? [];
  expect(times.length, says).toBeGreaterThanOrEqual(2);
  expect(says.match(ZONED), says).toHaveLength(times.length);
}

it.each([
  ['the overview', Overview],
  ['the list of sales', Sales],
])('%s', async (_, page) => {
  serve({ data: sales, next: null });
  await expectZones(render(page as typeof Overview).container);
});

it('the page of a sale', async () => {
  serve(aSale({ state: 'open', opens_at: '2100-01-01T12:00:00Z', closes_at: '2100-01-02T12:00:00Z' }));
  await expectZones(render(SalePage, { id: '1f5r7wz82mh35' }).container);
});
