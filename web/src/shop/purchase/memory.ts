// What a purchase must not lose in a reload: its key, its place in the waiting room, and a payment under way.
// It is worthless without the session. Works without storage too; then a reload starts over.

/** A wish to buy, with the key that makes all its retries the same order. */
export interface Intent {
  key: string;
  quantity: number;
  /** When it was last seen under way, in milliseconds. */
  touchedAt: number;
  /** It may have reached the ledger. */
  asked?: boolean;
  /** The order that resulted. */
  order?: string;
}

/** A place in a waiting room. */
export interface KeptTicket {
  ticket: string;
  /** The first place that was seen, for showing progress. */
  from: number | null;
}

/** A purchase or payment that was left alone for longer does not continue by itself. */
export const FRESH_MS = 10 * 60_000;

export interface Memory {
  intent(of: string): Intent | undefined;
  keepIntent(of: string, intent: Intent): void;
  forgetIntent(of: string): void;
  ticket(of: string): KeptTicket | undefined;
  keepTicket(of: string, ticket: KeptTicket): void;
  forgetTicket(of: string): void;
  /** When the buyer wanted to pay this order, in milliseconds, if the outcome is still unknown. */
  payment(order: string): number | undefined;
  keepPayment(order: string, at: number): void;
  forgetPayment(order: string): void;
}

const OLD_MS = 7 * 24 * 3_600_000;

/** Nobody returns to a purchase of last week. */
function forgetOld(storage: () => Storage): void {
  try {
    const kept = storage();
    for (const key of Object.keys(kept)) {
      if (!/^penstock\.(purchase|ticket|payment)\./.test(key)) continue;
      const keptAt = Number(/"keptAt":(\d+)/.exec(kept.getItem(key) ?? '')?.[1] ?? 0);
      if (Date.now() - keptAt > OLD_MS) kept.removeItem(key);
    }
  } catch {
    // Private windows may refuse.
  }
}

export function browserMemory(storage: () => Storage = () => localStorage): Memory {
  const unkept = new Map<string, string>();
  const read = (key: string): unknown => {
    let text: string | null | undefined;
    try {
      text = storage().getItem(key);
    } catch {
      // Private windows may refuse.
    }
    try {
      return JSON.parse(text ?? unkept.get(key) ?? 'null');
    } catch {
      return null;
    }
  };
  const write = (key: string, value: object): void => {
    // By the visitor's clock, right or wrong: it is only compared with itself.
    const text = JSON.stringify({ ...value, keptAt: Date.now() });
    try {
      storage().setItem(key, text);
      unkept.delete(key);
    } catch {
      unkept.set(key, text);
    }
  };
  const remove = (key: string): void => {
    unkept.delete(key);
    try {
      storage().removeItem(key);
    } catch {
      // If it can't be removed, it was never stored.
    }
  };
  forgetOld(storage);
  const intentAt = (of: string) => `penstock.purchase.${of}`;
  const paymentAt = (order: string) => `penstock.payment.${order}`;
  const ticketAt = (of: string) => `penstock.ticket.${of}`;
  return {
    intent(of) {
      const { keptAt: _, ...found } = (read(intentAt(of)) ?? {}) as Partial<Intent> & { keptAt?: number };
      const usable = typeof found.key === 'string' && Number.isInteger(found.quantity);
      return usable ? ({ touchedAt: 0, ...found } as Intent) : undefined;
    },
    keepIntent: (of, intent) => write(intentAt(of), intent),
    forgetIntent: (of) => remove(intentAt(of)),
    ticket(of) {
      const found = read(ticketAt(of)) as Partial<KeptTicket> | null;
      return typeof found?.ticket === 'string'
        ? { ticket: found.ticket, from: found.from ?? null }
        : undefined;
    },
    keepTicket: (of, ticket) => write(ticketAt(of), ticket),
    forgetTicket: (of) => remove(ticketAt(of)),
    payment(order) {
      const found = read(paymentAt(order)) as { at?: unknown } | null;
      return typeof found?.at === 'number' ? found.at : undefined;
    },
    keepPayment: (order, at) => write(paymentAt(order), { at }),
    forgetPayment: (order) => remove(paymentAt(order)),
  };
}
