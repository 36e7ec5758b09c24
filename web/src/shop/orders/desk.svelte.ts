// What a buyer can do with one order: pay it, cancel it, and see what became of it.
import { untrack } from 'svelte';
import { api, outcome, type Failure, type Outcome } from '../../api/client';
import type { Order } from '../../api/schema';
import { serverNow } from '../../lib/clock.svelte';
import { session, signedOut } from '../../lib/session.svelte';
import { tellTabs } from '../../lib/tabs';
import { stateOf, type OrderState } from './state';

const FIRST_LOOK_MS = 1_500;
const LONGEST_MS = 30_000;
const MAX_LOOKS = 20;

export class Desk {
  order = $state.raw<Order>() as Order;
  busy = $state<'pay' | 'cancel'>();
  failure = $state.raw<Failure>();
  /** The order came by the waitlist. */
  wasOffered = $state(false);
  readonly #onchange: (order: Order) => void;

  constructor(order: Order, onchange: (order: Order) => void = () => {}) {
    this.order = order;
    this.#onchange = onchange;
  }

  /** It was paid when nothing was left any more, so the money goes back. That is final. */
  get refundDue(): boolean {
    return this.order.refund_due === true || this.failure?.code === 'refund_due';
  }

  /** A payment that came too late is told before the order says so itself. */
  standsAt(now: number): OrderState {
    return this.refundDue ? 'expired' : stateOf(this.order, now);
  }

  pay(): Promise<void> {
    return this.#act('pay', (id) =>
      outcome(api.POST('/api/v1/orders/{id}/pay', { params: { path: { id } } })),
    );
  }

  cancel(): Promise<void> {
    return this.#act('cancel', (id) =>
      outcome(api.POST('/api/v1/orders/{id}/cancel', { params: { path: { id } } })),
    );
  }

  /** Takes over what is known of the order by now. */
  take(order: Order): void {
    // Two answers may overtake each other. What is final stays.
    if (this.order.state !== 'held' && order.state === 'held') return;
    if (this.order.refund_due && !order.refund_due) return;
    const changed = this.order.state !== order.state;
    this.order = order;
    if (changed) this.#onchange(order);
  }

  /** Asks what became of it: its time is over, or another tab has dealt with it. */
  async look(): Promise<void> {
    const id = this.order.id;
    const answer = await outcome(api.GET('/api/v1/orders/{id}', { params: { path: { id } } }));
    if (answer.ok) this.take(answer.data);
    else if (answer.failure.status === 401) signedOut();
  }

  /**
   * Looks now and then, and ever more seldom, until the shop has taken note that the time is over; ends with what it
   * returns.
   */
  awaitExpiry(): () => void {
    let timer: ReturnType<typeof setTimeout>;
    let isOver = false;
    const wait = (looks: number): void => {
      if (isOver || looks === MAX_LOOKS || this.order.state !== 'held' || session.me === null) return;
      // Nobody looks at a page that is hidden.
      const waitMs = document.hidden ? LONGEST_MS : Math.min(LONGEST_MS, FIRST_LOOK_MS * 1.5 ** looks);
      timer = setTimeout(
        () => void this.look().then(() => wait(looks + 1)),
        waitMs * (0.75 + Math.random() / 2),
      );
    };
    // What each look brings is no reason to begin anew.
    untrack(() => wait(0));
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }

  async #act(what: 'pay' | 'cancel', call: (id: string) => Promise<Outcome<Order>>): Promise<void> {
    // A double click is one click.
    if (this.busy) return;
    this.busy = what;
    this.failure = undefined;
    const answer = await call(this.order.id);
    if (answer.ok) this.take(answer.data);
    else {
      if (answer.failure.status === 401) signedOut();
      // Whatever it was, the order may be another now.
      else await this.look();
      const isMoot =
        this.order.refund_due || stateOf(this.order, serverNow()) === (what === 'pay' ? 'paid' : 'cancelled');
      this.failure = isMoot ? undefined : answer.failure;
    }
    this.busy = undefined;
    tellTabs({ about: 'order', sale: this.order.sale_id, order: this.order.id });
  }
}
