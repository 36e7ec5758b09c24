import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { SaleWatch } from './watch.svelte';

const asked = vi.hoisted(() => {
  const asked = vi.fn<() => Promise<Response>>();
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = () => asked();
  return asked;
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

test('an unavailable shop is asked less and less often, and not before it allows', async () => {
  asked.mockImplementation(async () => Response.json({}, { status: 503, headers: { 'Retry-After': '60' } }));
  const stop = new SaleWatch('sale').start();
  await vi.advanceTimersByTimeAsync(59_000);
  expect(asked).toHaveBeenCalledTimes(1);
  asked.mockImplementation(async () => Response.json({}, { status: 503 }));
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(asked.mock.calls.length).toBeGreaterThan(15);
  expect(asked.mock.calls.length).toBeLessThan(45);
  stop();
});
