import { describe, expect, it } from 'vitest';
import { closeUp, isClean, latencyRows, readReport, stretches, textOf, whole, type Report } from './report';

const quantiles = { count: 10, p50_ms: 1, p90_ms: 2, p99_ms: 3, p999_ms: 4, max_ms: 5 };
const slice = (at_ms: number, rest: object = {}) => ({
  at_ms,
  came: 1,
  requests: 1,
  orders_due: 1,
  sold: 0,
  admitted: 0,
  refused: {},
  p50_ms: 0,
  p99_ms: 0,
  max_ms: 0,
  ...rest,
});

function aReport(change: object = {}): object {
  return {
    scenario: 'plain',
    about: '10 simulated buyers.',
    url: 'http://127.0.0.1:8080',
    sale: 's1',
    started_at: '2026-11-11T10:00:00Z',
    seed: 1,
    units: 5,
    limit_per_buyer: 1,
    people: { buyers: 10, bots: 0, came: 10, admitted: 0, served: 5, bots_served: 0, gave_up: 0 },
    seconds: 2,
    requests: 30,
    requests_per_second: 15,
    order_requests: 10,
    order_requests_per_second: 10,
    opening: { stock_gone_after_seconds: 0.1, everybody_answered_after_seconds: null },
    orders: { accepted: 5, units: 5, paid: 4, paid_late: 0, refunds: 0, cancelled: 0, walked_away: 1 },
    refused: { sold_out: 5 },
    bots_refused: {},
    latency: { order: quantiles, sign_in: quantiles, pay: { ...quantiles, count: 0 }, dance: quantiles },
    histogram: [],
    slice_ms: 100,
    timeline: [slice(-200), slice(0, { sold: 5, p50_ms: 2, p99_ms: 9 })],
    generator: { threads: 1, connections: 10, busy_percent: 4, late_percent: 0, bottleneck: null },
    verdict: {
      oversold: 0,
      lost: 0,
      duplicated: 0,
      over_limit: 0,
      unanswered: 0,
      audit: true,
      unchecked: null,
      findings: [],
      checked: ['everything'],
    },
    ...change,
  };
}

function read(value: object): Report {
  const answer = readReport(JSON.stringify(value));
  if ('fault' in answer) throw new Error(JSON.stringify(answer));
  return answer.report;
}

describe('reading a report', () => {
  it('accepts the command’s output, also with an extra line around it', () => {
    const text = JSON.stringify(aReport());
    for (const around of [text, `\uFEFF${text}\n`, `$ penstock rush --json\n${text}\n$`]) {
      const answer = readReport(around);
      expect('report' in answer && answer.report.units).toBe(5);
    }
  });

  it('accepts a file that PowerShell wrote', () => {
    const text = '{"scenario": "抢购"}';
    const wide = Uint8Array.from(
      [...`\uFEFF${text}`].flatMap((one) => [one.charCodeAt(0) & 255, one.charCodeAt(0) >> 8]),
    );
    expect(textOf(wide)).toBe(text);
    expect(textOf(wide.slice(2))).toBe(text);
    expect(textOf(new TextEncoder().encode(text))).toBe(text);
  });

  it('names the fault of anything else', () => {
    expect(readReport('  ')).toEqual({ fault: 'empty' });
    expect(readReport('sold out after 3 s')).toEqual({ fault: 'not_json' });
    expect(readReport('{"scenario": ')).toEqual({ fault: 'not_json' });
    expect(readReport('<!doctype html><title>Rehearsal</title>')).toEqual({ fault: 'a_page' });
    expect(readReport('[]')).toEqual({ fault: 'not_a_report', at: 'report' });
    expect(readReport('{}')).toMatchObject({ fault: 'not_a_report' });
  });

  it('names the place that does not fit', () => {
    const at = (change: object) => readReport(JSON.stringify(aReport(change)));
    expect(at({ units: 'many' })).toEqual({ fault: 'not_a_report', at: 'units' });
    expect(at({ people: null })).toEqual({ fault: 'not_a_report', at: 'people' });
    expect(at({ timeline: [slice(0), { at_ms: null }] })).toEqual({
      fault: 'not_a_report',
      at: 'timeline[1].at_ms',
    });
    expect(at({ latency: { order: { count: 1 } } })).toEqual({
      fault: 'not_a_report',
      at: 'latency.order.p50_ms',
    });
    expect(at({ refused: { sold_out: '7' } })).toEqual({ fault: 'not_a_report', at: 'refused.sold_out' });
  });

  it('is not clean if something is wrong or unchecked', () => {
    const { verdict } = read(aReport());
    expect(isClean(verdict)).toBe(true);
    expect(isClean({ ...verdict, audit: null })).toBe(true);
    expect(isClean({ ...verdict, lost: 1 })).toBe(false);
    expect(isClean({ ...verdict, audit: false })).toBe(false);
    expect(isClean({ ...verdict, unchecked: 'no token' })).toBe(false);
  });
});

