import { describe, expect, it } from 'vitest';
import type { LiveFigures, LiveSale } from '../../api/schema';
import { KEPT_SECONDS, Series } from './series';

const START = Date.parse('2026-11-11T10:00:00Z');
const SALE = 's1';

function figures(second: number, sale: Partial<LiveSale> = {}, rest: Partial<LiveFigures> = {}): LiveFigures {
  return {
    at: new Date(START + second * 1000).toISOString(),
    seconds: 1,
    latency: null,
    nodes: [],
    requests_per_second: 0,
    refusals_per_second: {},
    settlement: { lag_decisions: 3, lag_seconds: 0.1, dead_letters: 0, trouble: null },
    sales: [
      {
        id: SALE,
        title: 'Phone X',
        state: 'open',
        total: 100,
        available: 90,
        held: 6,
        paid: 4,
        waiting: 0,
        passes_live: 0,
        looks_per_second: 10,
        claims_per_second: 5,
        accepted_per_second: 1,
        admitted_per_second: 0,
        refusals_per_second: {},
        totals: {
          looks: 0,
          claims: 0,
          accepted: 0,
          admitted: 0,
          gone: 0,
          passes: 0,
          refused: {},
          tickets: 0,
        },
        ...sale,
      },
    ],
    ...rest,
  };
}

describe('the series of the live view', () => {
  it('has one row a second', () => {
    const series = new Series();
    series.push(figures(0), SALE);
    series.push(figures(1, { claims_per_second: 7 }), SALE);
    expect(series.times).toEqual([START / 1000, START / 1000 + 1]);
    expect(series.column('claims')).toEqual([5, 7]);
    expect(series.column('lag')).toEqual([3, 3]);
    expect(series.column('p99')).toEqual([null, null]);
  });

  it('has a gap while it was cut off, not a line across', () => {
    const series = new Series();
    series.push(figures(0), SALE);
    series.push(figures(20), SALE);
    expect(series.column('available')).toEqual([90, null, 90]);
    expect(series.times[1]).toBe(START / 1000 + 10);
  });

  it('is never longer than ten minutes', () => {
    const series = new Series();
    for (let second = 0; second <= 2 * KEPT_SECONDS; second += 1) {
      series.push(figures(second, { refusals_per_second: { sold_out: second } }), SALE);
    }
    expect(series.length).toBe(KEPT_SECONDS + 1);
    expect(series.refusals('sold_out')).toHaveLength(KEPT_SECONDS + 1);
    expect(series.column('held')).toHaveLength(KEPT_SECONDS + 1);
    expect(series.times[0]).toBe(START / 1000 + KEPT_SECONDS);
  });

  it('fills a new reason with zeros, and a past one, too', () => {
    const series = new Series();
    series.push(figures(0), SALE);
    series.push(figures(1, { refusals_per_second: { busy: 4 } }), SALE);
    series.push(figures(2, { refusals_per_second: { sold_out: 9 } }), SALE);
    expect(series.codes).toEqual(['busy', 'sold_out']);
    expect(series.refusals('busy')).toEqual([0, 4, 0]);
    expect(series.refusals('sold_out')).toEqual([0, 0, 9]);
  });

  it('does not count a restarted node as a second without demand', () => {
    const series = new Series();
    series.push(figures(0, { refusals_per_second: { busy: 1 } }), SALE);
    series.push(figures(1, { claims_per_second: 0 }, { seconds: 0 }), SALE);
    series.push(figures(2), SALE);
    expect(series.column('claims')).toEqual([5, null, 5]);
    expect(series.refusals('busy')).toEqual([1, null, 0]);
    // The ledger's counts are known all the same.
    expect(series.column('available')).toEqual([90, 90, 90]);
  });

  it('skips repeated events, and events without the sale', () => {
    const series = new Series();
    series.push(figures(5), SALE);
    series.push(figures(5), SALE);
    series.push(figures(4), SALE);
    expect(series.length).toBe(1);
    series.push(figures(6, {}, { sales: [] }), SALE);
    expect(series.column('held')).toEqual([6, null]);
  });
});
