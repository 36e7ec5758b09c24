// Follows a ticket through the waiting room: by the server's events, and by asking now and then while these don't come.
import { isPassing, type Outcome } from '../../api/client';
import type { Ticket } from '../../api/schema';
import { delayMs } from '../../lib/retry';

export interface Following {
  ask(): Promise<Outcome<Ticket>>;
  open(): EventSource;
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  random(): number;
  /** Calls when a stream may have ended without a word; ends with what it returns. */
  onDoubt(doubt: () => void): () => void;
}

/** Without events the server is asked about so often. */
const ASK_EVERY_MS = 3_000;
/** A stream begins with where the ticket stands. If that does not come, something on the way holds it back. */
const FIRST_WORD_MS = 5_000;
/** A stream that says nothing for so long may have ended without a word. */
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
    // The browser would connect again by itself, but without end and ever after the same time.
    opened.onerror = () => {
      opened.close();
      isCut = true;
      wake();
    };
  };
  /** Until there is something to see to, or the time is over. */
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
        // Those who were cut off together don't come back together.
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
        // What passes is asked again; the rest has to be told.
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
