import { cleanup, render, screen, within } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { LiveFigures, Sale } from '../../api/schema';
import { speak, startLanguage } from '../../i18n/index.svelte';
import { aRush, FakeStream, someFigures } from '../lib/pretended';
import { aSale } from '../lib/samples';
import { loadWords } from '../words.svelte';
import Live from './Live.svelte';

const guarded = { challenge: 'pow', waiting_room: true, pass_required: true } as const;

beforeEach(async () => {
  vi.stubGlobal('EventSource', FakeStream);
  FakeStream.all = [];
  await startLanguage(loadWords);
  await speak('en', false);
});
afterEach(() => {
  cleanup();
  vi.unstubAllGlobals();
});

/** Watches a sale and receives these figures, one after the other. */
async function watch(sale: Sale, ...told: LiveFigures[]): Promise<void> {
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: sale, response: new Response(null) })) as never);
  render(Live, { id: sale.id });
  await vi.waitFor(() => expect(FakeStream.all).toHaveLength(1));
  for (const figures of told) FakeStream.newest.tell(figures);
  await screen.findByText('Live');
}

/** The text of each tile, by its name. */
function tiles(): Record<string, string> {
  const named = screen.getAllByRole('term').map((term) => {
    const says = [...(term.parentElement?.querySelectorAll('dd') ?? [])].map((part) => part.textContent);
    return [term.textContent, says.join(' | ')];
  });
  return Object.fromEntries(named) as Record<string, string>;
}

const charts = () => screen.getAllByRole('img').map((chart) => chart.getAttribute('aria-label') ?? '');

it('shows all figures of a sale in a rush', async () => {
  await watch(aSale({ state: 'open', gate: guarded }), someFigures());
  expect(tiles()).toEqual({
    Left: '61 | 61 of 100',
    Held: '27',
    Paid: '12',
    'Looks/s': '810 | 9,100 in total',
    'Claims/s': '420 | 5,200 in total',
    'Accepted/s': '31 | 39 in total',
    'Refused/s': '389 | 5,161 in total',
    Waiting: '4,321 | Admitted: 145',
    'Passes in hand': '53',
    Waitlist: '17',
    '99 % within': '14 ms | Half within 2.5 ms',
    'To be settled': '77 | Oldest of them: 1.4 s',
    'Dead letters': '3',
  });
});

it('draws charts, each line with its newest value', async () => {
  await watch(
    aSale({ state: 'open', gate: guarded }),
    someFigures({ sales: [aRush({ waiting: 1 })] }),
    someFigures({ at: '2026-11-11T10:00:01Z' }),
  );
  const now = (title: string, values: string) =>
    `Chart: ${title}. Now: ${values}. The same is in the table below.`;
  expect(charts()).toEqual([
    now('Demand per second', 'Looks 810, Claims 420'),
    now('Refusals per second, by reason', 'No pass 380, Limit reached 9'),
    now('Stock', 'Paid 12, Held 27, Left 61'),
    now('Sold per second', 'Accepted 31'),
    now('Waiting room', 'Admitted/s 19, Waiting 4,321'),
    now('Time until a claim is answered', 'Half within 2.5 ms, 99 % within 14 ms'),
    now('Decisions that are not settled yet', 'To be settled 77'),
  ]);
});

it('shows every node and its health', async () => {
  await watch(aSale({ state: 'open' }), someFigures());
  const rows = within(screen.getByRole('region', { name: 'Nodes' })).getAllByRole('row');
  const cells = rows.map((row) =>
    [...row.children].map((cell) => cell.textContent?.trim().replace(/\s+/g, ' ')),
  );
  expect(cells).toEqual([
    ['Node', 'Health', 'Requests/s', 'Claims under way', 'Queue', 'Connections'],
    ['north', 'Ready', '1,502', '6 / 256', '44', '903'],
    ['south', 'Not ready the journal can’t be written Last heard of 7 s ago', '–', '0 / 128', '0', '1'],
  ]);
});

it('says that nobody came only if nobody came', async () => {
  const latency = null;
  await watch(aSale({ state: 'open' }), someFigures({ latency, sales: [aRush({ claims_per_second: 0 })] }));
  expect(tiles()['99 % within']).toBe('– | no claims in the last second');
  // Sold out: the gate refuses them, and none reaches the ledger.
  FakeStream.newest.tell(someFigures({ latency, sales: [aRush({ claims_per_second: 950 })] }));
  await vi.waitFor(() =>
    expect(tiles()['99 % within']).toBe('– | all claims were refused at once, before the ledger'),
  );
});

it('does not call a closed sale live', async () => {
  await watch(aSale({ state: 'open' }), someFigures());
  FakeStream.newest.tell(someFigures({ sales: [aRush({ state: 'closed' })] }));
  await screen.findByText(/Units that are held can still be paid/);
  expect(screen.queryByText('Live')).toBeNull();
  FakeStream.newest.tell(someFigures({ sales: [aRush({ state: 'closed', held: 0 })] }));
  await screen.findByText('The sale is closed. Its last figures stay.');
});

it('hides the room, passes and dead letters if there are none, and shows what is unknown', async () => {
  const quiet = someFigures({
    latency: null,
    settlement: { lag_decisions: null, trouble: 'the records are away' },
    sales: [aRush({ waitlist: null })],
  });
  await watch(aSale({ state: 'open' }), quiet);
  const shown = tiles();
  for (const name of ['Waiting', 'Passes in hand', 'Waitlist', 'Dead letters'])
    expect(shown).not.toHaveProperty(name);
  expect(shown['99 % within']).toBe('– | all claims were refused at once, before the ledger');
  expect(shown['To be settled']).toBe('–');
  expect(charts().join()).not.toContain('Waiting room');
  expect(screen.getByText('the records are away')).toBeTruthy();
});
