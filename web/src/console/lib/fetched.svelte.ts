// What a page asked the server for: the answer, or why there is none. Asked again when what it depends on changes.
import { untrack } from 'svelte';
import type { Failure, Outcome } from '../../api/client';

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

/**
 * `call` may read state: when that changes, it is called anew, and what comes late for the old state is dropped. Nothing is
 * asked while it gives nothing.
 */
export function fetched<T>(call: () => Promise<Outcome<T>> | undefined): Fetched<T> {
  let data = $state.raw<T>();
  let failure = $state.raw<Failure>();
  let busy = $state(true);
  let turn = 0;
  /** The answer that is on its way, and since when. */
  let underWay: { turn: number; since: number } | undefined;

  async function take(answer: Promise<Outcome<T>> | undefined): Promise<void> {
    if (!answer) return;
    turn += 1;
    const mine = turn;
    busy = true;
    underWay = { turn: mine, since: performance.now() };
    const outcome = await answer;
    if (mine !== turn) return;
    busy = false;
    underWay = undefined;
    if (outcome.ok) data = outcome.data;
    failure = outcome.ok ? undefined : outcome.failure;
  }

  $effect(() => {
    const answer = call();
    untrack(() => void take(answer));
    return () => (turn += 1);
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
    refresh: async () => {
      const isAwaited = underWay?.turn === turn && performance.now() - underWay.since < PATIENCE_MS;
      if (!isAwaited) await take(untrack(call));
    },
    put: (given) => {
      turn += 1;
      busy = false;
      failure = undefined;
      data = given;
    },
  };
}

/** Asks anew every so often while somebody looks at the page. Give it `refresh`, not `reload`. */
export function keepFresh(refresh: () => unknown, everyMs: number): void {
  $effect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void refresh();
    }, everyMs);
    return () => clearInterval(timer);
  });
}
