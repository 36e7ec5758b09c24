// Dead letters in words: what was decided, and what to do about it.
import type { DeadLetter } from '../../api/schema';
import type { ConsoleWords } from './words-of';

/** Those that are about an order; the others are about a sale. */
const OF_ORDERS = ['held', 'paid', 'released', 'refund_due'];

export function decisionInWords(words: ConsoleWords, letter: DeadLetter): string {
  const say = words.deadLetters.events;
  const event = letter.event as keyof typeof say;
  if (event === 'other' || !(event in say)) return say.other(letter.event, letter.sale_id);
  return say[event](OF_ORDERS.includes(event) ? (letter.order_id ?? '…') : letter.sale_id);
}

export type Remedy = keyof ConsoleWords['deadLetters']['todoWords'];

/** By the server's own words; those that are new here get the general remedy. */
export function remedyOf(reason: string): Remedy {
  if (/has to be retried first|earlier decision on order/.test(reason)) return 'earlier';
  if (/have no sale|has no stock in the records/.test(reason)) return 'missing_sale';
  if (/^order .* (was to be|is in the records already)/.test(reason)) return 'order_differs';
  if (/limit|available|stock|units/.test(reason)) return 'stock';
  return 'other';
}
