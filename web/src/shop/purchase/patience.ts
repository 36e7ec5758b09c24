// Patience with a network that comes and goes, and with other tabs.
import { isPassing, type Failure, type Outcome } from '../../api/client';
import { delayMs, MAX_RETRY_AFTER_SECONDS, MAX_TRIES } from '../../lib/retry';

export interface Lock {
  signal: AbortSignal;
  /** Called if somebody else has it and we have to wait. */
  onwait?: () => void;
  /** Takes it away from who has it. */
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

/** A browser may be wrong about being offline: after this time it is worth a try. */
const OFFLINE_MS = 20_000;

/** Ends when there is a network; at once if there seems to be one. */
export async function online(signal: AbortSignal): Promise<void> {
  if (navigator.onLine !== false) return;
  const back = new AbortController();
  const isBack = new Promise<void>((resolve) =>
    addEventListener('online', () => resolve(), { once: true, signal: back.signal }),
  );
  await Promise.race([isBack, sleep(OFFLINE_MS, signal)]).finally(() => back.abort());
}

/** Only one tab of this browser at a time is in `work` under the same name. */
export async function exclusively<T>(
  name: string,
  { signal, onwait, steal = false }: Lock,
  work: () => Promise<T>,
): Promise<T> {
  // Only pages that came over TLS, or from this machine, have locks. The key alone is enough for one order.
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
  /** Told why the call is tried again, and undefined when it is over. */
  ontrouble(failure: Failure | undefined): void;
  mayPass?: (failure: Failure) => boolean;
}

/** Calls until there is an answer that will not change by waiting, visibly and not without end. */
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
