import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import type { Outcome } from '../../api/client';
import type { Ticket } from '../../api/schema';
import { sleep } from './patience';
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
  test('passes on the server’s events, and asks nothing', async () => {
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

  test('asks and reconnects when the stream is cut, and only listens once it is back', async () => {
    const { stream, streams, heard, ask, stop, ended } = following();
    stream().says({ position: 9 });
    await vi.advanceTimersByTimeAsync(0);
    stream().onerror?.();
    expect(stream().close).toHaveBeenCalled();
    // Not at once: all buyers were cut off in the same moment.
    await vi.advanceTimersByTimeAsync(2_000);
    expect(ask).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(ask).toHaveBeenCalledTimes(1);
    expect(heard.at(-1)).toEqual({ ok: true, data: { position: 7 } });
    expect(streams).toHaveLength(2);
    stream().says({ position: 1 });
    await vi.advanceTimersByTimeAsync(30_000);
    expect(ask).toHaveBeenCalledTimes(1);
    expect(streams).toHaveLength(2);
    stop.abort();
    await ended;
  });

  test('reconnects less and less often while the shop is away, and not before it allows', async () => {
    const { stream, open, ask, stop, ended } = following();
    const failure = { code: 'unavailable', status: 503, detail: '', fields: {} } as const;
    ask.mockResolvedValue({ ok: false, failure: { ...failure, retryAfterSeconds: undefined } });
    open.mockImplementation(() => {
      const broken = new Stream();
      setTimeout(() => broken.onerror?.(), 10);
      return broken as unknown as EventSource;
    });
    stream().onerror?.();
    await vi.advanceTimersByTimeAsync(10 * 60_000);
    expect(ask.mock.calls.length).toBeGreaterThan(20);
    expect(ask.mock.calls.length).toBeLessThan(40);
    expect(open.mock.calls.length).toBeLessThan(40);

    ask.mockResolvedValue({ ok: false, failure: { ...failure, retryAfterSeconds: 120 } });
    await vi.advanceTimersByTimeAsync(30_000);
    const asked = ask.mock.calls.length;
    await vi.advanceTimersByTimeAsync(90_000);
    expect(ask.mock.calls.length).toBe(asked);
    stop.abort();
    await ended;
  });

  test('asks if a stream does not begin, as behind a buffering proxy', async () => {
    const { ask, heard, stop, ended } = following();
    await vi.advanceTimersByTimeAsync(4_000);
    expect(ask).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(ask).toHaveBeenCalledTimes(1);
    expect(heard).toHaveLength(1);
    stop.abort();
    await ended;
  });

  test('opens another stream when the network was away or the device slept', async () => {
    const { streams, stream, ask, heard, doubt, stop, ended } = following();
    stream().says({ position: 3 });
    await vi.advanceTimersByTimeAsync(1_000);
    doubt();
    await vi.advanceTimersByTimeAsync(0);
    expect(streams).toHaveLength(2);
    expect(streams[0]?.close).toHaveBeenCalled();
    stream().says({ position: 1 });
    await vi.advanceTimersByTimeAsync(10_000);
    expect(heard.at(-1)).toEqual({ ok: true, data: { position: 1 } });
    expect(ask).not.toHaveBeenCalled();
    stop.abort();
    await ended;
  });

  test('asks after a long silence, and opens another stream if it missed events', async () => {
    const { streams, stream, ask, heard, stop, ended } = following();
    stream().says({ position: 7 });
    await vi.advanceTimersByTimeAsync(59_000);
    expect(ask).not.toHaveBeenCalled();
    await vi.advanceTimersByTimeAsync(2_000);
    expect(ask).toHaveBeenCalledTimes(1);
    expect(streams).toHaveLength(1);
    ask.mockResolvedValueOnce({ ok: true, data: { position: 2 } as Ticket });
    await vi.advanceTimersByTimeAsync(60_000);
    expect(heard.at(-1)).toEqual({ ok: true, data: { position: 2 } });
    expect(streams).toHaveLength(2);
    stop.abort();
    await ended;
  });

  test('reports an unknown ticket, and hides passing failures', async () => {
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
    await vi.advanceTimersByTimeAsync(8_000);
    expect(heard.map((one) => (one.ok ? 'ticket' : one.failure.code))).toEqual(['ticket_not_found']);
    stop.abort();
    await ended;
  });
});
