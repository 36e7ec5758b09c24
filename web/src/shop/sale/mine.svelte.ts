// The buyer's own part of a sale: orders, the place on the waitlist, and the order on the stage. It is
// fetched after the page, because the page is the same for everybody.
import { api, isPassing, outcome, type Failure, type Outcome } from '../../api/client';
import type { Order, WaitlistPlace as Place } from '../../api/schema';
import { serverNow } from '../../lib/clock.svelte';
import { delayMs } from '../../lib/retry';
import { signedOut } from '../../lib/session.svelte';
import { tellTabs } from '../../lib/tabs';
import { Desk, isBeingPaid } from '../orders/desk.svelte';
import { stateOf } from '../orders/state';
import { nextLookMs, waitlist } from './waitlist';

export class Mine {
  /** Orders of this sale, newest first; undefined until they are known. */
  orders = $state.raw<Order[]>();
  /** Null: not on the list. */
  place = $state.raw<Place | null>();
  /** For the order on the stage. */
  desk = $state.raw<Desk>();
  /** The waitlist was left without an offer. */
  wasDropped = $state(false);
  busy = $state<'join' | 'leave'>();

  readonly #sale: string;
  readonly #onstale: (finished?: Order) => void;
  #timer: ReturnType<typeof setTimeout> | undefined;
  /** How many looks have failed in a row. */
  #misses = 0;
  #isOver = false;

  /** `onstale` is called when the known sale is out of date, perhaps because an order has ended. */
  constructor(sale: string, onstale: (finished?: Order) => void = () => {}) {
    this.#sale = sale;
    this.#onstale = onstale;
  }

  stop(): void {
    this.#isOver = true;
    clearTimeout(this.#timer);
    this.desk?.close();
  }

  /** Fetches the orders, and the place on the waitlist if there may be one. */
  async refresh(withPlace: boolean): Promise<void> {
    const before = this.place;
    const [orders, place] = await Promise.all([
      this.#loadOrders(),
      withPlace || before ? waitlist.look(this.#sale) : undefined,
    ]);
    if (this.#isOver) return;
    // A change since then, such as joining or leaving, is newer.
    if (place && this.place === before) {
      if (place.ok) this.#stand(place.data);
      else if (place.failure.status === 401) return signedOut();
      else if (place.failure.code !== 'not_waiting') {
        if (isPassing(place.failure)) this.#later(() => void this.refresh(true), place.failure);
      } else if (before) return this.#comeOff();
      else this.place = null;
    }
    if (orders.ok) this.#take(orders.data, false);
    // There may be an order to pay.
    else if (this.orders === undefined && isPassing(orders.failure))
      this.#later(() => void this.refresh(withPlace), orders.failure);
  }

  /** Puts an order on the stage. */
  show(order: Order, wasOffered = false): void {
    this.#put(order);
    if (this.desk?.order.id === order.id) return this.desk.take(order);
    this.desk?.close();
    this.desk = new Desk(order, (changed) => {
      this.#put(changed);
      if (changed.state !== 'held') this.#onstale(changed);
    });
    this.desk.wasOffered = wasOffered;
    void this.desk.resume();
  }

  /** Takes the order off the stage; it stays in the list. */
  leaveStage(): void {
    this.desk = undefined;
  }

  async join(quantity: number): Promise<Failure | undefined> {
    if (this.busy) return undefined;
    this.busy = 'join';
    this.wasDropped = false;
    const answer = await waitlist.join(this.#sale, quantity);
    this.busy = undefined;
    if (!answer.ok) return this.#refused(answer.failure);
    this.#stand(answer.data);
    return undefined;
  }

  async leave(): Promise<Failure | undefined> {
    if (this.busy) return undefined;
    this.busy = 'leave';
    const answer = await waitlist.leave(this.#sale);
    this.busy = undefined;
    if (!answer.ok) return this.#refused(answer.failure);
    clearTimeout(this.#timer);
    this.place = null;
    // Something may have come free at the last moment.
    void this.refresh(false);
    return undefined;
  }

  #refused(failure: Failure): Failure {
    if (failure.status === 401) signedOut();
    else this.#onstale();
    return failure;
  }

  async #loadOrders(): Promise<Outcome<Order[]>> {
    const query = { limit: 100 };
    const answer = await outcome(api.GET('/api/v1/orders', { params: { query } }));
    if (!answer.ok && answer.failure.status === 401) signedOut();
    if (!answer.ok) return answer;
    return { ok: true, data: answer.data.data.filter((order) => order.sale_id === this.#sale) };
  }

  #take(orders: Order[], cameUp: boolean): void {
    const before = new Set((this.orders ?? []).map(({ id }) => id));
    this.orders = orders;
    const shown = orders.find(({ id }) => id === this.desk?.order.id);
    if (shown) this.desk?.take(shown);
    const now = serverNow();
    const held = orders.filter((order) => stateOf(order, now) === 'held');
    const offer = cameUp ? held.find(({ id }) => !before.has(id)) : undefined;
    if (cameUp) this.wasDropped = held.length === 0;
    if (offer) tellTabs({ about: 'order', sale: this.#sale, order: offer.id });
    // An order to pay comes before one that is over, and nothing comes between a payment and its answer.
    const isOnStage = this.desk && stateOf(this.desk.order, now) === 'held';
    if (this.desk?.busy || (isOnStage && !offer)) return;
    const next = offer ?? held.find(isBeingPaid) ?? held[0];
    if (next) this.show(next, next === offer);
  }

  #put(order: Order): void {
    const others = (this.orders ?? []).filter(({ id }) => id !== order.id);
    this.orders = [order, ...others].sort((a, b) => b.created_at.localeCompare(a.created_at));
  }

  #stand(place: Place, failure?: Failure): void {
    if (this.#isOver) return;
    this.place = place;
    this.#later(() => void this.#lookForOffer(), failure);
  }

  /** After each `failure` the wait grows. */
  #later(look: () => void, failure?: Failure): void {
    clearTimeout(this.#timer);
    const random = Math.random();
    this.#misses = failure ? this.#misses + 1 : 0;
    const least = failure ? delayMs(this.#misses, failure.retryAfterSeconds, random) : 0;
    const next = nextLookMs(this.place?.position ?? 0, document.hidden, random);
    this.#timer = setTimeout(look, Math.max(least, next));
  }

  async #lookForOffer(): Promise<void> {
    const answer = await waitlist.look(this.#sale);
    if (this.#isOver || !this.place) return;
    if (answer.ok) return this.#stand(answer.data);
    if (answer.failure.status === 401) return signedOut();
    if (answer.failure.code !== 'not_waiting') return this.#stand(this.place, answer.failure);
    return this.#comeOff();
  }

  /**
   * We are off the list: either units came back for us, or the list is over. Orders fetched earlier do not
   * tell which.
   */
  async #comeOff(): Promise<void> {
    const orders = await this.#loadOrders();
    if (this.#isOver || !this.place) return;
    if (!orders.ok) return this.#stand(this.place, orders.failure);
    this.place = null;
    this.#take(orders.data, true);
  }
}
