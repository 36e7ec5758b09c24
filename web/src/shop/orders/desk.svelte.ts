// A buyer's dealings with one order: pay it, cancel it, and see its outcome. A payment that was begun
// continues after a lost network or a reload, in one tab at a time, and checks the order before it repeats a
// request: nobody pays twice or too late.
import { untrack } from 'svelte';
import { api, outcome, type Failure, type Outcome } from '../../api/client';
import type { Order } from '../../api/schema';
import { serverNow } from '../../lib/clock.svelte';
import { session, signedOut } from '../../lib/session.svelte';
import { tellTabs } from '../../lib/tabs';
import { browserMemory, FRESH_MS } from '../purchase/memory';
import { exclusively, online, sleep, untilAnswered } from '../purchase/patience';
import { stateOf, type OrderState } from './state';

const FIRST_LOOK_MS = 1_500;
const LONGEST_MS = 30_000;
const MAX_LOOKS = 20;

const memory = browserMemory();

/** A payment was begun here and its answer is unknown. */
export const isBeingPaid = (order: Order): boolean => memory.payment(order.id) !== undefined;

export class Desk {
  order = $state.raw<Order>() as Order;
  busy = $state<'pay' | 'cancel'>();
  failure = $state.raw<Failure>();
  /** Set while a passing failure is being retried. */
  trouble = $state.raw<Failure>();
  /** The session ended during a call. Not a state: effects triggered by that would see its old value. */
  wasCutOff = false;
  /** The order came by the waitlist. */
  wasOffered = $state(false);
  readonly #onchange: (order: Order) => void;
  #stop = new AbortController();

  constructor(order: Order, onchange: (order: Order) => void = () => {}) {
    this.order = order;
    this.#onchange = onchange;
  }

  /** It was paid when nothing was left, so the money goes back. That is final. */
  get refundDue(): boolean {
    return this.order.refund_due === true || this.failure?.code === 'refund_due';
  }

  /** The state of the order. A payment that came too late is shown before the order's own state says so. */
  standsAt(now: number): OrderState {
    return this.refundDue ? 'expired' : stateOf(this.order, now);
  }

  async pay(): Promise<void> {
    if (!this.busy) memory.keepPayment(this.order.id, serverNow());
    await this.#act('pay');
  }

  async cancel(): Promise<void> {
    await this.#act('cancel');
  }

  /** Continues a payment that was under way when the page was left. */
  async resume(): Promise<void> {
    const begun = memory.payment(this.order.id);
    if (begun === undefined) return;
    if (this.#isHeld && serverNow() - begun <= FRESH_MS) await this.#act('pay', true);
    else memory.forgetPayment(this.order.id);
  }

  /** The buyer stops waiting for the payment. It may have succeeded without an answer. */
  async giveUp(): Promise<void> {
    memory.forgetPayment(this.order.id);
    this.close();
    this.#stop = new AbortController();
    await this.look();
  }

  /** The page is closed. A payment that was begun stays begun. */
  close(): void {
    this.#stop.abort();
    this.busy = this.trouble = undefined;
  }

  /** Takes over the order's newest known state. */
  take(order: Order): void {
    // Answers may overtake each other. A final state stays.
    if (this.order.state !== 'held' && order.state === 'held') return;
    if (this.order.refund_due && !order.refund_due) return;
    const changed = this.order.state !== order.state;
    this.order = order;
    if (changed) this.#onchange(order);
  }

  /** Fetches the order: its time is over, or another tab has dealt with it. */
  async look(): Promise<void> {
    const id = this.order.id;
    const answer = await outcome(api.GET('/api/v1/orders/{id}', { params: { path: { id } } }));
    if (answer.ok) this.take(answer.data);
    else if (answer.failure.status === 401) signedOut();
  }

  /**
   * Looks now and then, less and less often, until the shop has noted that the time is over. Stops when the
   * returned function is called.
   */
  awaitExpiry(): () => void {
    let timer: ReturnType<typeof setTimeout>;
    let isOver = false;
    const wait = (looks: number): void => {
      if (isOver || looks === MAX_LOOKS || this.order.state !== 'held' || session.me === null) return;
      // Nobody is looking at a hidden page.
      const waitMs = document.hidden ? LONGEST_MS : Math.min(LONGEST_MS, FIRST_LOOK_MS * 1.5 ** looks);
      timer = setTimeout(
        () => void this.look().then(() => wait(looks + 1)),
        waitMs * (0.75 + Math.random() / 2),
      );
    };
    // The result of a look must not restart this effect.
    untrack(() => wait(0));
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }

  get #isHeld(): boolean {
    return this.standsAt(serverNow()) === 'held';
  }

  async #act(what: 'pay' | 'cancel', goesOn = false): Promise<void> {
    // A double click counts as one.
    if (this.busy) return;
    this.busy = what;
    this.failure = undefined;
    const { signal } = this.#stop;
    let looksFirst = goesOn;
    try {
      const onwait = () => (looksFirst = true);
      await exclusively(`order.${this.order.id}`, { signal, onwait }, () =>
        this.#drive(what, { goesOn, looksFirst }, signal),
      );
    } catch (reason) {
      // Nobody waits for it here now.
      if (signal.aborted) return;
      throw reason;
    }
    this.busy = undefined;
    tellTabs({ about: 'order', sale: this.order.sale_id, order: this.order.id });
  }

  async #drive(
    what: 'pay' | 'cancel',
    { goesOn, looksFirst }: { goesOn: boolean; looksFirst: boolean },
    signal: AbortSignal,
  ): Promise<void> {
    const params = { path: { id: this.order.id } };
    // While this tab waited for its turn, the buyer may have stopped the payment in another.
    if (goesOn && memory.payment(this.order.id) === undefined) return this.look();
    if (looksFirst) await this.look();
    let wasSent = looksFirst;
    const send = async (): Promise<Outcome<Order>> => {
      // A payment that comes too late would have to be refunded.
      if (wasSent && !this.#isHeld) return { ok: true, data: this.order };
      wasSent = true;
      const answer = await outcome(
        what === 'pay'
          ? api.POST('/api/v1/orders/{id}/pay', { params })
          : api.POST('/api/v1/orders/{id}/cancel', { params }),
      );
      if (answer.ok || answer.failure.status === 401) return answer;
      // In any case the order's state may have changed: perhaps only the answer was lost.
      await this.look();
      const isMoot = this.order.refund_due || this.order.state === (what === 'pay' ? 'paid' : 'cancelled');
      return isMoot ? { ok: true, data: this.order } : answer;
    };
    const ontrouble = (failure: Failure | undefined) => (this.trouble = failure);
    const answer = await untilAnswered(send, { signal, sleep, online, random: Math.random, ontrouble });
    if (answer.ok) this.take(answer.data);
    else this.failure = answer.failure;
    // The payment continues after signing in again.
    this.wasCutOff = this.failure?.status === 401;
    if (this.wasCutOff) signedOut();
    else if (what === 'pay') memory.forgetPayment(this.order.id);
  }
}
