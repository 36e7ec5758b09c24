// Orders, dead letters and the audit.
import causes from './causes';
import findings from './findings';

const n = (value: number) => value.toLocaleString('en');
const counted = (value: number, one: string, many: string) => `${n(value)} ${value === 1 ? one : many}`;

export default {
  orders: {
    heading: 'Orders',
    lead: 'All settled orders, newest first. Orders accepted in the last moments may still be on their way.',
    search: 'Order, buyer or phone',
    searchHint: 'A whole order number, a buyer’s id, or a whole phone number with country code',
    find: 'Search',
    sale: 'Sale',
    allSales: 'All sales',
    state: 'State',
    allStates: 'All states',
    clear: 'Show all',
    export: 'Export as CSV',
    exportHint: 'All orders that match the filter, on all pages',
    empty: 'There are no orders yet.',
    emptyFiltered: 'No order matches the filter.',
    notFound:
      'No order matches. Search for a whole value: an order number, a buyer’s id, or a phone number with its country code, such as +8613800138000.',
    number: 'Order',
    item: 'Item',
    buyer: 'Buyer',
    quantity: 'Units',
    total: 'Total',
    created: 'Ordered',
    paidAt: 'Paid',
    payBefore: (time: string) => `to be paid by ${time}`,
    refundDue: 'Refund due',
    shown: (count: number, more: boolean) =>
      `${counted(count, 'order', 'orders')} shown${more ? '; there are more' : ''}`,
  },
  deadLetters: {
    heading: 'Dead letters',
    lead: 'Decisions of the ledger that could not be written into the records. The orders themselves are safe; retry when the cause is removed, from top to bottom.',
    empty: 'There are none: everything that was decided is settled.',
    retry: 'Retry',
    retryAll: 'Retry all, from top to bottom',
    settled: (what: string) => `Settled: ${what}`,
    allSettled: (count: number) => `${counted(count, 'decision is', 'decisions are')} settled now.`,
    stopped: (count: number) =>
      `${counted(count, 'decision is', 'decisions are')} settled now; the next one still can’t be.`,
    why: 'Why it can’t be settled',
    todo: 'What to do',
    causes,
    decided: (time: string) => `Decided ${time}`,
    tries: (count: number) => `tried ${counted(count, 'time', 'times')}`,
    position: (position: number) => `decision ${n(position)}`,
    events: {
      published: (sale: string) => `Sale ${sale} was published`,
      restocked: (sale: string) => `Sale ${sale} was restocked`,
      paused: (sale: string) => `Sale ${sale} was paused`,
      resumed: (sale: string) => `Sale ${sale} was resumed`,
      closed: (sale: string) => `Sale ${sale} was closed`,
      held: (order: string) => `Order ${order} was accepted and its units are held`,
      paid: (order: string) => `Order ${order} was paid`,
      released: (order: string) => `Units of order ${order} were given back`,
      refund_due: (order: string) => `Order ${order} was paid too late: the money has to go back`,
      joined: (sale: string) => `Somebody joined the waitlist of sale ${sale}`,
      left: (sale: string) => `Somebody left the waitlist of sale ${sale}`,
      other: (event: string, sale: string) => `“${event}” was decided in sale ${sale}`,
    },
  },
  audit: {
    heading: 'Audit',
    lead: 'Compares everything: the ledger that sells, the stock log, and the orders in the records. The shop goes on selling meanwhile.',
    run: 'Run the audit',
    again: 'Run it again',
    running: (seconds: number) =>
      `Comparing everything, for ${counted(seconds, 'second', 'seconds')} so far …`,
    runningHint:
      'With many orders it takes minutes. You can leave the page, but then the audit has to be run again.',
    took: (seconds: string) => `It took ${seconds} s.`,
    ok: 'Everything adds up.',
    okWords: (orders: number, sales: number) =>
      `${counted(orders, 'order', 'orders')} in ${counted(sales, 'sale', 'sales')}: no unit was sold twice, no order is lost, and nobody has too many.`,
    notOk: 'It does not add up.',
    found: {
      oversold: (count: number) => `${counted(count, 'unit was', 'units were')} sold that did not exist.`,
      lost: (count: number) =>
        `${counted(count, 'order is', 'orders are')} in the ledger, but neither in the records nor on the way there.`,
      extra: (count: number) =>
        `${counted(count, 'order is', 'orders are')} in the records that the ledger does not know.`,
      duplicated: (count: number) => `${counted(count, 'order exists', 'orders exist')} twice.`,
      over_limit: (count: number) =>
        `${counted(count, 'buyer has', 'buyers have')} more units than a sale allows.`,
      dead_letters: (count: number) =>
        `${counted(count, 'decision', 'decisions')} could not be settled: see the dead letters.`,
      differences: (count: number) =>
        `${counted(count, 'difference', 'differences')} between ledger, stock log and orders, named below.`,
      pending: (count: number) =>
        `${counted(count, 'decision is', 'decisions are')} still on the way into the records. That is not a difference.`,
    },
    differences: 'Each difference',
    more: (count: number) => `And ${n(count)} more.`,
    findings,
    numbers: 'The numbers',
    what: 'What',
    count: 'Count',
    rows: {
      sales: 'Sales',
      orders: 'Orders',
      total: 'Units in total',
      available: 'Units available',
      held: 'Units held',
      paid: 'Units paid',
      oversold: 'Oversold',
      lost: 'Lost',
      extra: 'Unknown to the ledger',
      duplicated: 'Duplicated',
      over_limit: 'Over the limit',
      pending: 'Not settled yet',
      dead_letters: 'Dead letters',
      position: 'Compared up to decision',
    },
    sale: 'Sale',
    order: 'Order',
  },
};
