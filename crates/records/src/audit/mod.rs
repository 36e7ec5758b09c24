//! The audit: ledger, stock log and orders have to tell the same story. It is written apart from `Book` and
//! from settlement and shares none of their rules, so that it doesn't share their mistakes.

mod ledger;
mod report;
mod sale;
mod stock;
mod story;

use std::collections::HashMap;

use penstock_domain::{BookSnapshot, Cursor, Decision, SaleId};
pub use report::{AuditReport, Difference, UnitCounts};
use sale::SaleAudit;
use sqlx::{Any, Transaction};
use story::Unsettled;

use crate::{
    DeadLetter, Records, RecordsError,
    columns::{integer, text},
    dead_letters::read_letter,
    leases::read_cursor,
};

/// An audit under way. It sees the records as they were when it began, whatever is settled meanwhile.
#[derive(Debug)]
pub struct Audit {
    transaction: Transaction<'static, Any>,
    stream: String,
    cursor: Cursor,
}

impl Records {
    /// Begins an audit of `stream`. To audit a running ledger: begin, then take the ledger's state, then read
    /// the decisions after `Audit::cursor` up to that state, then `compare`.
    pub async fn begin_audit(&self, stream: &str) -> Result<Audit, RecordsError> {
        let mut transaction = self.readers.begin_with(self.dialect.begin_snapshot()).await?;
        let cursor = read_cursor(&mut transaction, stream).await?;
        Ok(Audit { transaction, stream: stream.to_owned(), cursor })
    }

    /// Audits in one step, when nothing is settled in the meantime. `pending` are the decisions after the
    /// settlement cursor up to the ledger's position; earlier ones are ignored.
    pub async fn audit(
        &self,
        stream: &str,
        ledger: &BookSnapshot,
        pending: &[Decision],
    ) -> Result<AuditReport, RecordsError> {
        self.begin_audit(stream).await?.compare(ledger, pending).await
    }
}

impl Audit {
    /// How far the records are settled; the decisions after it are pending.
    pub fn cursor(&self) -> Cursor {
        self.cursor
    }

    /// Compares what the records say, together with the pending decisions, with the ledger.
    pub async fn compare(
        mut self,
        ledger: &BookSnapshot,
        pending: &[Decision],
    ) -> Result<AuditReport, RecordsError> {
        let mut report = AuditReport { position: ledger.position, ..AuditReport::default() };
        let pending: Vec<&Decision> = pending
            .iter()
            .filter(|decision| {
                decision.position > self.cursor.position && decision.position <= ledger.position
            })
            .collect();
        self.check_span(ledger.position, &pending, &mut report);
        let letters = self.name_letters(&mut report).await?;
        let put_aside = letters.iter().map(|letter| &letter.decision);
        let put_aside = put_aside.filter(|decision| decision.position <= ledger.position);
        // Letters are older than whatever is pending, and come in the order of the feed.
        let unsettled = Unsettled::new(put_aside.chain(pending.iter().copied()));
        let mut logged = self.stock_log_sums(&mut report).await?;
        for sale in &ledger.sales {
            let id = sale.status.terms.sale;
            report.sales += 1;
            report.orders += sale.orders.len() as u64;
            report.units.add(ledger::counts(&sale.status));
            let logged = logged.remove(&id).unwrap_or_default();
            SaleAudit { ledger: sale, unsettled: &unsettled, logged }
                .run(&mut self.transaction, &mut report)
                .await?;
        }
        self.name_unknown_sales(ledger, logged, &mut report).await?;
        self.transaction.rollback().await?;
        report.ok = report.differences.is_empty();
        Ok(report)
    }

