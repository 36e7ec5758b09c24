import { afterEach, beforeEach, expect, test, vi } from 'vitest';

let tellTime: (() => void) | undefined;

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers();
  tellTime = undefined;
  const time = () => Response.json({ server_time: '2030-01-01T00:00:00Z' });
  vi.stubGlobal('fetch', (input: Request) =>
    input.url.endsWith('/time')
      ? new Promise((resolve) => (tellTime = () => resolve(time())))
      : Promise.resolve(Response.json({ data: [], next: null })),
  );
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

async function start(): Promise<{ isThere: boolean; now: () => number }> {
  const { measure, serverNow } = await import('../lib/clock.svelte');
  const { firstSales, foresee } = await import('./early');
  void measure();
  foresee('/');
  const seen = { isThere: false, now: serverNow };
  void firstSales().then(() => (seen.isThere = true));
  await vi.advanceTimersByTimeAsync(500);
  expect(seen.isThere).toBe(false);
  return seen;
}

test('nothing is shown by the visitor’s clock while the server’s is on its way', async () => {
  const seen = await start();
  tellTime?.();
  await vi.advanceTimersByTimeAsync(1);
  expect(seen.isThere).toBe(true);
  expect(new Date(seen.now()).getFullYear()).toBe(2030);
});

test('a slow answer about the time keeps nobody waiting', async () => {
  const seen = await start();
  await vi.advanceTimersByTimeAsync(600);
  expect(seen.isThere).toBe(true);
});
