// Why a decision can’t be settled, and what to do about it.
import type { Cause } from '../../../api/schema';

const mend = 'Look at the order and the audit, mend the records, then retry.';
const audit = 'Somebody changed the records, or there is a defect: run the audit before you retry.';

const causes: Record<Cause, { says: string; todo: string }> = {
  oversold: { says: 'More units would be sold than the records have.', todo: audit },
  over_limit: { says: 'The buyer would have more units than the sale allows.', todo: audit },
  not_held: { says: 'The records don’t hold the units that were paid or given back.', todo: audit },
  earlier_letter: {
    says: 'An earlier decision on the same order is a dead letter too.',
    todo: 'Retry that one first, then this.',
  },
  sale_missing: {
    says: 'The records don’t have the sale: they may have been restored from an older copy.',
    todo: 'Bring the sale back into the records, then retry.',
  },
  stock_missing: {
    says: 'The records have no stock of the sale: they may have been restored from an older copy.',
    todo: 'Retry the publishing of the sale, or bring its stock back into the records; then retry this.',
  },
  stock_exists: { says: 'The records have the stock of this sale already.', todo: audit },
  order_missing: { says: 'The records don’t have the order.', todo: mend },
  order_exists: { says: 'The records have an order with this number already.', todo: mend },
  order_state: {
    says: 'The order in the records is in another state than it should be: somebody else may have changed it.',
    todo: mend,
  },
  order_quantity: {
    says: 'The order in the records has another number of units: somebody else may have changed it.',
    todo: mend,
  },
  waiter_missing: {
    says: 'The buyer is not on the waitlist of the records at this place.',
    todo: 'Run the audit, mend the waitlist in the records, then retry.',
  },
  waiter_exists: {
    says: 'The buyer is on the waitlist of the records already.',
    todo: 'Run the audit, mend the waitlist in the records, then retry.',
  },
  damaged: { says: 'A row of the records can’t be read.', todo: 'Mend the row, then retry.' },
  database: {
    says: 'The database refused it.',
    todo: 'Look at what it said: a constraint, or a trigger of your own. Remove the cause, then retry.',
  },
  unknown: {
    says: 'The server gave this reason.',
    todo: 'Remove the cause, then retry. The audit shows what differs.',
  },
};

export default causes;
