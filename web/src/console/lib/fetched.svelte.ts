// Data that a page fetches from the server: the answer, or why there is none. Fetched again when its inputs
// change.
import { untrack } from 'svelte';
import { isPassing, type Failure, type Outcome } from '../../api/client';
import { session } from '../../lib/session.svelte';

export interface Fetched<T> {
  readonly data: T | undefined;
  readonly failure: Failure | undefined;
  readonly busy: boolean;
  reload(): Promise<void>;
  /**
   * Reloads, unless an answer is on its way already: otherwise a slow answer would be dropped again and
   * again.
   */
  refresh(): Promise<void>;
  /** Takes over the answer of another call. */
  put(data: T): void;
}

/** After this time, an answer is given up for a new request. */
const PATIENCE_MS = 30_000;
/** How soon a failed call is repeated while its failure is not shown. */
const AGAIN_MS = 1000;

/** For pages that refresh by themselves: a failure that passes within seconds is not shown. */
export const unlessItLasts = (failure: Failure) => (isPassing(failure) ? 5000 : 0);

/**
 * `call` may read state: when that changes, it is called again, and late answers for the old state are
 * dropped. Nothing is fetched while it returns nothing. `unsaidMs` is how long a failure stays hidden while
 * the call is repeated.
 */
export function fetched<T>(
  call: () => Promise<Outcome<T>> | undefined,
  unsaidMs: (failure: Failure) => number = () => 0,
): Fetched<T> {
  let data = $state.raw<T>();
  let failure = $state.raw<Failure>();
  let busy = $state(true);
  let turn = 0;
  /** The answer that is on its way, and when it was requested. */
  let underWay: { turn: number; since: number } | undefined;
  let failingSince: number | undefined;
  let again: ReturnType<typeof setTimeout> | undefined;

  async function take(answer: Promise<Outcome<T>> | undefined): Promise<void> {
    if (!answer) return;
    turn += 1;
    const mine = turn;
    clearTimeout(again);
    busy = true;
    underWay = { turn: mine, since: performance.now() };
    const outcome = await answer;
    if (mine !== turn) return;
    busy = false;
    underWay = undefined;
    if (outcome.ok) {
      data = outcome.data;
      failure = failingSince = undefined;
      return;
    }
    const now = performance.now();
    failingSince ??= now;
    if (failure || now - failingSince >= unsaidMs(outcome.failure)) failure = outcome.failure;
    else again = setTimeout(() => void refresh(), AGAIN_MS);
  }

  async function refresh(): Promise<void> {
    const isAwaited = underWay?.turn === turn && performance.now() - underWay.since < PATIENCE_MS;
    if (!isAwaited) await take(untrack(call));
  }

  $effect(() => {
    const answer = call();
    failingSince = undefined;
    untrack(() => void take(answer));
    return () => {
      turn += 1;
      clearTimeout(again);
    };
  });

  return {
    get data() {
      return data;
    },
    get failure() {
      return failure;
    },
    get busy() {
      return busy;
    },
    reload: () => take(untrack(call)),
    refresh,
    put: (given) => {
      turn += 1;
      clearTimeout(again);
      busy = false;
      failure = failingSince = undefined;
      data = given;
    },
  };
}

/**
 * Repeats `refresh` regularly while the page is visible and somebody is signed in. Give it `refresh`, not
 * `reload`.
 */
export function keepFresh(refresh: () => unknown, everyMs: number): void {
  const isOut = $derived(session.me === null);
  let wasOut = false;
  $effect(() => {
    if (isOut) {
      wasOut = true;
      return;
    }
    // After signing in again, fetch what was refused meanwhile.
    if (wasOut) untrack(() => void refresh());
    wasOut = false;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void refresh();
    }, everyMs);
    return () => clearInterval(timer);
  });
}
