// Follows a ticket through the waiting room: by the server's events, and by asking now and then while these don't come.
import type { Outcome } from '../../api/client';
import type { Ticket } from '../../api/schema';

export interface Following {
  ask(): Promise<Outcome<Ticket>>;
  open(): EventSource;
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  random(): number;
}

/** Without events the server is asked about so often. */
const ASK_EVERY_MS = 3_000;

export async function* followTicket(
  { ask, open, sleep, random }: Following,
  signal: AbortSignal,
): AsyncGenerator<Outcome<Ticket>> {
  const news: Outcome<Ticket>[] = [];
  let wake = () => {};
  let isStreaming = true;
  let stream: EventSource | undefined;
  const tell = (outcome: Outcome<Ticket>) => {
    news.push(outcome);
    wake();
  };
  const connect = () => {
    stream?.close();
    stream = open();
    stream.onmessage = (event: MessageEvent<string>) => {
      isStreaming = true;
      tell({ ok: true, data: JSON.parse(event.data) as Ticket });
    };
    stream.onerror = () => {
      isStreaming = false;
      wake();
    };
  };
  const stop = () => wake();
  signal.addEventListener('abort', stop);
  try {
    connect();
    while (!signal.aborted) {
      const next = news.shift();
      if (next) {
        yield next;
        continue;
      }
      if (isStreaming) {
        await new Promise<void>((resolve) => (wake = resolve));
        continue;
      }
      const answer = await ask();
      if (signal.aborted) return;
      // What passes is asked again; that the ticket is unknown has to be told.
      if (answer.ok || answer.failure.status === 404) yield answer;
      await sleep(ASK_EVERY_MS * (0.75 + random() / 2), signal).catch(() => {});
      // The browser connects again by itself, unless it was told not to.
      if (!isStreaming && stream?.readyState === 2) connect();
    }
  } finally {
    signal.removeEventListener('abort', stop);
    stream?.close();
  }
}
