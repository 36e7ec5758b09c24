// The report of an audit, divided into the parts that the page shows.
import type { AuditReport, Difference } from '../../api/schema';

const COUNTS = ['oversold', 'lost', 'extra', 'duplicated', 'over_limit', 'dead_letters'] as const;
export type Count = (typeof COUNTS)[number];

/** The counts that should be 0 and are not. */
export function wrongCounts(report: AuditReport): [Count, number][] {
  return COUNTS.map((name): [Count, number] => [name, report[name]]).filter(([, count]) => count > 0);
}

/** The table of counts, in reading order. */
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
/** A sentence for every kind of difference, made from its values. */
export type Findings = { [K in Kind]: (found: ByKind[K]) => string };

/** A difference in words; an unknown kind gets the server's words. */
export function differenceInWords<K extends Kind>(say: Findings, found: ByKind[K] & { kind: K }): string {
  return found.kind in say ? say[found.kind](found) : found.what;
}

/** The message of the database or the settlement, untranslated. */
export function detailOf(found: Difference): string | undefined {
  if (found.kind === 'dead_letter') return found.reason;
  return found.kind === 'order_unreadable' ? found.error : undefined;
}
