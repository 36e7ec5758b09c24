// The report of `penstock rush --json`: read with care, since the user chose the file, and prepared for
// drawing. Pure.

export interface Slice {
  at_ms: number;
  came: number;
  orders_due: number;
  sold: number;
  admitted: number;
  refused: Record<string, number>;
  p50_ms: number;
  p99_ms: number;
}

export interface Quantiles {
  count: number;
  p50_ms: number;
  p90_ms: number;
  p99_ms: number;
  p999_ms: number;
  max_ms: number;
}

export interface Verdict {
  oversold: number;
  lost: number;
  duplicated: number;
  over_limit: number;
  unanswered: number;
  audit: boolean | null;
  unchecked: string | null;
  findings: string[];
  checked: string[];
}

export interface Report {
  scenario: string;
  about: string;
  url: string;
  sale: string;
  started_at: string;
  units: number;
  seconds: number;
  requests: number;
  requests_per_second: number;
  order_requests: number;
  people: { buyers: number; bots: number; came: number; admitted: number; served: number; gave_up: number };
  opening: {
    stock_gone_after_seconds: number | null;
    everybody_answered_after_seconds: number | null;
  };
  orders: { accepted: number; units: number; paid: number; cancelled: number; walked_away: number };
  refused: Record<string, number>;
  bots_refused: Record<string, number>;
  latency: Record<string, Quantiles>;
  slice_ms: number;
  timeline: Slice[];
  generator: { busy_percent: number; late_percent: number; connections: number; bottleneck: string | null };
  verdict: Verdict;
}

export const MAX_REPORT_BYTES = 64 * 1024 * 1024;

/** Why it can't be drawn; `at` names the place in the JSON. */
export type ReportFault =
  { fault: 'empty' | 'not_json' | 'a_page' | 'too_large' } | { fault: 'not_a_report'; at: string };
export type Read = { report: Report } | ReportFault;

class Unfit extends Error {
  readonly at: string;
  constructor(at: string) {
    super(at);
    this.at = at;
  }
}

/** PowerShell writes what a program prints as UTF-16. */
export function textOf(bytes: Uint8Array): string {
  const [first, second] = bytes;
  const isWide = (first === 0xff && second === 0xfe) || (second === 0 && first !== 0);
  return new TextDecoder(isWide ? 'utf-16le' : 'utf-8').decode(bytes);
}

export function readReport(text: string): Read {
  const trimmed = text.replace(/^\uFEFF/, '').trim();
  if (!trimmed) return { fault: 'empty' };
  if (trimmed.length > MAX_REPORT_BYTES) return { fault: 'too_large' };
  if (/^<(!doctype|html)/i.test(trimmed)) return { fault: 'a_page' };
  const value = parsed(trimmed);
  if (value === undefined) return { fault: 'not_json' };
  try {
    return { report: report(value) };
  } catch (error) {
    if (error instanceof Unfit) return { fault: 'not_a_report', at: error.at };
    throw error;
  }
}

/** Text copied from a terminal may have an extra line around the JSON. */
function parsed(text: string): unknown {
  for (const candidate of [text, text.slice(text.indexOf('{'), text.lastIndexOf('}') + 1)]) {
    try {
      return JSON.parse(candidate) as unknown;
    } catch {
      // Try the next one, if there is one.
    }
  }
  return undefined;
}

type Fields = Record<string, unknown>;

function fields(value: unknown, at: string): Fields {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) throw new Unfit(at);
  return value as Fields;
}

function amount(from: Fields, name: string, at: string): number {
  const value = from[name];
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Unfit(`${at}${name}`);
  return value;
}

const amountOrNull = (from: Fields, name: string, at: string) =>
  from[name] === null || from[name] === undefined ? null : amount(from, name, at);
/** For fields that older versions don't have. */
const amountOrZero = (from: Fields, name: string, at: string) => amountOrNull(from, name, at) ?? 0;

function words(from: Fields, name: string, at: string): string {
  const value = from[name];
  if (typeof value !== 'string') throw new Unfit(`${at}${name}`);
  return value;
}

const wordsOrNull = (from: Fields, name: string, at: string) =>
  from[name] === null || from[name] === undefined ? null : words(from, name, at);

function list<T>(from: Fields, name: string, each: (value: unknown, at: string) => T): T[] {
  const value = from[name];
  if (!Array.isArray(value)) throw new Unfit(name);
  return value.map((entry, place) => each(entry, `${name}[${place}]`));
}

