import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Outcome } from '../../api/client';
import type { Ticket } from '../../api/schema';
import { sleep } from './browser';
import { followTicket } from './follow';

class Stream {
  onmessage: ((event: MessageEvent<string>) => void) | null = null;
  onerror: (() => void) | null = null;
  readyState = 1;
  close = vi.fn(() => (this.readyState = 2));
  says(ticket: Partial<Ticket>): void {
    this.onmessage?.({ data: JSON.stringify(ticket) } as MessageEvent<string>);
  }
}

function following() {
  const streams: Stream[] = [];
  const ask = vi.fn(async (): Promise<Outcome<Ticket>> => ({ ok: true, data: { position: 7 } as Ticket }));
  const open = vi.fn(() => {
    streams.push(new Stream());
    return streams.at(-1) as unknown as EventSource;
  });
  const stop = new AbortController();
  let doubt = () => {};
  const onDoubt = (call: () => void) => {
    doubt = call;
    return () => {};
  };
  const heard: Outcome<Ticket>[] = [];
  const ended = (async () => {
    const world = { ask, open, sleep, random: () => 0.5, onDoubt };
    for await (const one of followTicket(world, stop.signal)) heard.push(one);
  })();
  return {
    streams,
    ask,
    open,
    stop,
    heard,
    ended,
    doubt: () => doubt(),
    stream: () => streams.at(-1) as Stream,
  };
}

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

describe('following a ticket', () => {
  test('passes on what the server tells, and asks nothing', async () => {
    const { stream, heard, ask, stop, ended } = following();
    stream().says({ position: 3 });
    stream().says({ position: 2 });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(heard).toEqual([
      { ok: true, data: { position: 3 } },
      { ok: true, data: { position: 2 } },
    ]);
    expect(ask).not.toHaveBeenCalled();
    stop.abort();
    await ended;
    expect(stream().close).toHaveBeenCalled();
  });

  test('asks while the stream is cut, and stops asking when it is back', async () => {
    const { stream, heard, ask, stop, ended } = following();
    stream().onerror?.();
    await vi.advanceTimersByTimeAsync(7_000);
    expect(ask.mock.calls.length).toBeGreaterThanOrEqual(2);
    expect(heard.at(-1)).toEqual({ ok: true, data: { position: 7 } });
    stream().says({ position: 1 });
    await vi.advanceTimersByTimeAsync(4_000);
    const asked = ask.mock.calls.length;
    await vi.advanceTimersByTimeAsync(30_000);
    expect(ask.mock.calls.length).toBe(asked);
    stop.abort();
    await ended;
  });

  test('asks if a stream does not begin, as behind a proxy that holds it back', async () => {
    const { ask, heard, stop, ended } = following();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(ask).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(ask).toHaveBeenCalledTimes(1);
    expect(heard).toHaveLength(1);
    stop.abort();
    await ended;
  });

  test('asks once when the network was away or the device slept, and goes on to listen', async () => {
    const { ask, stream, heard, doubt, stop, ended } = following();
    stream().says({ position: 3 });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ask).not.toHaveBeenCalled();
    doubt();
    await vi.advanceTimersByTimeAsync(60_000);
    expect(ask).toHaveBeenCalledTimes(1);
    stream().says({ position: 1 });
    await vi.advanceTimersByTimeAsync(0);
    expect(heard.at(-1)).toEqual({ ok: true, data: { position: 1 } });
    stop.abort();
    await ended;
  });

  test('opens another stream when the browser has given up on the first', async () => {
    const { streams, stream, open, stop, ended } = following();
    stream().readyState = 2;
    stream().onerror?.();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(open).toHaveBeenCalledTimes(2);
    expect(streams).toHaveLength(2);
    stop.abort();
    await ended;
  });

  test('tells that a ticket is unknown, and is silent about what passes', async () => {
    const { stream, heard, ask, stop, ended } = following();
    const failure = {
      code: 'unavailable',
      status: 503,
      detail: '',
      fields: {},
      retryAfterSeconds: 1,
    } as const;
    ask.mockResolvedValueOnce({ ok: false, failure });
    ask.mockResolvedValueOnce({ ok: false, failure: { ...failure, code: 'ticket_not_found', status: 404 } });
    stream().onerror?.();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(heard.map((one) => (one.ok ? 'ticket' : one.failure.code))).toEqual(['ticket_not_found']);
    stop.abort();
    await ended;
  });
});
