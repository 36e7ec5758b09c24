// The meaning of an order's state to its buyer.
import type { Order } from '../../api/schema';

export type OrderState = 'held' | 'paid' | 'expired' | 'cancelled';

/** An order whose time is over may still be called held until the shop has noted it. */
export function stateOf(order: Order, now: number): OrderState {
  if (order.state === 'held') return now < Date.parse(order.pay_before) ? 'held' : 'expired';
  return order.state as OrderState;
}

/** Units that count against the limit. */
export function owned(orders: readonly Order[], now: number): number {
  return orders
    .filter((order) => ['held', 'paid'].includes(stateOf(order, now)))
    .reduce((sum, order) => sum + order.quantity, 0);
}