function counts(from: Fields, name: string, at: string): Record<string, number> {
  const value = fields(from[name] ?? {}, `${at}${name}`);
  return Object.fromEntries(Object.keys(value).map((key) => [key, amount(value, key, `${at}${name}.`)]));
}

function report(value: unknown): Report {
  const all = fields(value, 'report');
  const part = (name: string) => fields(all[name], name);
  const people = part('people');
  const opening = part('opening');
  const orders = part('orders');
  const generator = part('generator');
  const latency = part('latency');
  return {
    scenario: words(all, 'scenario', ''),
    about: words(all, 'about', ''),
    url: words(all, 'url', ''),
    sale: words(all, 'sale', ''),
    started_at: words(all, 'started_at', ''),
    units: amount(all, 'units', ''),
    seconds: amount(all, 'seconds', ''),
    requests: amount(all, 'requests', ''),
    requests_per_second: amount(all, 'requests_per_second', ''),
    order_requests: amount(all, 'order_requests', ''),
    people: {
      buyers: amount(people, 'buyers', 'people.'),
      bots: amountOrZero(people, 'bots', 'people.'),
      came: amount(people, 'came', 'people.'),
      admitted: amountOrZero(people, 'admitted', 'people.'),
      served: amount(people, 'served', 'people.'),
      gave_up: amountOrZero(people, 'gave_up', 'people.'),
    },
    opening: {
      stock_gone_after_seconds: amountOrNull(opening, 'stock_gone_after_seconds', 'opening.'),
      everybody_answered_after_seconds: amountOrNull(opening, 'everybody_answered_after_seconds', 'opening.'),
    },
    orders: {
      accepted: amount(orders, 'accepted', 'orders.'),
      units: amount(orders, 'units', 'orders.'),
      paid: amount(orders, 'paid', 'orders.'),
      cancelled: amountOrZero(orders, 'cancelled', 'orders.'),
      walked_away: amountOrZero(orders, 'walked_away', 'orders.'),
    },
    refused: counts(all, 'refused', ''),
    bots_refused: counts(all, 'bots_refused', ''),
    latency: Object.fromEntries(Object.keys(latency).map((kind) => [kind, quantiles(latency[kind], kind)])),
    slice_ms: Math.max(1, amount(all, 'slice_ms', '')),
    timeline: list(all, 'timeline', slice),
    generator: {
      busy_percent: amountOrZero(generator, 'busy_percent', 'generator.'),
      late_percent: amountOrZero(generator, 'late_percent', 'generator.'),
      connections: amountOrZero(generator, 'connections', 'generator.'),
      bottleneck: wordsOrNull(generator, 'bottleneck', 'generator.'),
    },
    verdict: verdict(part('verdict')),
  };
}

function quantiles(value: unknown, kind: string): Quantiles {
  const from = fields(value, `latency.${kind}`);
  const get = (name: keyof Quantiles) => amount(from, name, `latency.${kind}.`);
  return {
    count: get('count'),
    p50_ms: get('p50_ms'),
    p90_ms: get('p90_ms'),
    p99_ms: get('p99_ms'),
    p999_ms: get('p999_ms'),
    max_ms: get('max_ms'),
  };
}

function slice(value: unknown, at: string): Slice {
  const from = fields(value, at);
  return {
    at_ms: amount(from, 'at_ms', `${at}.`),
    came: amountOrZero(from, 'came', `${at}.`),
    orders_due: amountOrZero(from, 'orders_due', `${at}.`),
    sold: amountOrZero(from, 'sold', `${at}.`),
    admitted: amountOrZero(from, 'admitted', `${at}.`),
    refused: counts(from, 'refused', `${at}.`),
    p50_ms: amountOrZero(from, 'p50_ms', `${at}.`),
    p99_ms: amountOrZero(from, 'p99_ms', `${at}.`),
  };
}

function verdict(from: Fields): Verdict {
  const get = (name: string) => amount(from, name, 'verdict.');
  const sentences = (name: string) =>
    Array.isArray(from[name]) ? from[name].filter((entry) => typeof entry === 'string') : [];
  return {
    oversold: get('oversold'),
    lost: get('lost'),
    duplicated: get('duplicated'),
    over_limit: get('over_limit'),
    unanswered: get('unanswered'),
    audit: typeof from['audit'] === 'boolean' ? from['audit'] : null,
    unchecked: wordsOrNull(from, 'unchecked', 'verdict.'),
    findings: sentences('findings'),
    checked: sentences('checked'),
  };
}

