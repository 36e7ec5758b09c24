// The effects of a change of a sale, in figures. Pure: the words are elsewhere.
import type { Sale, SaleStats } from '../../api/schema';

export type Action = 'publish' | 'pause' | 'resume' | 'restock' | 'close';

/** The state of each sentence; the words have one for each. */
export type Consequence =
  | { says: 'opens_at_once'; units: number }
  | { says: 'opens_later'; units: number; at: string }
  | { says: 'terms_fixed' }
  | { says: 'nobody_orders_until_resumed' }
  | { says: 'no_more_orders' }
  | { says: 'held_can_be_paid'; units: number }
  | { says: 'nothing_is_held' }
  | { says: 'what_is_held_can_be_paid' }
  | { says: 'waiting_keep_their_places'; people: number }
  | { says: 'waiting_are_sent_away'; people: number }
  /** `people` is undefined if their number is unknown. */
  | { says: 'waitlist_is_sent_away'; people: number | undefined }
  | { says: 'unsold_stay'; units: number }
  | { says: 'on_sale_again'; units: number }
  | { says: 'offered_then_on_sale'; units: number; people: number | undefined }
  | { says: 'sold_out_still' }
  | { says: 'more_units'; units: number; total: number }
  | { says: 'waitlist_first' }
  | { says: 'final' };

export function consequences(
  action: Action,
  sale: Sale,
  /** Undefined if they could not be fetched. Then no figure is invented. */
  stats: SaleStats | undefined,
  now: number,
  /** The units of a restock. */
  more = 0,
): Consequence[] {
  const { available, held, total, waiting } = stats ?? {
    available: sale.stock.available,
    held: 0,
    total: sale.stock.total,
    waiting: 0,
  };
  const heldOnes: Consequence = !stats
    ? { says: 'what_is_held_can_be_paid' }
    : held > 0
      ? { says: 'held_can_be_paid', units: held }
      : { says: 'nothing_is_held' };
  // Undefined if the records, which have the waitlist, are unavailable.
  const listed = stats?.waitlist ?? undefined;
  const isWaitedFor =
    listed === undefined ? ['sold_out', 'paused'].includes(stats?.state ?? sale.state) : listed > 0;
  switch (action) {
    case 'publish': {
      const opensLater = sale.opens_at && Date.parse(sale.opens_at) > now ? sale.opens_at : undefined;
      return [
        opensLater
          ? { says: 'opens_later', units: sale.stock.total, at: opensLater }
          : { says: 'opens_at_once', units: sale.stock.total },
        { says: 'terms_fixed' },
      ];
    }
    case 'pause':
      return [
        { says: 'nobody_orders_until_resumed' },
        heldOnes,
        ...(waiting > 0 ? [{ says: 'waiting_keep_their_places', people: waiting } as const] : []),
      ];
    case 'resume':
      if (available === 0) return [{ says: 'sold_out_still' }];
      return [
        isWaitedFor
          ? { says: 'offered_then_on_sale', units: available, people: listed }
          : { says: 'on_sale_again', units: available },
      ];
    case 'restock':
      return [
        { says: 'more_units', units: more, total: total + more },
        ...(available === 0 || isWaitedFor ? [{ says: 'waitlist_first' } as const] : []),
        // Units can't be taken away again.
        { says: 'final' },
      ];
    case 'close':
      return [
        { says: 'no_more_orders' },
        heldOnes,
        ...(waiting > 0 ? [{ says: 'waiting_are_sent_away', people: waiting } as const] : []),
        ...(isWaitedFor ? [{ says: 'waitlist_is_sent_away', people: listed } as const] : []),
        ...(available > 0 ? [{ says: 'unsold_stay', units: available } as const] : []),
        { says: 'final' },
      ];
  }
}

/** The actions that a sale in this state allows. */
export function actionsIn(state: string): Action[] {
  switch (state) {
    case 'draft':
      return ['publish'];
    case 'scheduled':
    case 'open':
    case 'sold_out':
      return ['pause', 'restock', 'close'];
    case 'paused':
      return ['resume', 'restock', 'close'];
    default:
      return [];
  }
}
