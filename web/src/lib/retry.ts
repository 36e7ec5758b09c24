// How long to wait before another try. The waits differ, so that a crowd that was turned away does not come
// back all at once.

export const MAX_TRIES = 20;
/** A visitor who is asked to wait longer than this is told so instead of being kept waiting. */
export const MAX_RETRY_AFTER_SECONDS = 60;

const FIRST_MS = 500;
const LONGEST_MS = 15_000;
/** Even short waits are spread over this time. */
const SPREAD_MS = 2_000;

/** The wait after the given number of tries, counted from 1. */
export function delayMs(tries: number, retryAfterSeconds: number | undefined, random: number): number {
  const growing = Math.min(LONGEST_MS, FIRST_MS * 2 ** (tries - 1));
  const least = Math.max(growing, (retryAfterSeconds ?? 0) * 1000);
  return least + random * Math.max(least, SPREAD_MS);
}