describe('drawing a report', () => {
  it('merges slices and counts none twice', () => {
    const timeline = Array.from({ length: 1000 }, (_, place) =>
      slice(place * 100, { sold: 1, refused: { busy: 2 }, p50_ms: place < 500 ? 1 : 3, p99_ms: place }),
    );
    const report = read(aReport({ timeline }));
    const { stretches: found, seconds } = stretches(report, whole(report), 100);
    expect(found).toHaveLength(100);
    expect(seconds).toBe(1);
    expect(found.reduce((sum, { sold }) => sum + sold, 0)).toBe(1000);
    expect(found[0]).toMatchObject({ seconds: 0, refused: { busy: 20 }, p50_ms: 1, p99_ms: 9 });
  });

  it('never mixes slices before and after the opening', () => {
    const timeline = Array.from({ length: 1000 }, (_, place) =>
      slice((place - 333) * 100, { sold: place < 333 ? 0 : 1 }),
    );
    const report = read(aReport({ timeline }));
    const { stretches: found } = stretches(report, whole(report), 100);
    expect(found.filter(({ seconds }) => seconds < 0).every(({ sold }) => sold === 0)).toBe(true);
    expect(found.find(({ seconds }) => seconds === 0)?.sold).toBe(10);
    expect(found.reduce((sum, { sold }) => sum + sold, 0)).toBe(667);
  });

  it('leaves a gap where nothing was answered, and fills missing counts with zeros', () => {
    const report = read(aReport({ timeline: [slice(-300), slice(0, { sold: 5, p50_ms: 2, p99_ms: 9 })] }));
    const { stretches: found } = stretches(report, whole(report));
    expect(found.map(({ came }) => came)).toEqual([1, 0, 0, 1]);
    expect(found.map(({ p99_ms }) => p99_ms)).toEqual([null, null, null, 9]);
  });

  it('zooms in on the time in which nearly all orders came', () => {
    const calm = Array.from({ length: 100 }, (_, place) => slice(-10_000 + place * 100));
    const rush = [
      slice(0, { sold: 5, refused: { sold_out: 9000 } }),
      slice(100, { refused: { sold_out: 900 } }),
    ];
    const after = Array.from({ length: 100 }, (_, place) => slice(200 + place * 100));
    const report = read(aReport({ timeline: [...calm, ...rush, ...after] }));
    const [from, to] = closeUp(report);
    expect(from).toBeGreaterThanOrEqual(-300);
    expect(from).toBeLessThanOrEqual(0);
    expect(to).toBeGreaterThanOrEqual(200);
    expect(to).toBeLessThanOrEqual(500);
  });

  it('lists requests in a buyer’s order, and leaves out unused kinds', () => {
    expect(latencyRows(read(aReport()).latency).map(([kind]) => kind)).toEqual(['sign_in', 'order', 'dance']);
  });
});
