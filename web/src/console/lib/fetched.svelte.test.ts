import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Outcome } from '../../api/client';
import { fetched, keepFresh, type Fetched } from './fetched.svelte';

let answers: ((outcome: Outcome<string>) => void)[] = [];
const call = () => new Promise<Outcome<string>>((resolve) => answers.push(resolve));
const answer = async (place: number, data: string) => {
  answers[place]?.({ ok: true, data });
  await vi.advanceTimersByTimeAsync(0);
};

function fetchAndKeepFresh(): { it: Fetched<string>; end: () => void } {
  let it!: Fetched<string>;
  const end = $effect.root(() => {
    it = fetched(call);
    keepFresh(it.refresh, 3000);
  });
  flushSync();
  return { it, end };
}

beforeEach(() => {
  answers = [];
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

it('waits for a slow answer instead of dropping it for the next', async () => {
  const { it, end } = fetchAndKeepFresh();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(answers).toHaveLength(1);
  await answer(0, 'slow');
  expect(it.data).toBe('slow');
  await vi.advanceTimersByTimeAsync(3000);
  expect(answers).toHaveLength(2);
  end();
});

it('asks again in the end when no answer comes at all', async () => {
  const { it, end } = fetchAndKeepFresh();
  await vi.advanceTimersByTimeAsync(33_000);
  expect(answers).toHaveLength(2);
  await answer(0, 'too late');
  expect(it.data).toBeUndefined();
  await answer(1, 'now');
  expect(it.data).toBe('now');
  end();
});

it('reloads at once when somebody wants it, whatever is on its way', async () => {
  const { it, end } = fetchAndKeepFresh();
  void it.reload();
  expect(answers).toHaveLength(2);
  await answer(1, 'new');
  await answer(0, 'old');
  expect(it.data).toBe('new');
  end();
});

it('goes on after another call’s answer was taken over', async () => {
  const { it, end } = fetchAndKeepFresh();
  it.put('given');
  await answer(0, 'older');
  expect(it.data).toBe('given');
  await vi.advanceTimersByTimeAsync(3000);
  expect(answers).toHaveLength(2);
  end();
});
