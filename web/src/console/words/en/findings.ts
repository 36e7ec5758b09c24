// The findings of an audit. The sale or the order is named next to each.
import type { UnitCounts } from '../../../api/schema';
import type { Findings } from '../../lib/audit';
import { causeInWords } from '../../lib/letters';
import causes from './causes';

const n = (value: number) => value.toLocaleString('en');
const counted = (value: number, one: string, many: string) => `${n(value)} ${value === 1 ? one : many}`;
const units = (count: number) => counted(count, 'unit', 'units');
const counts = ({ total, available, held, paid }: UnitCounts) =>
  `${units(total)} (${n(available)} available, ${n(held)} held, ${n(paid)} paid)`;
const both = (held: number, paid: number) => `${n(held)} held and ${n(paid)} paid units`;
// Two moments may differ by a millisecond.
const at = (millis: number | null | undefined) =>
  millis == null
    ? 'never'
    : new Date(millis).toLocaleString('en', {
        year: 'numeric',
        month: 'short',
        day: 'numeric',
        hour: '2-digit',
        minute: '2-digit',
        second: '2-digit',
        fractionalSecondDigits: 3,
      });
const sources = { ledger: 'the ledger', records: 'the records', stock_log: 'the stock log' };
const times = { created_at: 'created', pay_before: 'to be paid by', paid_at: 'paid' };
const due = (isDue: boolean) => (isDue ? 'is due' : 'is not due');

const findings: Findings = {
  ledger_counts: (found) => `The ledger’s own counts don’t add up: ${counts(found.counts)}.`,
  ledger_orders: (found) =>
    `The ledger counts ${both(found.held, found.paid)}, but its orders add up to ${both(found.orders_held, found.orders_paid)}.`,
  order_misplaced: (found) => `The ledger has it in the place of number ${found.number}.`,
  same_key: () => 'Its buyer has another order with the same idempotency key.',
  oversold: (found) =>
    `${counted(found.units, 'unit more is', 'units more are')} sold than there are, by the orders in ${sources[found.by]}.`,
  over_limit: (found) =>
    `Buyer ${found.buyer} has ${units(found.units)}, but the limit is ${n(found.limit)}.`,
  settled_too_far: (found) =>
    `The records have settled decision ${n(found.settled)}, but the ledger ends with ${n(found.ledger)}.`,
  decisions_missing: (found) =>
    `Decisions ${n(found.first)} to ${n(found.last)} are neither settled nor in the feed.`,
  dead_letter: (found) =>
    `Decision ${n(found.decision)} is dead letter ${found.letter} and not settled. ${causeInWords(causes, found.cause).says}`,
  letters_of_unknown_stream: (found) =>
    `${counted(found.letters, 'decision', 'decisions')} of ${found.stream}, which the ledger does not have, can’t be settled.`,
  sale_not_in_records: () => 'The ledger sells it, but the records don’t have it.',
  sale_not_in_ledger: () => 'It is published in the records, but the ledger does not know it.',
  orders_not_in_ledger: (found) =>
    `The records have ${counted(found.orders, 'order', 'orders')} of it, but the ledger does not know the sale.`,
  movements_not_in_ledger: () => 'The stock log moves its units, but the ledger does not know the sale.',
  order_not_in_ledger: (found) => `It is in ${sources[found.by]}, but the ledger does not know it.`,
  order_lost: () => 'It is lost: the ledger accepted it, but it is not in the records.',
  stock_row_missing: () => 'It has no stock row in the records.',
  recorded_orders: (found) =>
    `Its orders in the records add up to ${both(found.held, found.paid)}, but the ledger has ${both(found.ledger_held, found.ledger_paid)}.`,
  stock_log: (found) =>
    `Its stock log adds up to ${counts(found.log)}, but the ledger has ${counts(found.ledger)}.`,
  stock_row: (found) =>
    `Its stock row says ${counts(found.row)}, but the ledger has ${counts(found.ledger)}.`,
  past_stock_row: (found) => `It is over, and its stock row does not add up: ${counts(found.row)}.`,
  past_stock_log: (found) =>
    `It is over. Its stock log adds up to ${counts(found.log)}, but its stock row says ${counts(found.row)}.`,
  past_orders: (found) =>
    `It is over. Its orders add up to ${both(found.held, found.paid)}, but its stock row says ${counts(found.row)}.`,
  sale_standing: (found) => `It is ${found.ledger} in the ledger, but ${found.row} in its stock row.`,
  sale_terms: () => 'Its terms in the stock row are not those of the ledger.',
  order_state: (found) => `It is ${found.ledger} in the ledger, but ${found.records} in the records.`,
  order_buyer: (found) =>
    `It belongs to ${found.ledger} in the ledger, but to ${found.records} in the records.`,
  order_quantity: (found) =>
    `It has ${units(found.ledger)} in the ledger, but ${n(found.records)} in the records.`,
  order_time: (found) =>
    `Its time differs (${times[found.of]}): ${at(found.ledger_millis)} in the ledger, ${at(found.records_millis)} in the records.`,
  order_refund: (found) =>
    `A refund ${due(found.ledger_due)} in the ledger, but ${due(found.records_due)} in the records.`,
  order_key: () => 'Its idempotency key in the records is not that of the ledger.',
  order_unreadable: () => 'An order in the records can’t be read.',
  order_held_already: (found) => `Decision ${n(found.decision)} holds it, but the records have it already.`,
  order_to_change_missing: (found) =>
    `Decision ${n(found.decision)} changes it, but the records don’t have it.`,
  order_in_wrong_state: (found) =>
    `Decision ${n(found.decision)} needs it to be ${found.needed}, but it is ${found.records} in the records.`,
  held_twice: (found) => `It is held ${n(found.times)} times in the stock log.`,
  order_movements: (found) =>
    `It is ${found.state} with ${units(found.units)} in the ledger, but the stock log has ${both(found.held, found.paid)} of it.`,
  unknown_movement: (found) => `The stock log has a movement of an unknown kind: “${found.movement}”.`,
  no_order_number: (found) => `The stock log has ${found.number} where an order’s number should be.`,
  waiter_differs: ({ number, ledger, records }) =>
    `Number ${n(number)} on the waitlist is ${ledger.buyer} for ${units(ledger.units)} since ${at(ledger.since_millis)} in the ledger, but ${records.buyer} for ${units(records.units)} since ${at(records.since_millis)} in the records.`,
  waiter_not_in_records: (found) =>
    `Buyer ${found.buyer} waits for it in the ledger, but not in the records.`,
  waiter_not_in_ledger: (found) => `Buyer ${found.buyer} waits for it in the records, but not in the ledger.`,
};

export default findings;
