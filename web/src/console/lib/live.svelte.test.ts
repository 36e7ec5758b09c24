import { flushSync } from 'svelte';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { api } from '../../api/client';
import type { LiveFigures } from '../../api/schema';
import { signedOut, whoAmI } from '../../lib/session.svelte';
import { live } from './live.svelte';
import { FakeStream } from './pretended';

function watch(sale: () => string | undefined | null, ontold?: (figures: LiveFigures) => void) {
  let view!: ReturnType<typeof live>;
  const end = $effect.root(() => {
    view = live(sale, ontold);
  });
  flushSync();
  return { view, end };
}

beforeEach(() => {
  vi.useFakeTimers();
  vi.stubGlobal('EventSource', FakeStream);
  FakeStream.all = [];
  document.cookie = 'penstock_signed_in=1';
  vi.spyOn(api, 'GET').mockImplementation((() =>
    Promise.resolve({ data: { role: 'admin' }, response: new Response(null) })) as never);
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

it('shows the figures it gets', () => {
  const told: unknown[] = [];
  const { view, end } = watch(
    () => 's 1',
    (figures) => told.push(figures),
  );
  expect(FakeStream.newest.url).toBe('/api/v1/admin/live?sale=s%201');
  expect(view.connection).toBe('connecting');
  FakeStream.newest.tell({ seconds: 1 });
  expect(view.connection).toBe('live');
  expect(view.figures?.seconds).toBe(1);
  expect(told).toHaveLength(1);
  end();
  expect(FakeStream.newest.isClosed).toBe(true);
});

it('says that it is cut off, reconnects by itself, and keeps the last figures meanwhile', () => {
  const { view, end } = watch(() => undefined);
  FakeStream.newest.tell({ seconds: 1 });
  FakeStream.newest.break();
  expect(view.connection).toBe('cut_off');
  expect(view.figures?.seconds).toBe(1);
  vi.advanceTimersByTime(1300);
  expect(FakeStream.all).toHaveLength(2);
  FakeStream.newest.tell({ seconds: 2 });
  expect(view.connection).toBe('live');
  end();
});

it('treats silence as a break, even if the browser has not noticed', () => {
  const { view, end } = watch(() => undefined);
  FakeStream.newest.tell({ seconds: 1 });
  const first = FakeStream.newest;
  vi.advanceTimersByTime(5100);
  expect(view.connection).toBe('cut_off');
  expect(first.isClosed).toBe(true);
  end();
});

it('waits longer each time, and stops asking at the end', () => {
  const { end } = watch(() => undefined);
  for (let round = 0; round < 3; round += 1) {
    FakeStream.newest.break();
    vi.advanceTimersByTime(20_000);
  }
  const count = FakeStream.all.length;
  end();
  vi.advanceTimersByTime(60_000);
  expect(FakeStream.all).toHaveLength(count);
});

it('asks for nothing while there is nothing to watch', () => {
  const { end } = watch(() => null);
  expect(FakeStream.all).toEqual([]);
  end();
});

it('closes the stream while nobody is signed in, and reopens it after signing in', async () => {
  const { end } = watch(() => undefined);
  FakeStream.newest.tell({ seconds: 1 });
  signedOut();
  flushSync();
  expect(FakeStream.newest.isClosed).toBe(true);
  vi.advanceTimersByTime(60_000);
  expect(FakeStream.all).toHaveLength(1);
  await whoAmI();
  flushSync();
  expect(FakeStream.all).toHaveLength(2);
  end();
});
