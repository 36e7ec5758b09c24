// The report of an audit, in the parts that the page shows.
import type { AuditReport } from '../../api/schema';

const COUNTS = ['oversold', 'lost', 'extra', 'duplicated', 'over_limit', 'dead_letters'] as const;
export type Count = (typeof COUNTS)[number];

/** What is not 0 and should be. */
export function wrongCounts(report: AuditReport): [Count, number][] {
  return COUNTS.map((name): [Count, number] => [name, report[name]]).filter(([, count]) => count > 0);
}

/** The table of numbers, in the order in which one reads them. */
export function auditRows(report: AuditReport) {
  const { units } = report;
  return [
    ['sales', report.sales],
    ['orders', report.orders],
    ['total', units.total],
    ['available', units.available],
    ['held', units.held],
    ['paid', units.paid],
    ...COUNTS.filter((name) => name !== 'dead_letters').map((name) => [name, report[name]] as const),
    ['dead_letters', report.dead_letters],
    ['pending', report.pending],
    ['position', report.position],
  ] as const;
}

/** What differs, of the more telling first: a sentence may fit several. The server gives a sentence only, and in English. */
const KINDS = [
  ['dead_letter', /\bdead letters?\b/],
  ['oversold', /is oversold by/],
  ['over_limit', /but the limit is/],
  ['waitlist', /waits for sale|on the waitlist of/],
  ['duplicated', /is the second one|held \d+ times|records have already/],
  ['lost', /is lost:|records do not have|has no stock row/],
  ['extra', /ledger does not (know|have)/],
  ['decisions', /have settled decision|neither settled nor/],
  ['terms', /in its stock row/],
  ['counts', /add(s)? up|stock row of sale .* says/],
  ['order', /\border \S+ (is|to be|in the place)/i],
] as const;
export type DifferenceKind = (typeof KINDS)[number][0] | 'other';

export function kindOf(sentence: string): DifferenceKind {
  return KINDS.find(([, pattern]) => pattern.test(sentence))?.[0] ?? 'other';
}
