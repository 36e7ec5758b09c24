// A stream of live figures for tests: a fake server that sends given figures.
import type { LiveFigures, LiveSale } from '../../api/schema';

export class FakeStream extends EventTarget {
  static all: FakeStream[] = [];
  isClosed = false;
  readonly url: string;
  constructor(url: string) {
    super();
    this.url = url;
    FakeStream.all.push(this);
  }
  static get newest(): FakeStream {
    return FakeStream.all.at(-1) as FakeStream;
  }
  close(): void {
    this.isClosed = true;
  }
  tell(figures: Partial<LiveFigures>): void {
    this.dispatchEvent(new MessageEvent('figures', { data: JSON.stringify(figures) }));
  }
  break(): void {
    this.dispatchEvent(new Event('error'));
  }
}

/** A sale in a rush, with a different value for each number. */
export function aRush(change: Partial<LiveSale> = {}): LiveSale {
  return {
    id: '1f5r7wz82mh35',
    title: 'Phone X',
    state: 'open',
    total: 100,
    available: 61,
    held: 27,
    paid: 12,
    waiting: 4321,
    passes_live: 53,
    waitlist: 17,
    admitted_per_second: 19,
    looks_per_second: 810,
    claims_per_second: 420,
    accepted_per_second: 31,
    refusals_per_second: { pass_required: 380, limit_reached: 9 },
    totals: {
      looks: 9100,
      claims: 5200,
      accepted: 39,
      refused: { pass_required: 5000, limit_reached: 161 },
      gone: 0,
      passes: 92,
      tickets: 4466,
      admitted: 145,
    },
    ...change,
  };
}

export function someFigures(change: Partial<LiveFigures> = {}): LiveFigures {
  return {
    at: '2026-11-11T10:00:00Z',
    seconds: 1,
    requests_per_second: 1500,
    refusals_per_second: {},
    latency: { claims: 420, p50_ms: 2.5, p99_ms: 14, max_ms: 20 },
    settlement: { lag_decisions: 77, lag_seconds: 1.4, dead_letters: 3 },
    nodes: [
      {
        name: 'north',
        ready: true,
        seen_seconds_ago: 0.2,
        requests_per_second: 1502,
        in_flight: 6,
        in_flight_limit: 256,
        queue_depth: 44,
        connections: 903,
      },
      {
        name: 'south',
        ready: false,
        seen_seconds_ago: 7,
        trouble: 'the journal can’t be written',
        in_flight: 0,
        in_flight_limit: 128,
        queue_depth: 0,
        connections: 1,
      },
    ],
    sales: [aRush()],
    ...change,
  };
}
