import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api, type Failure, type Outcome } from '../../api/client';
import { signedOut, whoAmI } from '../../lib/session.svelte';
import { fetched, keepFresh, unlessItLasts, type Fetched } from './fetched.svelte';

let answers: ((outcome: Outcome<string>) => void)[] = [];
const call = () => new Promise<Outcome<string>>((resolve) => answers.push(resolve));
const answer = async (place: number, data: string) => {
  answers[place]?.({ ok: true, data });
  await vi.advanceTimersByTimeAsync(0);
};
const fail = async (place: number, code: Failure['code']) => {
  const failure = { code, status: 503, detail: '', fields: {}, retryAfterSeconds: undefined };
  answers[place]?.({ ok: false, failure });
  await vi.advanceTimersByTimeAsync(0);
};

function fetchAndKeepFresh(unsaidMs?: (failure: Failure) => number): {
  it: Fetched<string>;
  end: () => void;
} {
  let it!: Fetched<string>;
  const end = $effect.root(() => {
    it = fetched(call, unsaidMs);
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

it('reloads at once on demand, even if an answer is on its way', async () => {
  const { it, end } = fetchAndKeepFresh();
  void it.reload();
  expect(answers).toHaveLength(2);
  await answer(1, 'new');
  await answer(0, 'old');
  expect(it.data).toBe('new');
  end();
});

it('continues after it took over another call’s answer', async () => {
  const { it, end } = fetchAndKeepFresh();
  it.put('given');
  await answer(0, 'older');
  expect(it.data).toBe('given');
  await vi.advanceTimersByTimeAsync(3000);
  expect(answers).toHaveLength(2);
  end();
});

it('hides passing failures, and asks again', async () => {
  const { it, end } = fetchAndKeepFresh(unlessItLasts);
  await fail(0, 'unavailable');
  expect(it.failure).toBeUndefined();
  await vi.advanceTimersByTimeAsync(1000);
  expect(answers).toHaveLength(2);
  await answer(1, 'now');
  expect(it.data).toBe('now');
  end();
});

it('shows a lasting failure, and a final one at once', async () => {
  const { it, end } = fetchAndKeepFresh(unlessItLasts);
  for (let second = 0; second <= 5; second += 1) {
    expect(it.failure).toBeUndefined();
    await fail(second, 'busy');
    await vi.advanceTimersByTimeAsync(1000);
  }
  expect(it.failure?.code).toBe('busy');
  end();
  const other = fetchAndKeepFresh(unlessItLasts);
  await fail(answers.length - 1, 'sale_not_found');
  expect(other.it.failure?.code).toBe('sale_not_found');
  other.end();
});

it('asks for nothing until somebody is signed in, then at once', async () => {
  const { end } = fetchAndKeepFresh();
  await answer(0, 'first');
  signedOut();
  await vi.advanceTimersByTimeAsync(10_000);
  expect(answers).toHaveLength(1);
  document.cookie = 'penstock_signed_in=1';
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: { role: 'admin' }, response: new Response(null) })) as never);
  await whoAmI();
  flushSync();
  expect(answers).toHaveLength(2);
  end();
});
