// The server complains of fields in English. What it means is said here in the visitor's language, by the field and, where one
// field can be wrong in several ways, by the sentence. What is new here is shown as the server says it, by the page.
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

/** How many units are too few or too many, for a draft or a restock. */
export function unitsComplaint(words: ConsoleWords, message: string): string {
  const say = words.sales.complaints;
  return /more units than/.test(message) ? say.tooManyUnits : say.units;
}
