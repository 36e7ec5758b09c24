// One buyer's purchase in one sale, from the click to the hold, as explicit steps. It knows no page. In spite
// of reloads, second tabs and lost networks, all tries of one wish carry the same key, so they are one order.
import { isPassing, type Failure, type Outcome } from '../../api/client';
import type { Order, Sale, Ticket } from '../../api/schema';
import { FRESH_MS, type Intent } from './memory';
import { untilAnswered } from './patience';
import type { World } from './world';

export type Step =
  | { at: 'idle' }
  /** The session has ended; the purchase continues after signing in. */
  | { at: 'sign_in' }
  /** Another tab of this browser is working on it. */
  | { at: 'elsewhere' }
  | { at: 'waiting'; ticket: Ticket; from: number | null }
  /** A proof of work; `part` is the share of the expected work done. */
  | { at: 'working'; part: number; turnUntil: string | null }
  | { at: 'captcha'; image: string; wrong: boolean; turnUntil: string | null }
  | { at: 'ordering' }
  | { at: 'done'; order: Order }
  /**
   * `goesOn`: trying again continues the same purchase with the same key. `atMost`: the most units that can
   * be left.
   */
  | { at: 'refused'; failure: Failure; goesOn: boolean; atMost?: number };

export type Terms = Pick<Sale, 'id' | 'gate' | 'opens_at'>;

interface Proof {
  challenge: string | null;
  answer: string | null;
}

type Reply = { answer: string } | { kind: 'pow' | 'captcha' };

/** How often a lost turn, pass or proof is replaced automatically in one purchase. */
const MAX_ANEW = 4;
/** How far off our idea of the server's time may be. */
const CLOCK_MS = 3_000;

class Refused extends Error {
  readonly failure: Failure;
  /**
   * The quantity that was too much. A buyer who is refused before ordering is told that nothing is left: that
   * counts as 1.
   */
  readonly wanted: number;
  constructor(failure: Failure, wanted = 1) {
    super(failure.code);
    this.failure = failure;
    this.wanted = wanted;
  }
}

export class Purchase {
  step = $state.raw<Step>({ at: 'idle' });
  /** Set while a passing failure is being retried. */
  trouble = $state.raw<Failure>();
  /** A turn was missed, and a new place was taken. */
  missedTurn = $state(false);

  readonly #terms: () => Terms;
  readonly #name: string;
  readonly #world: World;
  readonly #ondone: (order: Order) => void;
  #stop: AbortController | undefined;
  #isClosed = false;
  #reply: ((reply: Reply) => void) | undefined;

  constructor(buyer: string, terms: () => Terms, world: World, ondone: (order: Order) => void = () => {}) {
    this.#terms = terms;
    this.#name = `${buyer}.${terms().id}`;
    this.#world = world;
    this.#ondone = ondone;
  }

  get isRunning(): boolean {
    return this.#stop !== undefined;
  }

  /** Whether the current wish may have been ordered: then it can only be repeated unchanged. */
  get wasAsked(): boolean {
    return this.#world.memory.intent(this.#name)?.asked ?? false;
  }

  /** Buys. `known` are the orders of this sale that the buyer sees: the purchase then means another one. */
  async buy(quantity: number, known: readonly string[] = []): Promise<void> {
    await this.#run((signal) => this.#intend(quantity, known, signal));
  }

