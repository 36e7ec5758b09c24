// The filter of the orders: in the page's address, in the call, and in the address of the table to download.

export const ORDER_STATES = ['held', 'paid', 'expired', 'cancelled'] as const;

export interface OrderFilter {
  /** An order, a buyer or a phone. */
  q: string;
  sale: string;
  state: string;
}

export function filterOf(query: URLSearchParams): OrderFilter {
  const text = (name: string) => (query.get(name) ?? '').trim();
  const state = text('state');
  return {
    q: text('q'),
    sale: text('sale'),
    state: (ORDER_STATES as readonly string[]).includes(state) ? state : '',
  };
}

/** A pasted phone has spaces and brackets; ids and buyers are left as they are. */
function tidy(q: string): string {
  return /^\+?[\d\s()-]{6,}$/.test(q) ? q.replace(/[\s()-]/g, '') : q;
}

/** Only the set filters. */
export function queryOf(filter: OrderFilter): Record<string, string> {
  const wanted = { q: tidy(filter.q.trim()), sale: filter.sale.trim(), state: filter.state };
  return Object.fromEntries(Object.entries(wanted).filter(([, value]) => value));
}

function address(path: string, filter: OrderFilter): string {
  const query = new URLSearchParams(queryOf(filter)).toString();
  return query ? `${path}?${query}` : path;
}

export const pageAddress = (filter: OrderFilter) => address('/console/orders', filter);
/** All orders that match, on all pages. */
export const csvAddress = (filter: OrderFilter) => address('/api/v1/admin/orders.csv', filter);
