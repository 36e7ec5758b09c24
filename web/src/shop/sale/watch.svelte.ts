// A sale and its changes: fetched now and then, more often when something is about to happen, and never by
// everybody in the same moment. The browser's cache sends the ETag, so most answers have no body.
import type { Failure } from '../../api/client';
import type { Sale } from '../../api/schema';
import { serverNow } from '../../lib/clock.svelte';
import { delayMs } from '../../lib/retry';
import { saleById } from '../early';
import { phaseOf } from './phase';

/** The wait before the next request, in milliseconds. */
export function nextLookMs(sale: Sale | undefined, now: number, random: number): number {
  const around = (ms: number) => ms * (0.75 + random / 2);
  if (!sale) return around(4_000);
  switch (phaseOf(sale, now)) {
    case 'soon': {
      // The page opens by the clock. The next look only brings the figures, so it is spread widely.
      const untilOpen = sale.opens_at ? Date.parse(sale.opens_at) - now : 15_000;
      return Math.min(around(30_000), Math.max(0, untilOpen) + 500 + random * 3_000);
    }
    case 'open':
      return around(4_000);
    case 'paused':
      return around(5_000);
    case 'sold_out':
      return around(6_000);
    case 'closed':
      return around(60_000);
  }
}

export class SaleWatch {
  sale = $state.raw<Sale>();
  failure = $state.raw<Failure>();
  readonly #id: string;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isOver = false;
  #sent = 0;
  #failures = 0;

  constructor(id: string) {
    this.#id = id;
  }

  start(): () => void {
    const seen = () => {
      if (document.visibilityState === 'visible') void this.look();
    };
    document.addEventListener('visibilitychange', seen);
    void this.look();
    return () => {
      this.#isOver = true;
      clearTimeout(this.#timer);
      document.removeEventListener('visibilitychange', seen);
    };
  }

  async look(): Promise<void> {
    clearTimeout(this.#timer);
    const turn = (this.#sent += 1);
    const answer = await saleById(this.#id);
    // A later look has newer data.
    if (this.#isOver || turn !== this.#sent) return;
    if (answer.ok) this.sale = answer.data;
    this.failure = answer.ok ? undefined : answer.failure;
    this.#failures = answer.ok ? 0 : this.#failures + 1;
    // Nobody is looking at a hidden page; it looks again when it is shown.
    if (this.failure?.status === 404 || document.visibilityState === 'hidden') return;
    const again = nextLookMs(this.sale, serverNow(), Math.random());
    const atLeast = this.failure && delayMs(this.#failures, this.failure.retryAfterSeconds, Math.random());
    this.#timer = setTimeout(() => void this.look(), Math.max(again, atLeast ?? 0));
  }
}