  /** Continues a purchase that was under way when the page was left. */
  async resume(): Promise<void> {
    const { memory, now, calls } = this.#world;
    const intent = memory.intent(this.#name);
    if (!intent || intent.order) return;
    if (now() - intent.touchedAt > FRESH_MS) {
      // A buyer with a place in the queue still wants to buy; others may not.
      const kept = memory.ticket(this.#name);
      const seen = kept && (await calls.ticket(this.#terms().id, kept.ticket));
      // A click since then, here or in another tab, is a new wish.
      if (this.isRunning || memory.intent(this.#name)?.key !== intent.key) return;
      const stands = seen && (seen.ok ? seen.data.state !== 'gone' : isPassing(seen.failure));
      if (!stands) {
        this.#forget();
        memory.forgetTicket(this.#name);
        return;
      }
    }
    await this.tryAgain();
  }

  /** Continues the stored purchase, however old it is. */
  async tryAgain(): Promise<void> {
    await this.#run(async () => this.#world.memory.intent(this.#name));
  }

  /** Continues here a purchase that another tab is working on. */
  async takeOver(): Promise<void> {
    this.stop();
    await this.#run(async () => this.#world.memory.intent(this.#name), true);
  }

  /** The reason of a refusal is gone. */
  forgive(): void {
    if (this.step.at === 'refused' && !this.step.goesOn) this.step = { at: 'idle' };
  }

  /**
   * The buyer looked at the sale again. A wish delayed by a pause continues after it, unless nobody was here
   * for long.
   */
  seen(isPaused: boolean): void {
    if (this.step.at !== 'refused' || this.step.failure.code !== 'paused') return;
    const { memory, now } = this.#world;
    const intent = memory.intent(this.#name);
    if (!intent || now() - intent.touchedAt > FRESH_MS) {
      this.#forget();
      this.step = { at: 'idle' };
    } else if (isPaused) this.#keep({ touchedAt: now() });
    else void this.tryAgain();
  }

  /** Another tab has news of an order. If it results from our wish, it is ours, too. */
  async heard(order: string): Promise<void> {
    if (!this.isRunning || this.#world.memory.intent(this.#name)?.order !== order) return;
    const found = await this.#world.calls.findOrder(order);
    if (!found.ok || !this.isRunning) return;
    this.stop();
    this.#done(found.data);
  }

  answer(text: string): void {
    this.#reply?.({ answer: text });
  }

  /** Asks for another picture, or for a proof of work instead. */
  another(kind: 'captcha' | 'pow'): void {
    this.#reply?.({ kind });
  }

  /** Gives up the place in the waiting room and the purchase. */
  leave(): void {
    this.stop();
    this.#forget();
    this.#world.memory.forgetTicket(this.#name);
  }

  /** The page is closed. Stored data stays, and nothing new begins. */
  close(): void {
    this.stop();
    this.#isClosed = true;
  }

  /** The page shows something else. Stored data stays. */
  stop(): void {
    this.#stop?.abort();
    this.#stop = undefined;
    this.trouble = undefined;
    this.missedTurn = false;
    this.step = { at: 'idle' };
  }

  /** The order is paid, expired or cancelled: its key is used up. */
  finished(order: string): void {
    if (this.#world.memory.intent(this.#name)?.order === order) this.#forget();
  }

  async #run(begin: (signal: AbortSignal) => Promise<Intent | undefined>, steal = false): Promise<void> {
    // A double click counts as one.
    if (this.#stop || this.#isClosed) return;
    const stop = new AbortController();
    this.#stop = stop;
    this.missedTurn = false;
    if (this.step.at !== 'ordering') this.step = { at: 'ordering' };
    try {
      const intent = await begin(stop.signal);
      const order = intent && (await this.#drive(intent, stop.signal, steal));
      if (stop.signal.aborted) return;
      this.#stop = undefined;
      if (order) this.#done(order);
      else this.step = { at: 'idle' };
    } catch (reason) {
      if (stop.signal.aborted) return;
      this.#stop = undefined;
      this.trouble = undefined;
      if (reason instanceof Refused) this.#refuse(reason.failure, reason.wanted);
      else if (reason instanceof DOMException && reason.name === 'AbortError') {
        // The lock was taken away: another tab continues, and this one waits for the result.
        stop.abort();
        await this.tryAgain();
      } else {
        // For example a worker that can't be loaded. No buyer should be left with a progress bar that never
        // moves.
        reportError(reason);
        this.#refuse(refusal('internal'));
      }
    }
  }

  #done(order: Order): void {
    this.trouble = undefined;
    this.step = { at: 'done', order };
    this.#ondone(order);
  }

  #refuse(failure: Failure, wanted = 1): void {
    if (failure.status === 401) {
      this.step = { at: 'sign_in' };
      this.#world.signedOut();
      return;
    }
    const goesOn = isPassing(failure) || failure.code === 'passes_exhausted' || failure.code === 'paused';
    if (goesOn) this.#keep({ touchedAt: this.#world.now() });
    else this.#forget();
    if (failure.code === 'closed') this.#world.memory.forgetTicket(this.#name);
    // Nobody can buy before the opening, unless the page's clock is fast.
    if (failure.code === 'not_open') this.#world.doubtNow();
    const tells = failure.code === 'sold_out' ? { atMost: wanted - 1 } : {};
    this.step = { at: 'refused', failure, goesOn, ...tells };
  }

  #forget(): void {
    this.#world.memory.forgetIntent(this.#name);
  }

  #keep(change: Partial<Intent>): void {
    const intent = this.#world.memory.intent(this.#name);
    if (intent) this.#world.memory.keepIntent(this.#name, { ...intent, ...change });
  }

  /** The wish under way in this browser, or else a new one. */
  #intend(quantity: number, known: readonly string[], signal: AbortSignal): Promise<Intent> {
    const { memory, now, newKey, exclusively } = this.#world;
    return exclusively(`${this.#name}.intent`, { signal }, async () => {
      const kept = memory.intent(this.#name);
      let key: string | undefined;
      if (kept && !(kept.order && known.includes(kept.order))) {
        const isFresh = kept.order !== undefined || now() - kept.touchedAt <= FRESH_MS;
        if (isFresh && (kept.asked || kept.order)) return kept;
        // Before it was ordered, the quantity may still change.
        if (isFresh) key = kept.key;
      }
      const intent: Intent = { key: key ?? newKey(), quantity, touchedAt: now() };
      memory.keepIntent(this.#name, intent);
      return intent;
    });
  }

  /** Leads to the order; undefined if another tab ended without one. */
  async #drive(intent: Intent, signal: AbortSignal, steal: boolean): Promise<Order | undefined> {
    const { memory, exclusively } = this.#world;
    if (intent.order) {
      const order = await this.#found(intent.order, signal);
      if (order.state === 'held' || order.state === 'paid') return order;
      // It had no result, so this is a new wish.
      this.#forget();
      return this.#drive(await this.#intend(intent.quantity, [], signal), signal, steal);
    }
    // Any number of tabs can wait in the queue. The rest is done in one tab.
    const queues = this.#terms().gate.waiting_room && !intent.asked;
    const turn = queues ? await this.#turn(signal) : undefined;
    const onwait = () => (this.step = { at: 'elsewhere' });
    return exclusively(`${this.#name}.order`, { signal, onwait, steal }, async () => {
      const now = memory.intent(this.#name);
      if (now?.key !== intent.key) return undefined;
      if (now.order) return this.#found(now.order, signal);
      const order = await this.#order(now, turn, signal);
      this.#keep({ order: order.id });
      memory.forgetTicket(this.#name);
      return order;
    });
  }

  /** The order that another tab, or an earlier visit, has got. */
  async #found(id: string, signal: AbortSignal): Promise<Order> {
    const answer = await this.#trying(() => this.#world.calls.findOrder(id), signal);
    if (!answer.ok) throw new Refused(answer.failure);
    return answer.data;
  }

  async #order(intent: Intent, turn: Ticket | undefined, signal: AbortSignal): Promise<Order> {
    const { calls } = this.#world;
    const { id, gate } = this.#terms();
    let needsPass = gate.pass_required;
    let pass: string | undefined;
    for (let anew = 0; ; anew += 1) {
      // A wish that may have been accepted is checked first: that needs no pass.
      if (needsPass && !(intent.asked && anew === 0)) {
        pass = await this.#pass(anew === 0 ? turn : undefined, signal);
      }
      this.step = { at: 'ordering' };
      this.#keep({ asked: true, touchedAt: this.#world.now() });
      const answer = await this.#trying(() => calls.order(id, intent.quantity, intent.key, pass), signal);
      if (answer.ok) return answer.data;
      const { code } = answer.failure;
      if ((code !== 'pass_required' && code !== 'pass_invalid') || anew >= MAX_ANEW)
        throw new Refused(answer.failure, intent.quantity);
      needsPass = true;
    }
  }

  /** The right to order: a turn if there is a queue, and a solved challenge if there is one. */
  async #pass(turn: Ticket | undefined, signal: AbortSignal): Promise<string | undefined> {
    const { calls, memory } = this.#world;
    const { id, gate } = this.#terms();
    let wrong = false;
    for (let anew = 0; ; turn = undefined) {
      const ticket = gate.waiting_room ? (turn ?? (await this.#turn(signal))) : undefined;
      const prove = () => this.#prove(wrong, ticket?.admitted_until ?? null, signal);
      const proof = await (ticket ? this.#staying(ticket.ticket, prove, signal) : prove());
      this.step = { at: 'ordering' };
      const body = { ...proof, ticket: ticket?.ticket ?? null };
      const answer = await this.#trying(() => calls.pass(id, body), signal);
      if (answer.ok) return answer.data.pass;
      wrong = answer.failure.code === 'challenge_failed';
      if (answer.failure.code === 'not_gated') return undefined;
      if (answer.failure.code === 'not_admitted') memory.forgetTicket(this.#name);
      else if (!wrong) throw new Refused(answer.failure);
      // A person may try as many pictures as the shop gives out.
      if (!(wrong && gate.challenge === 'captcha')) anew += 1;
      if (anew > MAX_ANEW) throw new Refused(answer.failure);
    }
  }

  /** Waits until it is our turn. */
  async #turn(signal: AbortSignal): Promise<Ticket> {
    const { memory, follow } = this.#world;
    const { id } = this.#terms();
    for (let anew = 0; ; anew += 1) {
      const kept = await this.#place(signal);
      let last: Outcome<Ticket> | undefined;
      for await (last of follow(id, kept.ticket, signal)) {
        if (!last.ok || last.data.state !== 'waiting') break;
        this.#stand(last.data);
      }
      signal.throwIfAborted();
      if (!last) continue;
      if (last.ok && last.data.state === 'admitted') return last.data;
      const code = last.ok ? last.data.reason : last.failure.code;
      if (code === 'sold_out' || code === 'closed') throw new Refused(refusal(code));
      // For example a session that has ended: the place stays ours.
      if (!last.ok && last.failure.status !== 404) throw new Refused(last.failure);
      // The turn is over, or the ticket is unknown: back into the queue.
      memory.forgetTicket(this.#name);
      if (code === 'turn_over') this.missedTurn = true;
      if (anew >= MAX_ANEW) throw new Refused(last.ok ? refusal('not_admitted') : last.failure);
    }
  }

  /**
   * Keeps following the ticket during `work`: a silent buyer counts as gone, and the unit goes to another.
   */
  async #staying<T>(ticket: string, work: () => Promise<T>, signal: AbortSignal): Promise<T> {
    const working = new AbortController();
    const stop = () => working.abort();
    signal.addEventListener('abort', stop);
    const stay = async () => {
      for await (const heard of this.#world.follow(this.#terms().id, ticket, working.signal))
        if (!heard.ok || heard.data.state === 'gone') return;
    };
    // The pass tells whether the turn is over.
    stay().catch(() => {});
    try {
      return await work();
    } finally {
      signal.removeEventListener('abort', stop);
      stop();
    }
  }

  /** Our ticket; takes a new one if there is none. */
  #place(signal: AbortSignal): Promise<{ ticket: string }> {
    const { memory, calls, exclusively } = this.#world;
    return exclusively(`${this.#name}.ticket`, { signal }, async () => {
      const kept = memory.ticket(this.#name);
      if (kept) return kept;
      const answer = await this.#trying(() => calls.takeTicket(this.#terms().id), signal);
      if (!answer.ok) throw new Refused(answer.failure);
      memory.keepTicket(this.#name, { ticket: answer.data.ticket, from: null });
      if (answer.data.state === 'waiting') this.#stand(answer.data);
      return answer.data;
    });
  }

  /** Shows the place. */
  #stand(ticket: Ticket): void {
    const { memory } = this.#world;
    const position = ticket.position ?? null;
    const kept = memory.ticket(this.#name);
    const from = kept?.from ?? position;
    if (kept && kept.from === null && position !== null) memory.keepTicket(this.#name, { ...kept, from });
    this.step = { at: 'waiting', ticket, from };
  }

  async #prove(wasWrong: boolean, turnUntil: string | null, signal: AbortSignal): Promise<Proof> {
    const { calls, solve } = this.#world;
    const { id, gate } = this.#terms();
    if (gate.challenge === 'none') return { challenge: null, answer: null };
    let kind: 'pow' | null = null;
    for (let wrong = wasWrong; ; wrong = false) {
      const answer = await this.#trying(() => calls.challenge(id, kind), signal);
      if (!answer.ok && answer.failure.code === 'not_gated') return { challenge: null, answer: null };
      if (!answer.ok) throw new Refused(answer.failure);
      const challenge = answer.data;
      if (challenge.kind === 'captcha') {
        this.step = { at: 'captcha', image: challenge.image ?? '', wrong, turnUntil };
        const reply = await this.#replied(signal);
        if ('answer' in reply) return { challenge: challenge.id, answer: reply.answer };
        kind = reply.kind === 'pow' ? 'pow' : null;
        continue;
      }
      this.step = { at: 'working', part: 0, turnUntil };
      const work = { salt: challenge.salt ?? '', difficulty: challenge.difficulty ?? 0 };
      const tell = (part: number) => {
        if (!signal.aborted) this.step = { at: 'working', part, turnUntil };
      };
      return { challenge: challenge.id, answer: await solve(work, tell, signal) };
    }
  }

  #replied(signal: AbortSignal): Promise<Reply> {
    return new Promise((resolve, reject) => {
      this.#reply = (reply) => {
        // A double click counts as one answer.
        this.#reply = undefined;
        resolve(reply);
      };
      signal.addEventListener('abort', () => reject(signal.reason), { once: true });
    });
  }

  #trying<T>(call: () => Promise<Outcome<T>>, signal: AbortSignal): Promise<Outcome<T>> {
    return untilAnswered(call, {
      ...this.#world,
      signal,
      ontrouble: (failure) => (this.trouble = failure),
      mayPass: (failure) => this.#mayPass(failure),
    });
  }

  #mayPass(failure: Failure): boolean {
    if (failure.code === 'passes_exhausted') return true;
    // The page opens by a clock that is close to the server's.
    const opensAt = Date.parse(this.#terms().opens_at ?? '');
    if (failure.code === 'not_open')
      return this.#world.now() > opensAt - CLOCK_MS && this.#world.now() < opensAt + CLOCK_MS;
    return isPassing(failure);
  }
}

/** A refusal without a failed call. */
function refusal(code: 'sold_out' | 'closed' | 'not_admitted' | 'internal'): Failure {
  return { code, status: 409, detail: '', fields: {}, retryAfterSeconds: undefined };
}
