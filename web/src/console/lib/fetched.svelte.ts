// What a page asked the server for: the answer, or why there is none. Asked again when what it depends on changes.
import { untrack } from 'svelte';
import type { Failure, Outcome } from '../../api/client';

export interface Fetched<T> {
  readonly data: T | undefined;
  readonly failure: Failure | undefined;
  readonly busy: boolean;
  reload(): Promise<void>;
  /** Takes over what another call answered. */
  put(data: T): void;
}

/**
 * `call` may read state: when that changes, it is called anew, and what comes late for the old state is dropped. Nothing is
 * asked while it gives nothing.
 */
export function fetched<T>(call: () => Promise<Outcome<T>> | undefined): Fetched<T> {
  let data = $state.raw<T>();
  let failure = $state.raw<Failure>();
  let busy = $state(true);
  let turn = 0;

  async function take(answer: Promise<Outcome<T>> | undefined): Promise<void> {
    if (!answer) return;
    turn += 1;
    const mine = turn;
    busy = true;
    const outcome = await answer;
    if (mine !== turn) return;
    busy = false;
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
    put: (given) => {
      turn += 1;
      busy = false;
      failure = undefined;
      data = given;
    },
  };
}

/** Reloads every so often while somebody looks at the page. */
export function keepFresh(reload: () => unknown, everyMs: number): void {
  $effect(() => {
    const timer = setInterval(() => {
      if (document.visibilityState === 'visible') void reload();
    }, everyMs);
    return () => clearInterval(timer);
  });
}
