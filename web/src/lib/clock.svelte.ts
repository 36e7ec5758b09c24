// The server's time, by a measured offset. The visitor's clock may be wrong and may be set while the page is
// open.
import { onDestroy } from 'svelte';
import { api, outcome } from '../api/client';
import { delayMs } from './retry';

const SAMPLES = 3;
/** An answer this quick is accurate enough. */
const QUICK_MS = 120;
const MEASURE_AGAIN_MS = 5 * 60_000;

/** Milliseconds to add to `performance.now()`. */
let offset = $state(Date.now() - performance.now());
let bestRoundTripMs = Infinity;
let measuredAt = -Infinity;
/** The difference of the browser's two clocks. It changes when the device slept or its clock was set. */
let apart = Date.now() - performance.now();
let again: ReturnType<typeof setTimeout> | undefined;

let tell = () => {};
/**
 * Resolves once the server's time was asked for; until then the visitor's clock is used, which may be wrong.
 * Resolves also if the server can't be asked.
 */
export const asked = new Promise<void>((resolve) => (tell = resolve));

const hasSlept = () => Math.abs(Date.now() - performance.now() - apart) > 1000;

/** The server's time in milliseconds since 1970. */
export function serverNow(): number {
  return performance.now() + offset;
}

/** Takes over the server's time from an answer; half the round trip has passed since. */
export function learn(serverTime: string, sentAt: number, receivedAt: number): void {
  const roundTripMs = receivedAt - sentAt;
  if (roundTripMs > bestRoundTripMs) return;
  bestRoundTripMs = roundTripMs;
  offset = Date.parse(serverTime) - (sentAt + receivedAt) / 2;
}

/**
 * Asks the server a few times and believes the quickest answer. Rarely asks again, unless the offset is
 * `inDoubt`.
 */
export async function measure(inDoubt = false, tries = 1): Promise<void> {
  if (!inDoubt && !hasSlept() && performance.now() - measuredAt < MEASURE_AGAIN_MS) return;
  clearTimeout(again);
  measuredAt = performance.now();
  apart = Date.now() - performance.now();
  bestRoundTripMs = Infinity;
  for (let sample = 0; sample < SAMPLES && bestRoundTripMs >= QUICK_MS; sample += 1) {
    const sentAt = performance.now();
    const answer = await outcome(api.GET('/api/v1/time', { cache: 'no-store' }));
    tell();
    if (answer.ok) learn(answer.data.server_time, sentAt, performance.now());
    else if (bestRoundTripMs === Infinity) {
      const later = delayMs(tries, answer.failure.retryAfterSeconds, Math.random());
      again = setTimeout(() => void measure(true, tries + 1), later);
      return;
    }
  }
}

/** The server's time as state; for use in a component. */
export function ticking(everyMs = 250): { readonly now: number } {
  let now = $state(serverNow());
  const timer = setInterval(() => {
    if (hasSlept()) void measure();
    now = serverNow();
  }, everyMs);
  onDestroy(() => clearInterval(timer));
  return {
    get now() {
      return now;
    },
  };
}
