// A fake shop with the answers a test needs, and pages with one of its sales open.
import { vi } from 'vitest';
import type { Failure, Outcome } from '../../api/client';
import type { Challenge, Order, Pass, Sale, Ticket } from '../../api/schema';
import { browserMemory, type Memory } from './memory';
import type { Lock } from './patience';
import { Purchase, type Terms } from './purchase.svelte';
import type { World } from './world';

/** The name under which the purchase is stored. */
export const NAME = 'buyer.sale';

export function failed(code: Failure['code'], status = 409, retryAfterSeconds?: number): Outcome<never> {
  return { ok: false, failure: { code, status, detail: '', fields: {}, retryAfterSeconds } };
}

export function fine<T>(data: T): Outcome<T> {
  return { ok: true, data };
}

export function order(change: Partial<Order> = {}): Order {
  const price = { amount: '1.00', currency: 'CNY' };
  return {
    id: 'order-1',
    sale_id: 'sale',
    item: { id: 'item', title: 'Phone X' },
    quantity: 1,
    unit_price: price,
    total: price,
    state: 'held',
    created_at: '2026-01-01T00:00:00Z',
    pay_before: '2126-01-01T00:15:00Z',
    ...change,
  };
}

export function sale(change: Partial<Sale> = {}): Sale {
  const price = { amount: '199.00', currency: 'CNY' };
  return {
    id: 'sale',
    item: { id: 'item', title: 'Phone X', description: '' },
    price,
    regular_price: price,
    opens_at: null,
    closes_at: null,
    state: 'open',
    stock: { total: 100, available: 40 },
    limit_per_buyer: 1,
    hold_seconds: 900,
    gate: { challenge: 'none', waiting_room: false, pass_required: false },
    server_time: '2026-01-01T12:00:00Z',
    ...change,
  };
}

export function ticket(change: Partial<Ticket> = {}): Ticket {
  return { ticket: 'ticket-1', number: 1, state: 'waiting', position: 3, ...change };
}

export const admitted = (name = 'ticket-1') =>
  ticket({ ticket: name, state: 'admitted', position: null, admitted_until: '2026-01-01T00:01:00Z' });
export const pow: Challenge = { id: 'challenge', kind: 'pow', salt: 'salt', difficulty: 8, expires_at: '' };
export const picture = (id: string): Challenge => ({
  id,
  kind: 'captcha',
  image: `data:${id}`,
  expires_at: '',
});

/** Locks shared by the tabs of one browser. */
function locks(): World['exclusively'] {
  const tails = new Map<string, Promise<unknown>>();
  const robbed = new Map<string, () => void>();
  return async <T>(name: string, { onwait, steal }: Lock, work: () => Promise<T>): Promise<T> => {
    const before = tails.get(name);
    if (before && !steal) onwait?.();
    if (steal) robbed.get(name)?.();
    const run = (async () => {
      if (!steal) await before;
      const taken = new Promise<never>((_, reject) =>
        robbed.set(name, () => reject(new DOMException('stolen', 'AbortError'))),
      );
      return Promise.race([work(), taken]);
    })();
    const end = run
      .catch(() => {})
      .then(() => {
        if (tails.get(name) === end) tails.delete(name);
      });
    tails.set(name, end);
    return run;
  };
}

/** A shop, and the requests it got. */
export function shop(gate: Partial<Terms['gate']> = {}) {
  const storage = new Map<string, string>();
  const memory: Memory = browserMemory(
    () =>
      ({
        getItem: (key: string) => storage.get(key) ?? null,
        setItem: (key: string, value: string) => storage.set(key, value),
        removeItem: (key: string) => storage.delete(key),
      }) as unknown as Storage,
  );
  let keys = 0;
  let now = Date.parse('2026-01-01T00:00:00Z');
  const calls = {
    order: vi.fn(async (..._: unknown[]): Promise<Outcome<Order>> => fine(order())),
    findOrder: vi.fn(async (id: string): Promise<Outcome<Order>> => fine(order({ id }))),
    takeTicket: vi.fn(async (): Promise<Outcome<Ticket>> => fine(ticket())),
    ticket: vi.fn(async (): Promise<Outcome<Ticket>> => fine(ticket())),
    challenge: vi.fn(async (..._: unknown[]): Promise<Outcome<Challenge>> => fine(pow)),
    pass: vi.fn(async (..._: unknown[]): Promise<Outcome<Pass>> => fine({ pass: 'pass', expires_at: '' })),
  };
  /** The waiting room's messages, by ticket. */
  const told = new Map<string, Outcome<Ticket>[]>();
  const world: World = {
    calls,
    memory,
    now: () => now,
    doubtNow: vi.fn(),
    random: () => 0,
    newKey: () => `key-${(keys += 1)}`,
    sleep: (milliseconds, signal) =>
      new Promise((resolve, reject) => {
        const timer = setTimeout(resolve, milliseconds);
        signal.addEventListener('abort', () => {
          clearTimeout(timer);
          reject(signal.reason as Error);
        });
      }),
    online: vi.fn(async () => {}),
    exclusively: locks(),
    follow: async function* (_sale, name, signal) {
      for (const one of told.get(name) ?? [fine(admitted(name))]) yield one;
      // Nothing more comes until the listener leaves.
      await new Promise<void>((resolve) => signal.addEventListener('abort', () => resolve()));
    },
    solve: vi.fn(async (_work, onprogress) => {
      onprogress(0.5);
      return '42';
    }),
    signedOut: vi.fn(),
  };
  const terms: Terms = {
    id: 'sale',
    opens_at: null,
    gate: { challenge: 'none', waiting_room: false, pass_required: false, ...gate },
  };
  return {
    calls,
    memory,
    told,
    world,
    /** A page with the sale open. */
    tab: (done: (order: Order) => void = () => {}) => new Purchase('buyer', () => terms, world, done),
    /** The page before is gone without notice, and its locks with it. */
    reload: () => new Purchase('buyer', () => terms, { ...world, exclusively: locks() }),
    keys: () => calls.order.mock.calls.map((call) => call[2]),
    wait: (milliseconds: number) => (now += milliseconds),
    terms,
  };
}