    /// Settled and pending decisions together have to be all that the ledger decided.
    fn check_span(&self, head: u64, pending: &[&Decision], report: &mut AuditReport) {
        report.pending = pending.len() as u64;
        let settled = self.cursor.position;
        if settled > head {
            let what =
                format!("The records have settled decision {settled}, but the ledger ends with {head}.");
            report.differ(None, None, what);
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
        let rows = sqlx::query(
            "SELECT * FROM dead_letters WHERE resolved_at IS NULL AND stream = ? ORDER BY position",
        )
        .bind(self.stream.as_str())
        .fetch_all(&mut *self.transaction)
        .await?;
        let letters: Vec<DeadLetter> = rows.iter().map(read_letter).collect::<Result<_, _>>()?;
        for letter in &letters {
            report.dead_letters += 1;
            let DeadLetter { id, decision, reason, .. } = letter;
            let what =
                format!("Decision {} is dead letter {id} and not settled: {reason}.", decision.position);
            report.differ(Some(decision.event.sale()), letter.order(), what);
        }
        Ok(letters)
    }

    async fn stock_log_sums(
        &mut self,
        report: &mut AuditReport,
    ) -> Result<HashMap<SaleId, UnitCounts>, RecordsError> {
        let rows = sqlx::query(
            "SELECT sale_id, kind, CAST(SUM(units) AS SIGNED) AS units FROM stock_log WHERE stream = ? \
             GROUP BY sale_id, kind",
        )
        .bind(self.stream.as_str())
        .fetch_all(&mut *self.transaction)
        .await?;
        let mut sums: HashMap<SaleId, UnitCounts> = HashMap::new();
        for row in &rows {
            let sale = SaleId::from_i64(integer(row, "sale_id")?);
            let kind = text(row, "kind")?;
            match story::movement(&kind, integer(row, "units")?) {
                Some(moved) => sums.entry(sale).or_default().add(moved),
                None => report.differ(Some(sale), None, format!("The stock log has movements {kind:?}.")),
            }
        }
        Ok(sums)
    }

    /// Sales that only the records know, and sales that only the ledger knows.
    async fn name_unknown_sales(
        &mut self,
        ledger: &BookSnapshot,
        logged: HashMap<SaleId, UnitCounts>,
        report: &mut AuditReport,
    ) -> Result<(), RecordsError> {
        let in_ledger: std::collections::HashSet<SaleId> =
            ledger.sales.iter().map(|sale| sale.status.terms.sale).collect();
        let mut in_records: HashMap<SaleId, bool> = HashMap::new();
        for row in sqlx::query("SELECT id, published_at FROM sales").fetch_all(&mut *self.transaction).await?
        {
            let published = crate::columns::optional_integer(&row, "published_at")?.is_some();
            in_records.insert(SaleId::from_i64(integer(&row, "id")?), published);
        }
        for sale in in_ledger.iter().filter(|sale| !in_records.contains_key(sale)) {
            report.differ(
                Some(*sale),
                None,
                format!("The ledger sells sale {sale}, which the records do not have."),
            );
        }
        for (sale, _) in
            in_records.iter().filter(|(sale, published)| **published && !in_ledger.contains(sale))
        {
            let what = format!("Sale {sale} is published in the records, but the ledger does not know it.");
            report.differ(Some(*sale), None, what);
        }
        for sale in logged.keys() {
            let what = format!("The stock log moves units of sale {sale}, which the ledger does not know.");
            report.differ(Some(*sale), None, what);
        }
        let rows = sqlx::query("SELECT sale_id, COUNT(*) AS orders FROM orders GROUP BY sale_id")
            .fetch_all(&mut *self.transaction)
            .await?;
        for row in &rows {
            let sale = SaleId::from_i64(integer(row, "sale_id")?);
            if !in_ledger.contains(&sale) {
                let orders = integer(row, "orders")?.unsigned_abs();
                report.extra += orders;
                let what = format!(
                    "The records have {orders} orders of sale {sale}, which the ledger does not know."
                );
                report.differ(Some(sale), None, what);
            }
        }
        Ok(())
    }
}

fn name_gap(first: u64, last: u64, report: &mut AuditReport) {
    let what = format!("Decisions {first} to {last} are neither settled nor in the feed.");
    report.differ(None, None, what);
}
