// The last ten minutes of the live view, as columns for charts. Pure.
import type { LiveFigures } from '../../api/schema';

export const KEPT_SECONDS = 600;
/** Events come each second; a longer interval leaves a gap. */
const GAP_SECONDS = 2.5;

const PLAIN = [
  'looks',
  'claims',
  'accepted',
  'admitted',
  'waiting',
  'available',
  'held',
  'paid',
  'p50',
  'p99',
  'lag',
] as const;
export type Column = (typeof PLAIN)[number];
type Value = number | null;

export class Series {
  /** Seconds since 1970, rising. */
  readonly times: number[] = [];
  readonly #columns = new Map<string, Value[]>(PLAIN.map((name) => [name, []]));
  readonly #refusals = new Map<string, Value[]>();

  column(name: Column): Value[] {
    return this.#columns.get(name) ?? [];
  }

  /** In the order of their first appearance, so that each keeps its colour. */
  get codes(): string[] {
    return [...this.#refusals.keys()];
  }

  refusals(code: string): Value[] {
    return this.#refusals.get(code) ?? [];
  }

  /** The number of rows, gaps included. */
  get length(): number {
    return this.times.length;
  }

  /**
   * Takes an event. Skips events that are not newer than the last: a server repeats itself after a reconnect.
   */
  push(figures: LiveFigures, sale: string): void {
    const time = Date.parse(figures.at) / 1000;
    const last = this.times.at(-1);
    if (!Number.isFinite(time) || (last !== undefined && time <= last)) return;
    if (last !== undefined && time - last > GAP_SECONDS) this.#row((last + time) / 2, {}, undefined);
    const of = figures.sales.find(({ id }) => id === sale);
    // A node that has just started has nothing to compare with: its rates are unknown, not 0.
    const rate = (value: number | undefined) => (figures.seconds > 0 ? value : undefined);
    this.#row(
      time,
      {
        looks: rate(of?.looks_per_second),
        claims: rate(of?.claims_per_second),
        accepted: rate(of?.accepted_per_second),
        admitted: rate(of?.admitted_per_second),
        waiting: of?.waiting,
        available: of?.available,
        held: of?.held,
        paid: of?.paid,
        p50: figures.latency?.p50_ms,
        p99: figures.latency?.p99_ms,
        lag: figures.settlement.lag_decisions ?? undefined,
      },
      of && figures.seconds > 0 ? of.refusals_per_second : undefined,
    );
    this.#forget(time - KEPT_SECONDS);
  }

  #row(
    time: number,
    values: Partial<Record<Column, number | undefined>>,
    refusals: Record<string, number> | undefined,
  ): void {
    const before = this.times.length;
    this.times.push(time);
    for (const name of PLAIN) this.#columns.get(name)?.push(values[name] ?? null);
    for (const code of Object.keys(refusals ?? {})) {
      // So far nobody was refused for it.
      if (!this.#refusals.has(code)) this.#refusals.set(code, new Array<Value>(before).fill(0));
    }
    for (const [code, column] of this.#refusals) column.push(refusals ? (refusals[code] ?? 0) : null);
  }

  #forget(until: number): void {
    const kept = this.times.findIndex((time) => time >= until);
    if (kept <= 0) return;
    for (const column of [this.times, ...this.#columns.values(), ...this.#refusals.values()])
      column.splice(0, kept);
  }
}
