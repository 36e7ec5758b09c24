// The purchase's world in a browser.
import { api, outcome } from '../../api/client';
import { measure, serverNow } from '../../lib/clock.svelte';
import { signedOut } from '../../lib/session.svelte';
import { followTicket } from './follow';
import { browserMemory } from './memory';
import { exclusively, online, sleep } from './patience';
import type { Calls, World } from './world';

const calls: Calls = {
  order: (id, quantity, key, pass) =>
    outcome(
      api.POST('/api/v1/sales/{id}/orders', {
        params: {
          path: { id },
          header: { 'Idempotency-Key': key, ...(pass === undefined ? {} : { 'Penstock-Pass': pass }) },
        },
        body: { quantity },
      }),
    ),
  findOrder: (id) => outcome(api.GET('/api/v1/orders/{id}', { params: { path: { id } } })),
  takeTicket: (id) => outcome(api.POST('/api/v1/sales/{id}/tickets', { params: { path: { id } } })),
  ticket: (id, ticket) =>
    outcome(api.GET('/api/v1/sales/{id}/tickets/{ticket}', { params: { path: { id, ticket } } })),
  challenge: (id, kind) =>
    outcome(api.POST('/api/v1/sales/{id}/challenge', { params: { path: { id } }, body: { kind } })),
  pass: (id, proof) =>
    outcome(api.POST('/api/v1/sales/{id}/pass', { params: { path: { id } }, body: proof })),
};

/** Calls when a stream may have broken: after a lost network, or after the device slept. */
function onDoubt(doubt: () => void): () => void {
  const seen = () => {
    if (document.visibilityState === 'visible') doubt();
  };
  addEventListener('online', doubt);
  document.addEventListener('visibilitychange', seen);
  return () => {
    removeEventListener('online', doubt);
    document.removeEventListener('visibilitychange', seen);
  };
}

function solve(
  challenge: { salt: string; difficulty: number },
  onprogress: (part: number) => void,
  signal: AbortSignal,
): Promise<string> {
  const worker = new Worker(new URL('./pow.worker.ts', import.meta.url), { type: 'module' });
  return new Promise<string>((resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error), { once: true });
    worker.onerror = () => reject(new Error('the worker has failed'));
    worker.onmessage = ({ data }: MessageEvent<{ answer?: string; part?: number }>) => {
      if (data.answer !== undefined) resolve(data.answer);
      else onprogress(data.part ?? 0);
    };
    worker.postMessage(challenge);
  }).finally(() => worker.terminate());
}

/** 128 random bits as text. `randomUUID` is missing on pages without TLS. */
function newKey(): string {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) =>
    byte.toString(16).padStart(2, '0'),
  ).join('');
}

export const browserWorld: World = {
  calls,
  memory: browserMemory(),
  now: serverNow,
  doubtNow: () => void measure(true),
  random: Math.random,
  newKey,
  sleep,
  online,
  exclusively,
  follow: (sale, ticket, signal) =>
    followTicket(
      {
        ask: () => calls.ticket(sale, ticket),
        open: () => new EventSource(`/api/v1/sales/${sale}/tickets/${encodeURIComponent(ticket)}/events`),
        sleep,
        random: Math.random,
        onDoubt,
      },
      signal,
    ),
  solve,
  signedOut,
};
