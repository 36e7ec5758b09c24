import { afterEach, beforeEach, expect, test, vi } from 'vitest';

beforeEach(() => {
  vi.resetModules();
  vi.useFakeTimers({ toFake: ['performance', 'Date', 'setTimeout', 'setInterval'] });
});
afterEach(() => {
  vi.useRealTimers();
  vi.unstubAllGlobals();
});

test('the quickest answer is believed, with half its round trip added', async () => {
  const { learn, serverNow } = await import('./clock.svelte');
  const start = performance.now();
  vi.advanceTimersByTime(400);
  learn('2030-01-01T00:00:10.000Z', start, start + 400);
  expect(serverNow()).toBe(Date.parse('2030-01-01T00:00:10.200Z'));
  // A slower answer counts less, a quicker one more.
  learn('2031-01-01T00:00:00.000Z', start, start + 900);
  expect(serverNow()).toBe(Date.parse('2030-01-01T00:00:10.200Z'));
  learn('2030-01-01T00:00:20.000Z', start + 380, start + 400);
  expect(serverNow()).toBe(Date.parse('2030-01-01T00:00:20.010Z'));
});

test('a change of the visitor’s clock has no effect', async () => {
  const { learn, serverNow } = await import('./clock.svelte');
  learn('2030-01-01T00:00:00.000Z', performance.now(), performance.now());
  vi.setSystemTime(new Date('1999-01-01'));
  vi.advanceTimersByTime(1_000);
  expect(serverNow()).toBe(Date.parse('2030-01-01T00:00:01.000Z'));
});

test('the server is asked again only after a while', async () => {
  const asked = vi.fn(async () => Response.json({ server_time: '2030-01-01T00:00:00.000Z' }));
  vi.stubGlobal('fetch', asked);
  const { measure } = await import('./clock.svelte');
  await measure();
  await measure();
  expect(asked).toHaveBeenCalledTimes(1);
  vi.advanceTimersByTime(5 * 60_000);
  await measure();
  expect(asked).toHaveBeenCalledTimes(2);
});

test('a server that can’t tell the time is asked again, less and less often, until it can', async () => {
  const asked = vi.fn(async () => Response.json({}, { status: 503 }));
  vi.stubGlobal('fetch', asked);
  const { measure, serverNow } = await import('./clock.svelte');
  await measure();
  expect(asked).toHaveBeenCalledTimes(1);
  await vi.advanceTimersByTimeAsync(2_500);
  expect(asked.mock.calls.length).toBeGreaterThan(1);
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect(asked.mock.calls.length).toBeLessThan(30);
  asked.mockImplementation(async () => Response.json({ server_time: '2030-01-01T00:00:00.000Z' }));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(new Date(serverNow()).getFullYear()).toBe(2030);
  asked.mockClear();
  await vi.advanceTimersByTimeAsync(5 * 60_000);
  expect(asked).not.toHaveBeenCalled();
});

test('a countdown notices that the device slept', async () => {
  const asked = vi.fn(async () => Response.json({ server_time: '2030-01-01T00:00:00.000Z' }));
  vi.stubGlobal('fetch', asked);
  const { measure } = await import('./clock.svelte');
  const { render } = await import('@testing-library/svelte');
  const { default: Countdown } = await import('../ui/Countdown.svelte');
  await measure();
  render(Countdown, { until: '2030-01-01T01:00:00Z' });
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveBeenCalledTimes(1);
  vi.setSystemTime(Date.now() + 60_000);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(asked).toHaveBeenCalledTimes(2);
});
