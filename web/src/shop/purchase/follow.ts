// Follows a ticket through the waiting room: by the server's events, and by asking now and then while these don't come.
import type { Outcome } from '../../api/client';
import type { Ticket } from '../../api/schema';

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

export async function* followTicket(
  { ask, open, sleep, random, onDoubt }: Following,
  signal: AbortSignal,
): AsyncGenerator<Outcome<Ticket>> {
  const news: Outcome<Ticket>[] = [];
  let wake = () => {};
  let isStreaming = false;
  let isInDoubt = false;
  let stream: EventSource | undefined;
  const connect = () => {
    stream?.close();
    stream = open();
    stream.onmessage = (event: MessageEvent<string>) => {
      isStreaming = true;
      news.push({ ok: true, data: JSON.parse(event.data) as Ticket });
      wake();
    };
    stream.onerror = () => {
      isStreaming = false;
      wake();
    };
  };
  /** Until there is something to see to, or the time is over. */
  const rest = async (milliseconds: number) => {
    if (news.length > 0 || isInDoubt || signal.aborted) return;
    const over = new AbortController();
    const woken = new Promise<void>((resolve) => (wake = resolve));
    const time = Number.isFinite(milliseconds) ? [sleep(milliseconds, over.signal).catch(() => {})] : [];
    await Promise.race([woken, ...time]);
    over.abort();
  };
  const stop = () => wake();
  signal.addEventListener('abort', stop);
  const trust = onDoubt(() => {
    isInDoubt = true;
    wake();
  });
  try {
    connect();
    await rest(FIRST_WORD_MS);
    while (!signal.aborted) {
      const next = news.shift();
      if (next) yield next;
      else if (isStreaming && !isInDoubt) await rest(Infinity);
      else {
        isInDoubt = false;
        const answer = await ask();
        if (signal.aborted) return;
        // What passes is asked again; that the ticket is unknown has to be told.
        if (answer.ok || answer.failure.status === 404) yield answer;
        if (!isStreaming) await rest(ASK_EVERY_MS * (0.75 + random() / 2));
        // The browser connects again by itself, unless it was told not to.
        if (!isStreaming && stream?.readyState === 2) connect();
      }
    }
  } finally {
    trust();
    signal.removeEventListener('abort', stop);
    stream?.close();
  }
}
