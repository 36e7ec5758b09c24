// Follows a ticket through the waiting room: by the server's events, and by asking now and then when there
// are none.
import { isPassing, type Outcome } from '../../api/client';
import type { Ticket } from '../../api/schema';
import { delayMs } from '../../lib/retry';

export interface Following {
  ask(): Promise<Outcome<Ticket>>;
  open(): EventSource;
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  random(): number;
  /** Calls when a stream may have ended silently, until the returned function is called. */
  onDoubt(doubt: () => void): () => void;
}

/** How often the server is asked when there are no events. */
const ASK_EVERY_MS = 3_000;
/** A stream begins with the ticket's state. If that does not come, something on the way holds it back. */
const FIRST_WORD_MS = 5_000;
/** A stream that is silent for this long may have ended unnoticed. */
const SILENCE_MS = 60_000;

export async function* followTicket(
  { ask, open, sleep, random, onDoubt }: Following,
  signal: AbortSignal,
): AsyncGenerator<Outcome<Ticket>> {
  const around = (milliseconds: number) => milliseconds * (0.5 + random());
  const news: Ticket[] = [];
  let wake = () => {};
  let isInDoubt = false;
  let isCut = false;
  let last: Ticket | undefined;
  let stream: EventSource | undefined;
  const connect = () => {
    stream?.close();
    last = undefined;
    isInDoubt = isCut = false;
    const opened = (stream = open());
    opened.onmessage = (event: MessageEvent<string>) => {
      news.push(JSON.parse(event.data) as Ticket);
      wake();
    };
    // The browser would reconnect by itself, but for ever and at a fixed interval.
    opened.onerror = () => {
      opened.close();
      isCut = true;
      wake();
    };
  };
  /** Waits until there is something to do, or the time is over. */
  const rest = async (milliseconds: number) => {
    if (news.length > 0 || isInDoubt || signal.aborted) return;
    const over = new AbortController();
    const woken = new Promise<void>((resolve) => (wake = resolve));
    await Promise.race([woken, sleep(milliseconds, over.signal).catch(() => {})]);
    over.abort();
  };
  const stop = () => wake();
  signal.addEventListener('abort', stop);
  const trust = onDoubt(() => {
    isInDoubt = true;
    wake();
  });
  try {
    let failures = 0;
    let pauseMs = around(ASK_EVERY_MS);
    let patienceMs = FIRST_WORD_MS;
    connect();
    for (;;) {
      await rest(patienceMs);
      if (signal.aborted) return;
      const next = news.shift();
      if (next) {
        last = next;
        failures = 0;
        patienceMs = around(SILENCE_MS);
        yield { ok: true, data: next };
      } else if (isInDoubt) {
        connect();
        patienceMs = FIRST_WORD_MS;
      } else if (isCut) {
        // Buyers who were cut off together must not reconnect together.
        isCut = false;
        last = undefined;
        patienceMs = pauseMs;
      } else {
        const answer = await ask();
        if (signal.aborted) return;
        const failure = answer.ok ? undefined : answer.failure;
        failures = failure ? failures + 1 : 0;
        pauseMs = around(ASK_EVERY_MS);
        if (failure) pauseMs = Math.max(pauseMs, delayMs(failures, failure.retryAfterSeconds, random()));
        const isDead = stream?.readyState === 2 || (last && answer.ok && !isSame(last, answer.data));
        if (isDead) connect();
        patienceMs = last && !failure ? around(SILENCE_MS) : pauseMs;
        // Passing failures are retried; all others are reported.
        if (!failure || !isPassing(failure)) yield answer;
      }
    }
  } finally {
    trust();
    signal.removeEventListener('abort', stop);
    stream?.close();
  }
}

function isSame(one: Ticket, other: Ticket): boolean {
  return one.state === other.state && one.position === other.position;
}
