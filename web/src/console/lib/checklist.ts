// The checks before a sale is published. Pure: the words are elsewhere.
import type { Sale } from '../../api/schema';
import { discountPercent, minorUnits } from './price';

/** Missing: it can't be intended, and blocks. Advice: it may be intended. */
export type Standing = 'done' | 'advice' | 'missing';

/** The state of each line; the words have a sentence for each. */
export type Point =
  | { about: 'picture'; says: 'has' | 'none' }
  | { about: 'description'; says: 'has' | 'none' }
  | { about: 'price'; says: 'discount'; percent: number }
  | { about: 'price'; says: 'same' | 'above' | 'free' | 'other_currency' }
  | { about: 'opening'; says: 'ahead'; minutes: number }
  | { about: 'opening'; says: 'soon'; minutes: number }
  | { about: 'opening'; says: 'at_once' | 'past' }
  | { about: 'closing'; says: 'after'; minutes: number }
  | { about: 'closing'; says: 'by_hand' | 'past' | 'before_opening' }
  | { about: 'closing'; says: 'short'; minutes: number }
  | { about: 'limit'; says: 'fits'; limit: number }
  | { about: 'limit'; says: 'above_units'; limit: number; units: number }
  | { about: 'limit'; says: 'few_buyers'; buyers: number }
  | { about: 'hold'; says: 'fits' | 'short' | 'long'; seconds: number }
  | { about: 'gate'; says: 'both' | 'challenge_only' | 'room_only' | 'open' | 'open_to_a_crowd' };

export interface Line {
  standing: Standing;
  point: Point;
  /** Where it is fixed. */
  mend: 'item' | 'sale';
}

const MINUTE_MS = 60_000;
/** With less notice than this, hardly anybody will be there. */
const SOON_MINUTES = 10;
const SHORT_HOLD_SECONDS = 120;
const LONG_HOLD_SECONDS = 3600;
/** A discount from which on a crowd is likely. */
const CROWD_PERCENT = 30;

const minutesBetween = (from: number, to: number) => Math.max(1, Math.round((to - from) / MINUTE_MS));

export function checklist(sale: Sale, now: number): Line[] {
  return [
    picture(sale),
    description(sale),
    price(sale),
    opening(sale, now),
    closing(sale, now),
    limit(sale),
    hold(sale),
    gate(sale),
  ];
}

export function mayPublish(lines: readonly Line[]): boolean {
  return lines.every(({ standing }) => standing !== 'missing');
}

function picture({ item }: Sale): Line {
  return item.picture
    ? { standing: 'done', point: { about: 'picture', says: 'has' }, mend: 'item' }
    : { standing: 'advice', point: { about: 'picture', says: 'none' }, mend: 'item' };
}

function description({ item }: Sale): Line {
  return item.description.trim()
    ? { standing: 'done', point: { about: 'description', says: 'has' }, mend: 'item' }
    : { standing: 'advice', point: { about: 'description', says: 'none' }, mend: 'item' };
}

function price(sale: Sale): Line {
  const line = (standing: Standing, point: Point): Line => ({ standing, point, mend: 'sale' });
  if (sale.price.currency !== sale.regular_price.currency)
    return line('missing', { about: 'price', says: 'other_currency' });
  const [now, regular] = [minorUnits(sale.price) ?? 0n, minorUnits(sale.regular_price) ?? 0n];
  if (now > regular) return line('missing', { about: 'price', says: 'above' });
  if (now === 0n) return line('advice', { about: 'price', says: 'free' });
  if (now === regular) return line('advice', { about: 'price', says: 'same' });
  const percent = discountPercent(sale.price, sale.regular_price) ?? 0;
  return line('done', { about: 'price', says: 'discount', percent });
}

function opening(sale: Sale, now: number): Line {
  const line = (standing: Standing, point: Point): Line => ({ standing, point, mend: 'sale' });
  if (!sale.opens_at) return line('advice', { about: 'opening', says: 'at_once' });
  const opens = Date.parse(sale.opens_at);
  if (opens <= now) return line('advice', { about: 'opening', says: 'past' });
  const minutes = minutesBetween(now, opens);
  return minutes < SOON_MINUTES
    ? line('advice', { about: 'opening', says: 'soon', minutes })
    : line('done', { about: 'opening', says: 'ahead', minutes });
}

function closing(sale: Sale, now: number): Line {
  const line = (standing: Standing, point: Point): Line => ({ standing, point, mend: 'sale' });
  if (!sale.closes_at) return line('done', { about: 'closing', says: 'by_hand' });
  const closes = Date.parse(sale.closes_at);
  if (closes <= now) return line('missing', { about: 'closing', says: 'past' });
  const opens = sale.opens_at ? Date.parse(sale.opens_at) : now;
  if (closes <= opens) return line('missing', { about: 'closing', says: 'before_opening' });
  const minutes = minutesBetween(Math.max(opens, now), closes);
  // Units that come back unpaid can only be sold again while the sale is open.
  return (closes - Math.max(opens, now)) / 1000 <= sale.hold_seconds
    ? line('advice', { about: 'closing', says: 'short', minutes })
    : line('done', { about: 'closing', says: 'after', minutes });
}

function limit(sale: Sale): Line {
  const [most, units] = [sale.limit_per_buyer, sale.stock.total];
  const line = (standing: Standing, point: Point): Line => ({ standing, point, mend: 'sale' });
  if (most > units) return line('missing', { about: 'limit', says: 'above_units', limit: most, units });
  const buyers = Math.ceil(units / most);
  // A few buyers could take everything.
  return units >= 20 && buyers < 10
    ? line('advice', { about: 'limit', says: 'few_buyers', buyers })
    : line('done', { about: 'limit', says: 'fits', limit: most });
}

function hold(sale: Sale): Line {
  const seconds = sale.hold_seconds;
  const says = seconds < SHORT_HOLD_SECONDS ? 'short' : seconds > LONG_HOLD_SECONDS ? 'long' : 'fits';
  const standing = says === 'fits' ? 'done' : 'advice';
  return { standing, point: { about: 'hold', says, seconds }, mend: 'sale' };
}

function gate(sale: Sale): Line {
  const challenge = sale.gate.challenge !== 'none';
  const line = (standing: Standing, says: (Point & { about: 'gate' })['says']): Line => ({
    standing,
    point: { about: 'gate', says },
    mend: 'sale',
  });
  if (challenge && sale.gate.waiting_room) return line('done', 'both');
  if (challenge) return line('done', 'challenge_only');
  if (sale.gate.waiting_room) return line('advice', 'room_only');
  const percent = discountPercent(sale.price, sale.regular_price) ?? 0;
  return percent >= CROWD_PERCENT ? line('advice', 'open_to_a_crowd') : line('done', 'open');
}
