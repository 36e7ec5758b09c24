import { cleanup, fireEvent, render, screen, within } from '@testing-library/svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { AuditReport, Difference } from '../../api/schema';
import { speak, startLanguage, type Language } from '../../i18n/index.svelte';
import type { Kind } from '../lib/audit';
import { loadWords } from '../words.svelte';
import Audit from './Audit.svelte';

const counts = { total: 20, available: 11, held: 5, paid: 4 };
const pair = { held: 4, paid: 2 };
const waiter = { buyer: 'ann', units: 1, since_millis: 1_794_391_200_000 };

/** One of each kind; a new kind does not compile until it is added here. */
const VALUES: { [K in Kind]: Omit<Extract<Difference, { kind: K }>, 'kind' | 'what'> } = {
  ledger_counts: { counts },
  ledger_orders: { ...pair, orders_held: 6, orders_paid: 2 },
  order_misplaced: { number: 3 },
  same_key: {},
  oversold: { units: 1, by: 'ledger' },
  over_limit: { buyer: 'ann', units: 3, limit: 1 },
  settled_too_far: { settled: 12, ledger: 9 },
  decisions_missing: { first: 3, last: 5 },
  dead_letter: { decision: 9, letter: 7, cause: 'database', reason: 'SQL says no' },
  letters_of_unknown_stream: { letters: 2, stream: 's5' },
  sale_not_in_records: {},
  sale_not_in_ledger: {},
  orders_not_in_ledger: { orders: 2 },
  movements_not_in_ledger: {},
  order_not_in_ledger: { by: 'stock_log' },
  order_lost: { order: 's1-2' },
  stock_row_missing: { sale: 's1' },
  recorded_orders: { ...pair, ledger_held: 4, ledger_paid: 4 },
  stock_log: { log: counts, ledger: counts },
  stock_row: { row: counts, ledger: counts },
  past_stock_row: { row: counts },
  past_stock_log: { log: counts, row: counts },
  past_orders: { ...pair, row: counts },
  sale_standing: { ledger: 'selling', row: 'paused' },
  sale_terms: {},
  order_state: { ledger: 'paid', records: 'held' },
  order_buyer: { ledger: 'ann', records: 'bob' },
  order_quantity: { ledger: 2, records: 1 },
  order_time: { of: 'paid_at', ledger_millis: 1_794_391_200_005, records_millis: null },
  order_refund: { ledger_due: true, records_due: false },
  order_key: {},
  order_unreadable: { error: 'the state is stolen' },
  order_held_already: { decision: 9 },
  order_to_change_missing: { decision: 9 },
  order_in_wrong_state: { decision: 9, needed: 'held', records: 'paid' },
  held_twice: { times: 2 },
  order_movements: { state: 'expired', units: 2, held: 1, paid: 0 },
  unknown_movement: { movement: 'gift' },
  no_order_number: { number: -1 },
  waiter_differs: { number: 4, ledger: waiter, records: { ...waiter, buyer: 'bob' } },
  waiter_not_in_records: { buyer: 'ann' },
  waiter_not_in_ledger: { buyer: 'ann' },
};
const SERVER_SAYS = 'as the server says it';
const differences = Object.entries(VALUES).map(([kind, values]) => ({
  kind,
  what: SERVER_SAYS,
  ...values,
})) as Difference[];

const report: AuditReport = {
  ok: false,
  position: 12,
  sales: 1,
  orders: 6,
  units: counts,
  oversold: 1,
  lost: 2,
  extra: 0,
  duplicated: 0,
  over_limit: 0,
  pending: 3,
  dead_letters: 1,
  differences,
  more_differences: 5,
};

/** Runs the audit; returns the differences that the page shows. */
async function audited(language: Language, answer: AuditReport): Promise<HTMLElement[]> {
  await speak(language, false);
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: answer, response: new Response(null) })) as never);
  render(Audit);
  await fireEvent.click(
    screen.getByRole('button', { name: language === 'zh' ? '开始对账' : 'Run the audit' }),
  );
  const list = await screen.findByRole('region', {
    name: language === 'zh' ? '逐条差异' : 'Each difference',
  });
  return within(list).getAllByRole('listitem');
}

beforeEach(() => startLanguage(loadWords));
afterEach(cleanup);

it('says what does not add up, with the numbers and where to look', async () => {
  const found = await audited('en', report);
  expect(screen.getByText('It does not add up.')).toBeTruthy();
  expect(screen.getByText('1 unit was sold that did not exist.')).toBeTruthy();
  expect(screen.getByText(`${differences.length + 5} differences`, { exact: false })).toBeTruthy();
  expect(screen.getByText('And 5 more.')).toBeTruthy();
  const said = found.map((line) => line.textContent.replace(/\s+/g, ' ').trim());
  expect(said).toContain('Buyer ann has 3 units, but the limit is 1.');
  expect(said).toContain('1 unit more is sold than there are, by the orders in the ledger.');
  expect(said).toContain('Order s1-2 It is lost: the ledger accepted it, but it is not in the records.');
  expect(said).toContain('Decision 9 is dead letter 7 and not settled. The database refused it. SQL says no');
  expect(screen.getByText('Order s1-2').getAttribute('href')).toBe('/console/orders?q=s1-2');
  expect(screen.getByText('Sale s1').getAttribute('href')).toBe('/console/sales/s1');
});

it('shows it in Chinese without a sentence of the server', async () => {
  const found = await audited('zh', report);
  expect(screen.getByText('账目不一致。')).toBeTruthy();
  expect(screen.getByText('超卖了 1 件不存在的商品。')).toBeTruthy();
  expect(screen.getByText('买家 ann 有 3 件，但限购 1 件。')).toBeTruthy();
  expect(screen.getByText('它在账本里是“已付款”，但记录库里是“待付款”。')).toBeTruthy();
  const names = new Set(['ann', 'bob', 'gift', 's']);
  for (const line of found) {
    for (const detail of line.querySelectorAll('[lang=en]')) detail.remove();
    const latin = line.textContent.match(/[A-Za-z]+/g) ?? [];
    expect(
      latin.filter((word) => !names.has(word)),
      line.textContent,
    ).toEqual([]);
  }
});

it.each(['en', 'zh'] as const)('has every value that a sentence needs, in %s', async (language) => {
  const found = await audited(language, report);
  expect(found).toHaveLength(differences.length);
  for (const line of found) {
    expect(line.textContent).not.toMatch(/undefined|null|NaN|Invalid|object/);
    expect(line.textContent).not.toContain(SERVER_SAYS);
  }
});

it('shows the server’s words if it is newer than the page', async () => {
  const newer = [{ kind: 'order_haunted', what: SERVER_SAYS } as unknown as Difference];
  const [line] = await audited('en', { ...report, differences: newer });
  expect(line?.textContent).toContain(SERVER_SAYS);
});
