import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { session, whoAmI } from './session.svelte';

const asked = vi.hoisted(() => {
  const asked = vi.fn<() => Promise<Response>>();
  // The client keeps `fetch` from when it is loaded.
  globalThis.fetch = () => asked();
  return asked;
});

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  vi.useRealTimers();
  document.cookie = 'penstock_signed_in=; max-age=0';
});

test('the server is not asked if no session began here', async () => {
  await whoAmI();
  expect(session.me).toBeNull();
  expect(asked).not.toHaveBeenCalled();
});

test('an unavailable shop is asked less and less often who is signed in, and not before it allows', async () => {
  vi.resetModules();
  const { session, whoAmI } = await import('./session.svelte');
  document.cookie = 'penstock_signed_in=1';
  asked.mockImplementation(async () => Response.json({}, { status: 503, headers: { 'Retry-After': '60' } }));
  await whoAmI();
  await vi.advanceTimersByTimeAsync(59_000);
  expect(asked).toHaveBeenCalledTimes(1);
  asked.mockImplementation(async () => Response.json({}, { status: 503 }));
  await vi.advanceTimersByTimeAsync(10 * 60_000);
  expect(asked.mock.calls.length).toBeGreaterThan(15);
  expect(asked.mock.calls.length).toBeLessThan(45);
  expect(session.me).toBeUndefined();
  asked.mockImplementation(async () => Response.json({ buyer: 'ada', role: 'buyer', account: null }));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(session.me?.buyer).toBe('ada');
  // Another tab has signed in somebody else, and the shop can't say whom: this tab does not continue as ada.
  asked.mockImplementation(async () => Response.json({}, { status: 503 }));
  await whoAmI();
  expect(session.me).toBeUndefined();
  asked.mockImplementation(async () => Response.json({ buyer: 'bob', role: 'buyer', account: null }));
  await vi.advanceTimersByTimeAsync(30_000);
  expect(session.me?.buyer).toBe('bob');
  // An overtaken answer does not count.
  let late = (_: Response): void => {};
  asked.mockImplementationOnce(() => new Promise((resolve) => (late = resolve)));
  const asking = whoAmI();
  await whoAmI();
  late(Response.json({}, { status: 503 }));
  await asking;
  expect(session.me?.buyer).toBe('bob');
});
