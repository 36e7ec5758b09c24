// Calls that get no answer.
import { beforeEach, expect, test, vi } from 'vitest';
import { api, outcome } from './client';

const sent = vi.hoisted(() => {
  const sent: Request[] = [];
  // The client keeps `fetch` from when it is loaded. This one never answers; it ends only when it is aborted.
  globalThis.fetch = (input) => {
    const request = input as Request;
    sent.push(request);
    return new Promise((_, reject) =>
      request.signal.addEventListener('abort', () => reject(request.signal.reason as Error)),
    );
  };
  return sent;
});

let runsOut = new AbortController();
beforeEach(() => {
  runsOut = new AbortController();
  vi.spyOn(AbortSignal, 'timeout').mockImplementation(() => runsOut.signal);
});

test('a call without an answer ends as a network failure', async () => {
  const answer = outcome(api.GET('/api/v1/time'));
  runsOut.abort();
  expect(await answer).toMatchObject({ ok: false, failure: { code: 'network' } });
  expect(AbortSignal.timeout).toHaveBeenCalledExactlyOnceWith(15_000);
});

test('a call that may take long has no limit', async () => {
  void outcome(api.GET('/api/v1/admin/audit', { signal: null }));
  await vi.waitFor(() => expect(sent.at(-1)?.url).toContain('audit'));
  runsOut.abort();
  expect(sent.at(-1)?.signal.aborted).toBe(false);
});

test('a call with its own limit ends at that limit', async () => {
  const own = new AbortController();
  const answer = outcome(api.GET('/api/v1/time', { signal: own.signal }));
  runsOut.abort();
  expect(sent.at(-1)?.signal.aborted).toBe(false);
  own.abort();
  expect(await answer).toMatchObject({ ok: false, failure: { code: 'network' } });
});
