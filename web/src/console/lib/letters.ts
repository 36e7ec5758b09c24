// Dead letters in words: the decision, and what to do about it.
import type { Cause, DeadLetter } from '../../api/schema';
import type { ConsoleWords } from './words-of';

/** Decisions about an order; all others are about a sale. */
const OF_ORDERS = ['held', 'paid', 'released', 'refund_due'];

export function decisionInWords(words: ConsoleWords, letter: DeadLetter): string {
  const say = words.deadLetters.events;
  const event = letter.event as keyof typeof say;
  if (event === 'other' || !(event in say)) return say.other(letter.event, letter.sale_id);
  return say[event](OF_ORDERS.includes(event) ? (letter.order_id ?? '…') : letter.sale_id);
}

/** Why it can’t be settled, and what to do. An unknown cause has only the server’s words. */
export function causeInWords<T>(words: Record<Cause, T>, cause: Cause): T {
  return (words as Partial<Record<Cause, T>>)[cause] ?? words.unknown;
}
