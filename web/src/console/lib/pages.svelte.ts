// A list that is loaded page by page.
import { untrack } from 'svelte';
import type { Failure, Outcome } from '../../api/client';

interface Page<T> {
  data: T[];
  next?: string | null;
}

/** `call` may read state; when that changes, the list starts again. */
export function paged<T>(call: (after: string | undefined) => Promise<Outcome<Page<T>>>) {
  let rows = $state.raw<T[]>([]);
  let next = $state.raw<string | null | undefined>(undefined);
  let failure = $state.raw<Failure>();
  let busy = $state(true);
  let loaded = $state(false);
  let turn = 0;

  async function take(answer: Promise<Outcome<Page<T>>>, before: T[]): Promise<void> {
    turn += 1;
    const mine = turn;
    busy = true;
    const outcome = await answer;
    if (mine !== turn) return;
    busy = false;
    failure = outcome.ok ? undefined : outcome.failure;
    if (!outcome.ok) return;
    rows = [...before, ...outcome.data.data];
    next = outcome.data.next;
    loaded = true;
  }

  $effect(() => {
    const answer = call(undefined);
    untrack(() => {
      loaded = false;
      void take(answer, []);
    });
    return () => (turn += 1);
  });

  return {
    get rows() {
      return rows;
    },
    get failure() {
      return failure;
    },
    get busy() {
      return busy;
    },
    /** Whether the rows are those that were requested. */
    get loaded() {
      return loaded;
    },
    get hasMore() {
      return Boolean(next);
    },
    more: () =>
      take(
        untrack(() => call(next ?? undefined)),
        rows,
      ),
    reload: () =>
      take(
        untrack(() => call(undefined)),
        [],
      ),
    /** Changes a row in place. */
    change: (find: (row: T) => boolean, row: T | undefined) => {
      rows = rows.flatMap((old) => (find(old) ? (row ? [row] : []) : [old]));
    },
  };
}
