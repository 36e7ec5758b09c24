import { describe, expect, test } from 'vitest';
import type { Sale } from '../../api/schema';
import { discount, grouped, phaseOf, plenty } from './phase';
import { nextLookMs } from './watch.svelte';

const NOON = Date.parse('2026-01-01T12:00:00Z');
const at = (seconds: number) => new Date(NOON + seconds * 1000).toISOString();

function sale(change: Partial<Sale> = {}): Sale {
  return {
    id: 'sale',
    item: { id: 'item', title: 'Phone X', description: '' },
    price: { amount: '1.00', currency: 'CNY' },
    regular_price: { amount: '2.00', currency: 'CNY' },
    opens_at: at(-60),
    closes_at: at(60),
    state: 'open',
    stock: { total: 100, available: 100 },
    limit_per_buyer: 1,
    hold_seconds: 900,
    gate: { challenge: 'none', waiting_room: false, pass_required: false },
    server_time: '2026-01-01T12:00:00Z',
    ...change,
  };
}

describe('the phase of a sale', () => {
  test('opens and closes by the clock, before the server was asked', () => {
    const told = sale({ state: 'scheduled', opens_at: at(0) });
    expect(phaseOf(told, NOON - 1)).toBe('soon');
    expect(phaseOf(told, NOON)).toBe('open');
    expect(phaseOf(told, NOON + 60_000)).toBe('closed');
  });

  test('has no window if none was set', () => {
    expect(phaseOf(sale({ opens_at: null, closes_at: null }), NOON)).toBe('open');
  });

  test('is as the merchant says', () => {
    expect(phaseOf(sale({ state: 'paused' }), NOON)).toBe('paused');
    expect(phaseOf(sale({ state: 'closed' }), NOON)).toBe('closed');
    expect(phaseOf(sale({ state: 'sold_out', stock: { total: 1, available: 0 } }), NOON)).toBe('sold_out');
  });

  test('is sold out only once it has opened', () => {
    expect(phaseOf(sale({ opens_at: at(5), stock: { total: 1, available: 0 } }), NOON)).toBe('soon');
  });
});

test('how much is left has a word', () => {
  expect(plenty({ total: 100, available: 100 })).toBe('plenty');
  expect(plenty({ total: 100, available: 50 })).toBe('some');
  expect(plenty({ total: 100, available: 10 })).toBe('few');
  expect(plenty({ total: 4, available: 4 })).toBe('few');
  expect(plenty({ total: 100, available: 0 })).toBe('none');
});

test('a discount is in whole percent, rounded down', () => {
  expect(discount('1999.00', '3999.00')).toBe(50);
  expect(discount('2.00', '3.00')).toBe(33);
  expect(discount('3.00', '3.00')).toBeUndefined();
  expect(discount('4.00', '3.00')).toBeUndefined();
});

test('the list shows what can be bought first', () => {
  const groups = grouped(
    [
      sale({ id: 'over', state: 'closed' }),
      sale({ id: 'gone', stock: { total: 1, available: 0 } }),
      sale({ id: 'late', opens_at: at(90) }),
      sale({ id: 'next', opens_at: at(30) }),
      sale({ id: 'always', closes_at: null }),
      sale({ id: 'ends', closes_at: at(10) }),
    ],
    NOON,
  );
  expect(groups.now.map(({ id }) => id)).toEqual(['ends', 'always', 'gone']);
  expect(groups.soon.map(({ id }) => id)).toEqual(['next', 'late']);
  expect(groups.over.map(({ id }) => id)).toEqual(['over']);
});

describe('the next look', () => {
  test('comes after the opening, spread over some seconds', () => {
    const told = sale({ state: 'scheduled', opens_at: at(10) });
    expect(nextLookMs(told, NOON, 0)).toBe(10_500);
    expect(nextLookMs(told, NOON, 1)).toBe(13_500);
  });

  test('is rare while nothing happens', () => {
    const far = sale({ state: 'scheduled', opens_at: at(3600) });
    expect(nextLookMs(far, NOON, 0.5)).toBe(30_000);
    expect(nextLookMs(sale({ state: 'closed' }), NOON, 0.5)).toBe(60_000);
    expect(nextLookMs(sale(), NOON, 0.5)).toBe(4_000);
  });
});
