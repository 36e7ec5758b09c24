// Turns the results of pure functions into sentences of the current language.
import type { Failure } from '../../api/client';
import type { Sale } from '../../api/schema';
import type { Errors } from '../../i18n/types';
import { inWords } from '../../i18n/index.svelte';
import type { Words } from '../../i18n/types';
import type en from '../words/en';
import type { Point } from './checklist';
import type { Consequence } from './consequences';

export type ConsoleWords = Words<typeof en>;

/** The merchant's words for a failure, or else the buyer's. */
export function troubleInWords(words: ConsoleWords, failure: Failure): { says: string; todo: string } {
  const own = words.errors as Partial<Errors>;
  return own[failure.code] ?? inWords(failure) ?? words.errors.internal;
}

/** The name of a state of a sale or an order; an unknown one is shown as it is. */
export function stateName(words: ConsoleWords, state: string): string {
  return (words.states as Record<string, string>)[state] ?? state;
}

/**
 * When a sale opens and closes. Of a closed sale only the plan is known: it may have been closed by hand at
 * any time.
 */
export function windowInWords(
  { sale: say }: ConsoleWords,
  { state, opens_at, closes_at }: Pick<Sale, 'state' | 'opens_at' | 'closes_at'>,
  now: number,
  moment: (time: string) => string,
): { opens: string; closes: string } {
  const whenPublished = state === 'draft' ? say.opensWhenPublished : say.openedWhenPublished;
  if (state !== 'closed')
    return {
      opens: opens_at ? moment(opens_at) : whenPublished,
      closes: closes_at ? moment(closes_at) : say.closesByHand,
    };
  const isEarly = closes_at && Date.parse(closes_at) > now;
  return {
    opens: opens_at ? say.planned(moment(opens_at)) : whenPublished,
    closes: closes_at ? (isEarly ? say.closedEarly : say.closedBy)(moment(closes_at)) : say.closedByHand,
  };
}

export function consequenceInWords(
  words: ConsoleWords,
  it: Consequence,
  moment: (time: string) => string,
): string {
  const say = words.sale.consequences;
  switch (it.says) {
    case 'opens_at_once':
    case 'held_can_be_paid':
    case 'unsold_stay':
    case 'on_sale_again':
      return say[it.says](it.units);
    case 'opens_later':
      return say.opens_later(it.units, moment(it.at));
    case 'waiting_keep_their_places':
    case 'waiting_are_sent_away':
      return say[it.says](it.people);
    case 'waitlist_is_sent_away':
      return say.waitlist_is_sent_away(it.people);
    case 'offered_then_on_sale':
      return say.offered_then_on_sale(it.units, it.people);
    case 'more_units':
      return say.more_units(it.units, it.total);
    default:
      return say[it.says];
  }
}

export function pointInWords(words: ConsoleWords, point: Point): string {
  const { points } = words.sale;
  switch (point.about) {
    case 'picture':
      return points.picture[point.says];
    case 'description':
      return points.description[point.says];
    case 'price':
      return point.says === 'discount' ? points.price.discount(point.percent) : points.price[point.says];
    case 'opening':
      return point.says === 'ahead' || point.says === 'soon'
        ? points.opening[point.says](point.minutes)
        : points.opening[point.says];
    case 'closing':
      return point.says === 'after' || point.says === 'short'
        ? points.closing[point.says](point.minutes)
        : points.closing[point.says];
    case 'limit':
      if (point.says === 'above_units') return points.limit.above_units(point.limit, point.units);
      return point.says === 'fits' ? points.limit.fits(point.limit) : points.limit.few_buyers(point.buyers);
    case 'hold':
      return points.hold[point.says](point.seconds);
    case 'gate':
      return points.gate[point.says];
  }
}