export const VERDICT_COUNTS = ['oversold', 'lost', 'duplicated', 'over_limit', 'unanswered'] as const;

/** Unchecked is not clean. */
export function isClean(verdict: Verdict): boolean {
  return VERDICT_COUNTS.every((name) => verdict[name] === 0) && verdict.audit !== false && !verdict.unchecked;
}

/** A part of the timeline; all parts have the same length. */
export interface Stretch {
  /** Its start, counted from the opening. */
  seconds: number;
  came: number;
  orders_due: number;
  sold: number;
  refused: Record<string, number>;
  /** Null: no order was answered. */
  p50_ms: number | null;
  p99_ms: number | null;
}

const answers = (slice: Slice) =>
  slice.sold + Object.values(slice.refused).reduce((sum, count) => sum + count, 0);

/**
 * Merges slices until there are at most about `most`; missing counts are 0. No stretch crosses the opening:
 * sales after it must not seem to come before it.
 */
export function stretches(
  { timeline, slice_ms }: Pick<Report, 'timeline' | 'slice_ms'>,
  [earliest, to]: readonly [number, number],
  most = 300,
): { stretches: Stretch[]; seconds: number } {
  const slices = Math.max(1, Math.ceil((to - earliest) / slice_ms));
  const length = slice_ms * Math.ceil(slices / most);
  const from = Math.floor(earliest / length) * length;
  const found: Stretch[] = Array.from({ length: Math.ceil((to - from) / length) }, (_, place) => ({
    seconds: (from + place * length) / 1000,
    came: 0,
    orders_due: 0,
    sold: 0,
    refused: {},
    p50_ms: null,
    p99_ms: null,
  }));
  const answered = found.map(() => 0);
  for (const slice of timeline) {
    const place = Math.floor((slice.at_ms - from) / length);
    const stretch = found[place];
    if (!stretch) continue;
    stretch.came += slice.came;
    stretch.orders_due += slice.orders_due;
    stretch.sold += slice.sold;
    for (const [code, count] of Object.entries(slice.refused))
      stretch.refused[code] = (stretch.refused[code] ?? 0) + count;
    const [weight, before] = [answers(slice), answered[place] ?? 0];
    if (weight === 0) continue;
    // The mean of the medians, and the highest of the p99 values.
    stretch.p50_ms = ((stretch.p50_ms ?? 0) * before + slice.p50_ms * weight) / (before + weight);
    stretch.p99_ms = Math.max(stretch.p99_ms ?? 0, slice.p99_ms);
    answered[place] = before + weight;
  }
  return { stretches: found, seconds: length / 1000 };
}

export function whole({ timeline, slice_ms }: Pick<Report, 'timeline' | 'slice_ms'>): [number, number] {
  const first = timeline[0]?.at_ms ?? 0;
  const last = timeline.at(-1)?.at_ms ?? 0;
  return [Math.min(first, 0), last + slice_ms];
}

/** The time in which nearly all orders were answered, if that is much shorter than the run. */
export function closeUp(report: Pick<Report, 'timeline' | 'slice_ms'>): [number, number] {
  const all = whole(report);
  const total = report.timeline.reduce((sum, slice) => sum + answers(slice), 0);
  if (total === 0) return all;
  let sum = 0;
  let [from, to] = all;
  for (const slice of report.timeline) {
    if (sum <= total * 0.001) from = slice.at_ms;
    sum += answers(slice);
    to = slice.at_ms + report.slice_ms;
    if (sum >= total * 0.995) break;
  }
  const margin = Math.max(report.slice_ms * 2, (to - from) * 0.08);
  const step = report.slice_ms;
  const near: [number, number] = [
    Math.max(all[0], Math.floor((from - margin) / step) * step),
    Math.min(all[1], Math.ceil((to + margin) / step) * step),
  ];
  return near[1] - near[0] < 0.6 * (all[1] - all[0]) ? near : all;
}

const REQUESTS = ['sign_in', 'page', 'ticket', 'challenge', 'pass', 'order', 'pay', 'cancel'];

/** The kinds that were requested at all, in the order in which a buyer makes them. */
export function latencyRows(latency: Report['latency']): [kind: string, quantiles: Quantiles][] {
  const place = (kind: string) => (REQUESTS.includes(kind) ? REQUESTS.indexOf(kind) : REQUESTS.length);
  return Object.entries(latency)
    .filter(([, { count }]) => count > 0)
    .sort(([one], [other]) => place(one) - place(other));
}
