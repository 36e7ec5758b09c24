//! The audit: ledger, stock log and orders have to tell the same story. It shares no rules with `Book` or
//! settlement, so that it doesn't share their mistakes.

mod finding;
mod ledger;
mod only_one;
mod report;
mod sale;
mod stock;
mod story;
mod waitlist;

use std::collections::{HashMap, HashSet};

pub use finding::{Finding, OrderTime, SaleStanding, Source, WaiterFound};
use only_one::Recorded;
use penstock_domain::{BookSnapshot, Cursor, Decision, SaleId};
pub use report::{AuditReport, Difference};
use sale::SaleAudit;
use story::Unsettled;

use crate::{
    DeadLetter, Records, RecordsError, Refusal, UnitCounts,
    columns::{integer, sale_id, text},
    connection::DatabaseConnection,
    dead_letters::read_letter,
    leases::read_cursor,
};

/// An audit under way: the ledger's streams are compared one after the other. Finally it names what only the
/// records know, as of the start of the audit.
#[derive(Debug)]
pub struct Audit {
    records: Records,
    forgetting: LedgerForgets,
    recorded: Recorded,
    report: AuditReport,
    in_ledger: HashSet<SaleId>,
    streams: HashSet<String>,
}

/// The records of one stream at one moment.
#[derive(Debug)]
pub struct StreamAudit {
    transaction: DatabaseConnection,
    stream: String,
    cursor: Cursor,
}

impl Records {
    /// Begins an audit. To audit a running ledger, begin, then list its streams. For each one, call
    /// `Audit::look`, take the stream's state, read the decisions after `StreamAudit::cursor` up to that
    /// state, and call `compare`. Finally call `finish`.
    pub async fn begin_audit(&self, forgetting: LedgerForgets) -> Result<Audit, RecordsError> {
        let mut transaction = self.snapshot().await?;
        let recorded = Recorded::load(&mut transaction, self.dialect, forgetting).await?;
        transaction.rollback().await?;
        Ok(Audit {
            records: self.clone(),
            forgetting,
            recorded,
            report: AuditReport::default(),
            in_ledger: HashSet::new(),
            streams: HashSet::new(),
        })
    }
}

/// Whether a ledger may forget a sale that is over and fully settled. Then only the records can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LedgerForgets {
    Never,
    Closed,
}

impl Audit {
    /// The current records of `stream`.
    pub async fn look(&self, stream: &str) -> Result<StreamAudit, RecordsError> {
        let mut transaction = self.records.snapshot().await?;
        let cursor = read_cursor(&mut transaction, stream).await?;
        Ok(StreamAudit { transaction, stream: stream.to_owned(), cursor })
    }

    /// Compares the ledger with what the records and the pending decisions say about a stream.
    pub async fn compare(
        &mut self,
        look: StreamAudit,
        ledger: &BookSnapshot,
        pending: &[Decision],
    ) -> Result<(), RecordsError> {
        if ledger.sales.is_empty() && self.forgetting == LedgerForgets::Closed {
            // Its sale was forgotten or never published; `finish` judges that.
            look.transaction.rollback().await?;
            return Ok(());
        }
        self.streams.insert(look.stream.clone());
        self.in_ledger.extend(ledger.sales.iter().map(|sale| sale.status.terms.sale));
        look.compare(ledger, pending, &mut self.report).await
    }

    /// Names what only one side knows, and returns the report.
    pub fn finish(self) -> AuditReport {
        let Self { recorded, forgetting, in_ledger, streams, mut report, .. } = self;
        recorded.name(&in_ledger, &streams, forgetting, &mut report);
        report.ok = report.differences.is_empty();
        report
    }
}

impl StreamAudit {
    /// How far the records are settled; later decisions are pending.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    async fn compare(
        mut self,
        ledger: &BookSnapshot,
        pending: &[Decision],
        report: &mut AuditReport,
    ) -> Result<(), RecordsError> {
        report.position += ledger.position;
        let pending: Vec<&Decision> = pending
            .iter()
            .filter(|decision| {
                decision.position > self.cursor.position && decision.position <= ledger.position
            })
            .collect();
        self.check_span(ledger.position, &pending, report);
        let letters = self.name_letters(report).await?;
        let put_aside = letters.iter().map(|letter| &letter.decision);
        let put_aside = put_aside.filter(|decision| decision.position <= ledger.position);
        // Dead letters are older than all pending decisions and are in the order of the feed.
        let unsettled = Unsettled::new(put_aside.chain(pending.iter().copied()));
        let mut logged = self.stock_log_sums(report).await?;
        for sale in &ledger.sales {
            let id = sale.status.terms.sale;
            report.sales += 1;
            report.orders += sale.orders.len() as u64;
            report.units.add(UnitCounts::of(&sale.status));
            let logged = logged.remove(&id).unwrap_or_default();
            SaleAudit { ledger: sale, unsettled: &unsettled, logged }
                .run(&mut self.transaction, report)
                .await?;
        }
        for sale in logged.into_keys() {
            report.differ(Some(sale), None, Finding::MovementsNotInLedger);
        }
        self.transaction.rollback().await?;
        Ok(())
    }

    /// Settled and pending decisions together have to be everything that the ledger decided.
    fn check_span(&self, head: u64, pending: &[&Decision], report: &mut AuditReport) {
        report.pending += pending.len() as u64;
        let settled = self.cursor.position;
        if settled > head {
            report.differ(None, None, Finding::SettledTooFar { settled, ledger: head });
        }
        let mut expected = settled + 1;
        for decision in pending {
            if decision.position != expected {
                name_gap(expected, decision.position - 1, report);
            }
            expected = decision.position + 1;
        }
        if expected <= head {
            name_gap(expected, head, report);
        }
    }

    async fn name_letters(&mut self, report: &mut AuditReport) -> Result<Vec<DeadLetter>, RecordsError> {
        let query = sqlx::query(
            "SELECT * FROM dead_letters WHERE resolved_at IS NULL AND stream = ? ORDER BY position",
        )
        .bind(self.stream.as_str());
        let letters = self.transaction.all(query, read_letter).await?;
        for letter in &letters {
            report.dead_letters += 1;
            let DeadLetter { id, decision, refusal, .. } = letter;
            let Refusal { cause, reason } = refusal.clone();
            let finding = Finding::DeadLetter { decision: decision.position, letter: *id, cause, reason };
            report.differ(Some(decision.event.sale()), letter.order(), finding);
        }
        Ok(letters)
    }

    async fn stock_log_sums(
        &mut self,
        report: &mut AuditReport,
    ) -> Result<HashMap<SaleId, UnitCounts>, RecordsError> {
        let query = sqlx::query(
            "SELECT sale_id, kind, CAST(SUM(units) AS SIGNED) AS units FROM stock_log WHERE stream = ? \
             GROUP BY sale_id, kind",
        )
        .bind(self.stream.as_str());
        let rows = self.transaction.rows(query).await?;
        let mut sums: HashMap<SaleId, UnitCounts> = HashMap::new();
        for row in &rows {
            let sale = sale_id(row)?;
            let movement = text(row, "kind")?;
            match story::movement(&movement, integer(row, "units")?) {
                Some(moved) => sums.entry(sale).or_default().add(moved),
                None => report.differ(Some(sale), None, Finding::UnknownMovement { movement }),
            }
        }
        Ok(sums)
    }
}

fn name_gap(first: u64, last: u64, report: &mut AuditReport) {
    report.differ(None, None, Finding::DecisionsMissing { first, last });
}
