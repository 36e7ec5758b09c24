// How long to wait before trying again, so that a crowd that was turned away does not come back all at once.

export const MAX_TRIES = 20;
/** Whoever is told to come back later than this is better told so than kept waiting. */
export const MAX_RETRY_AFTER_SECONDS = 60;

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
/** However soon it is, a crowd is spread over as much. */
const SPREAD_MS = 2_000;

/** The wait after so many tries, counted from 1. */
export function delayMs(tries: number, retryAfterSeconds: number | undefined, random: number): number {
  const growing = Math.min(LONGEST_MS, FIRST_MS * 2 ** (tries - 1));
  const least = Math.max(growing, (retryAfterSeconds ?? 0) * 1000);
  return least + random * Math.max(least, SPREAD_MS);
}
