// Patience with an unreliable network, and with other tabs.
import { isPassing, type Failure, type Outcome } from '../../api/client';
import { delayMs, MAX_RETRY_AFTER_SECONDS, MAX_TRIES } from '../../lib/retry';

export interface Lock {
  signal: AbortSignal;
  /** Called if another holder makes us wait. */
  onwait?: () => void;
  /** Takes the lock from its holder. */
  steal?: boolean;
}

export function sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const end = () => {
      clearTimeout(timer);
      reject(signal.reason as Error);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener('abort', end);
      resolve();
    }, milliseconds);
    if (signal.aborted) end();
    else signal.addEventListener('abort', end, { once: true });
  });
}

/** A browser may be wrong about being offline: after this time a try is worthwhile. */
const OFFLINE_MS = 20_000;

/** Resolves when there is a network; at once if there seems to be one. */
export async function online(signal: AbortSignal): Promise<void> {
  if (navigator.onLine !== false) return;
  const back = new AbortController();
  const isBack = new Promise<void>((resolve) =>
    addEventListener('online', () => resolve(), { once: true, signal: back.signal }),
  );
  await Promise.race([isBack, sleep(OFFLINE_MS, signal)]).finally(() => back.abort());
}

/** At most one tab of this browser at a time runs `work` under a name. */
export async function exclusively<T>(
  name: string,
  { signal, onwait, steal = false }: Lock,
  work: () => Promise<T>,
): Promise<T> {
  // Only pages over TLS, or from this machine, have locks. The key alone ensures a single order.
  const locks = navigator.locks as LockManager | undefined;
  if (!locks) return work();
  const full = `penstock.${name}`;
  if (steal) return locks.request(full, { steal }, work);
  const BUSY = Symbol();
  const first = await locks.request(full, { ifAvailable: true }, (lock) => (lock ? work() : BUSY));
  if (first !== BUSY) return first as T;
  onwait?.();
  return locks.request(full, { signal }, work);
}

export interface Patience {
  signal: AbortSignal;
  /** Rejects when `signal` does. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  online(signal: AbortSignal): Promise<void>;
  random(): number;
  /** Called with the reason for a retry, and with undefined when it is over. */
  ontrouble(failure: Failure | undefined): void;
  mayPass?: (failure: Failure) => boolean;
}

/** Calls until the answer will not change by waiting. The retries are visible and limited. */
export async function untilAnswered<T>(
  call: () => Promise<Outcome<T>>,
  { signal, sleep, online, random, ontrouble, mayPass = isPassing }: Patience,
): Promise<Outcome<T>> {
  for (let tries = 1; ; tries += 1) {
    const answer = await call();
    signal.throwIfAborted();
    const failure = answer.ok ? undefined : answer.failure;
    const tooLong = (failure?.retryAfterSeconds ?? 0) > MAX_RETRY_AFTER_SECONDS;
    if (!failure || !mayPass(failure) || tooLong || tries >= MAX_TRIES) {
      ontrouble(undefined);
      return answer;
    }
    ontrouble(failure);
    if (failure.code === 'network') await online(signal);
    await sleep(delayMs(tries, failure.retryAfterSeconds, random()), signal);
  }
}
