// The phase of a sale, by the server's data and the server's time: the page opens on time, not when it is
// told.
import type { Sale } from '../../api/schema';

export type Phase = 'soon' | 'open' | 'paused' | 'sold_out' | 'closed';

export function phaseOf(sale: Pick<Sale, 'state' | 'opens_at' | 'closes_at' | 'stock'>, now: number): Phase {
  const at = (time: string | null | undefined) => (time ? Date.parse(time) : NaN);
  if (sale.state === 'closed' || now >= at(sale.closes_at)) return 'closed';
  if (sale.state === 'paused') return 'paused';
  if (sale.state === 'draft' || now < at(sale.opens_at)) return 'soon';
  return sale.stock.available === 0 ? 'sold_out' : 'open';
}

export type Plenty = 'plenty' | 'some' | 'few' | 'none';

/** The remaining stock in a word. */
export function plenty({ available, total }: Sale['stock']): Plenty {
  if (available === 0) return 'none';
  if (available <= 5 || available / total <= 0.1) return 'few';
  return available / total <= 0.5 ? 'some' : 'plenty';
}

/** In whole percent; undefined if there is none. */
export function discount(price: string, regular: string): number | undefined {
  const percent = Math.floor((1 - Number(price) / Number(regular)) * 100);
  return percent > 0 ? percent : undefined;
}

/** `soon` and `now` are sorted by the next event, `over` by the latest end. */
export function grouped(sales: readonly Sale[], now: number): { now: Sale[]; soon: Sale[]; over: Sale[] } {
  const groups = { now: [] as Sale[], soon: [] as Sale[], over: [] as Sale[] };
  for (const sale of sales) {
    const phase = phaseOf(sale, now);
    groups[phase === 'closed' ? 'over' : phase === 'soon' ? 'soon' : 'now'].push(sale);
  }
  const time = (text: string | null | undefined, otherwise: number) => (text ? Date.parse(text) : otherwise);
  // Available sales come before sold-out ones, and those that end soon before the others.
  const rank = (sale: Sale) => (phaseOf(sale, now) === 'sold_out' ? 1 : 0);
  groups.now.sort(
    (a, b) => rank(a) - rank(b) || time(a.closes_at, Infinity) - time(b.closes_at, Infinity) || 0,
  );
  groups.soon.sort((a, b) => time(a.opens_at, Infinity) - time(b.opens_at, Infinity));
  groups.over.sort((a, b) => time(b.closes_at, 0) - time(a.closes_at, 0));
  return groups;
}
