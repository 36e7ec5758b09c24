// What a page asked the server for: the answer, or why there is none. Asked again when what it depends on changes.
import { untrack } from 'svelte';
import { isPassing, type Failure, type Outcome } from '../../api/client';
import { session } from '../../lib/session.svelte';

export interface Fetched<T> {
  readonly data: T | undefined;
  readonly failure: Failure | undefined;
  readonly busy: boolean;
  reload(): Promise<void>;
  /** Reloads, unless an answer is on its way already: a slow one would be dropped for the next, again and again. */
  refresh(): Promise<void>;
  /** Takes over what another call answered. */
  put(data: T): void;
}

/** An answer that takes longer is not waited for any more when there is another chance. */
const PATIENCE_MS = 30_000;
/** What failed is asked for again after so long, while nothing is said. */
const AGAIN_MS = 1000;

/** For pages that refresh by themselves: what passes within some seconds is not worth a word. */
export const unlessItLasts = (failure: Failure) => (isPassing(failure) ? 5000 : 0);

/**
 * `call` may read state: when that changes, it is called anew, and what comes late for the old state is dropped. Nothing is
 * asked while it gives nothing. `unsaidMs` tells how long a failure is kept quiet while it is asked again.
 */
export function fetched<T>(
  call: () => Promise<Outcome<T>> | undefined,
  unsaidMs: (failure: Failure) => number = () => 0,
): Fetched<T> {
  let data = $state.raw<T>();
  let failure = $state.raw<Failure>();
  let busy = $state(true);
  let turn = 0;
  /** The answer that is on its way, and since when. */
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

/** Asks anew every so often while somebody looks at the page and is signed in. Give it `refresh`, not `reload`. */
export function keepFresh(refresh: () => unknown, everyMs: number): void {
  const isOut = $derived(session.me === null);
  let wasOut = false;
  $effect(() => {
    if (isOut) {
      wasOut = true;
      return;
    }
    // Who comes back finds what was refused meanwhile.
    if (wasOut) untrack(() => void refresh());
    wasOut = false;
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void refresh();
    }, everyMs);
    return () => clearInterval(timer);
  });
}
