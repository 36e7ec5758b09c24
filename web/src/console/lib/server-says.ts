// The server's complaints about fields are in English. Here they are put into the visitor's language, by the
// field and, where one field can be wrong in several ways, by the sentence. The page shows unknown complaints
// in the server's words.
import { decimalsOf } from './price';
import type { ConsoleWords } from './words-of';

/** What is wrong with a price, and with which part of it. */
export function priceComplaint(
  words: ConsoleWords,
  message: string,
  currency: string,
): { amount: string } | { currency: string } {
  const say = words.sales.complaints;
  if (/currency (is three|has to be)/.test(message)) return { currency: say.currency };
  if (/too large/.test(message)) return { amount: say.amountTooLarge };
  return { amount: say.amount(decimalsOf(currency.trim().toUpperCase())) };
}

/** Too few or too many units, for a draft or a restock. */
export function unitsComplaint(words: ConsoleWords, message: string): string {
  const say = words.sales.complaints;
  return /more units than/.test(message) ? say.tooManyUnits : say.units;
}
