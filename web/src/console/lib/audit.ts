// The report of an audit, in the parts that the page shows.
import type { AuditReport, Difference } from '../../api/schema';

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

export type Kind = Difference['kind'];
type ByKind = { [K in Kind]: Extract<Difference, { kind: K }> };
/** A sentence for every kind of difference, of the values that come with it. */
export type Findings = { [K in Kind]: (found: ByKind[K]) => string };

/** A difference in words; one that is new here has the server's. */
export function differenceInWords<K extends Kind>(say: Findings, found: ByKind[K] & { kind: K }): string {
  return found.kind in say ? say[found.kind](found) : found.what;
}

/** What the database or the settlement said of it, which is in no language of ours. */
export function detailOf(found: Difference): string | undefined {
  if (found.kind === 'dead_letter') return found.reason;
  return found.kind === 'order_unreadable' ? found.error : undefined;
}
