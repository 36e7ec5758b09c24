// What a purchase needs from outside. Tests have their own implementation.
import type { Outcome } from '../../api/client';
import type { Challenge, Order, Pass, Ticket } from '../../api/schema';
import type { Memory } from './memory';
import type { Lock } from './patience';

export interface Calls {
  order(sale: string, quantity: number, key: string, pass: string | undefined): Promise<Outcome<Order>>;
  findOrder(id: string): Promise<Outcome<Order>>;
  takeTicket(sale: string): Promise<Outcome<Ticket>>;
  ticket(sale: string, ticket: string): Promise<Outcome<Ticket>>;
  challenge(sale: string, kind: 'pow' | null): Promise<Outcome<Challenge>>;
  pass(
    sale: string,
    proof: { challenge: string | null; answer: string | null; ticket: string | null },
  ): Promise<Outcome<Pass>>;
}

export interface World {
  calls: Calls;
  memory: Memory;
  /** The server's time in milliseconds. */
  now(): number;
  /** Called when the server's time seems to be wrong. */
  doubtNow(): void;
  /** From 0 up to 1. */
  random(): number;
  newKey(): string;
  /** Rejects when `signal` does. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
  /** Resolves when there is a network; at once if there seems to be one. */
  online(signal: AbortSignal): Promise<void>;
  /** At most one tab of this browser at a time runs `work` under a name. */
  exclusively<T>(name: string, lock: Lock, work: () => Promise<T>): Promise<T>;
  /** The ticket and its changes, until the caller stops listening. */
  follow(sale: string, ticket: string, signal: AbortSignal): AsyncIterable<Outcome<Ticket>>;
  /** The answer to a proof of work; `onprogress` gets the share of the expected work done. */
  solve(
    challenge: { salt: string; difficulty: number },
    onprogress: (part: number) => void,
    signal: AbortSignal,
  ): Promise<string>;
  /** The session has ended. */
  signedOut(): void;
}
