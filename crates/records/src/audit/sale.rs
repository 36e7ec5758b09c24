//! Audits one sale order by order: the ledger's orders against the rows of `orders` and the movements in the
//! stock log. It works page by page, so that a sale of a million orders needs no more memory than a small
//! one.

use std::collections::BTreeMap;

use penstock_domain::{OrderId, SaleId, SaleSnapshot, SnapshotOrder};
use sqlx::{AssertSqlSafe, any::AnyRow};

use super::{
    finding::{Finding, Source},
    ledger::{self, OwnedUnits, name_over_limit, oversold},
    report::AuditReport,
    stock,
    story::{self, Movements, Unsettled},
    waitlist,
};
use crate::{
    RecordsError, UnitCounts,
    columns::{integer, text},
    connection::DatabaseConnection,
    orders::read_order,
};

/// Orders compared at a time.
const PAGE: usize = 5_000;

/// Everything known about the orders of one page.
type EvidencePage = BTreeMap<u32, Evidence>;

#[derive(Debug, Default)]
struct Evidence {
    record: Option<SnapshotOrder>,
    movements: Movements,
}

pub(super) struct SaleAudit<'a> {
    pub(super) ledger: &'a SaleSnapshot,
    pub(super) unsettled: &'a Unsettled<'a>,
    /// What the stock log adds up to.
    pub(super) logged: UnitCounts,
}

impl SaleAudit<'_> {
    pub(super) async fn run(
        &self,
        connection: &mut DatabaseConnection,
        report: &mut AuditReport,
    ) -> Result<(), RecordsError> {
        let id = self.id();
        let (named, oversold_there) = ledger::check(self.ledger, report);
        let counts = UnitCounts::of(&self.ledger.status);
        let mut owned = OwnedUnits::default();
        for orders in self.ledger.orders.chunks(PAGE) {
            let (Some(first), Some(last)) = (orders.first(), orders.last()) else { break };
            let numbers = [first, last].map(|order| i64::from(order.order.id.number));
            let are_here = "order_number >= ? AND order_number <= ?";
            let mut page = self.load(connection, are_here, &numbers, i64::MAX, report).await?;
            for ledger in orders {
                let entry = page.remove(&ledger.order.id.number).unwrap_or_default();
                self.compare(ledger, entry, &mut owned, report);
            }
        }
        self.name_extra(connection, &mut owned, report).await?;
        if (owned.held, owned.paid) != (counts.held, counts.paid) {
            let OwnedUnits { held, paid, .. } = owned;
            let (ledger_held, ledger_paid) = (counts.held, counts.paid);
            let finding = Finding::RecordedOrders { held, paid, ledger_held, ledger_paid };
            report.differ(Some(id), None, finding);
        }
        let mut log = self.logged;
        log.add(self.unsettled.units(id));
        if log != counts {
            report.differ(Some(id), None, Finding::StockLog { log, ledger: counts });
        }
        stock::compare(connection, &self.ledger.status, self.unsettled, report).await?;
        waitlist::compare(connection, self.ledger, self.unsettled, report).await?;
        let oversold_here = oversold(id, Source::Records, &owned, counts.total, report);
        report.oversold += oversold_there.max(oversold_here);
        name_over_limit(id, &owned, self.ledger.status.terms.limit_per_buyer, &named, report);
        Ok(())
    }

    fn id(&self) -> SaleId {
        self.ledger.status.terms.sale
    }

    /// Reads at most `limit` rows and movements of the orders that fulfil a condition.
    async fn load(
        &self,
        connection: &mut DatabaseConnection,
        condition: &str,
        parameters: &[i64],
        limit: i64,
        report: &mut AuditReport,
    ) -> Result<EvidencePage, RecordsError> {
        let bound = |query: String| {
            let query = sqlx::query(AssertSqlSafe(query)).bind(self.id().as_i64());
            parameters.iter().fold(query, |query, parameter| query.bind(*parameter)).bind(limit)
        };
        let mut page = EvidencePage::new();
        let records = bound(format!("SELECT * FROM orders WHERE sale_id = ? AND {condition} LIMIT ?"));
        self.add_records(&mut page, &connection.rows(records).await?, report);
        let movements = bound(format!(
            "SELECT order_number, kind, COUNT(*) AS movements, CAST(SUM(units) AS SIGNED) AS units \
             FROM stock_log WHERE sale_id = ? AND {condition} GROUP BY order_number, kind LIMIT ?"
        ));
        self.add_movements(&mut page, &connection.rows(movements).await?, report)?;
        Ok(page)
    }

    fn add_records(&self, page: &mut EvidencePage, rows: &[AnyRow], report: &mut AuditReport) {
        for row in rows {
            match read_order(row) {
                Ok((order, key)) => {
                    let entry = page.entry(order.id.number).or_default();
                    entry.record = Some(SnapshotOrder { order, key });
                }
                Err(error) => {
                    let error = error.to_string();
                    report.differ(Some(self.id()), None, Finding::OrderUnreadable { error });
                }
            }
        }
    }

    fn add_movements(
        &self,
        page: &mut EvidencePage,
        rows: &[AnyRow],
        report: &mut AuditReport,
    ) -> Result<(), RecordsError> {
        for row in rows {
            let stored = integer(row, "order_number")?;
            let Ok(number) = u32::try_from(stored) else {
                report.differ(Some(self.id()), None, Finding::NoOrderNumber { number: stored });
                continue;
            };
            let movement = text(row, "kind")?;
            let entry = page.entry(number).or_default();
            if !entry.movements.add_logged(&movement, integer(row, "movements")?, integer(row, "units")?) {
                let order = OrderId { sale: self.id(), number };
                report.differ(None, Some(order), Finding::UnknownMovement { movement });
            }
        }
        Ok(())
    }

    /// Compares one order of the ledger with what the records and the unsettled decisions say about it.
    fn compare(
        &self,
        ledger: &SnapshotOrder,
        mut entry: Evidence,
        owned: &mut OwnedUnits,
        report: &mut AuditReport,
    ) {
        let id = ledger.order.id;
        self.catch_up(id, &mut entry, report);
        let Evidence { record, movements } = entry;
        match &record {
            None => {
                report.lost += 1;
                report.differ(None, Some(id), Finding::OrderLost);
            }
            Some(record) => {
                owned.count(record);
                for finding in story::compare(ledger, record) {
                    report.differ(None, Some(id), finding);
                }
            }
        }
        if movements.holds > 1 {
            report.duplicated += 1;
            report.differ(None, Some(id), Finding::HeldTwice { times: movements.holds });
        }
        let expected = Movements::expected(&ledger.order);
        let moved = movements.units;
        if moved != expected && movements.holds <= 1 {
            let state = ledger.order.state.as_str();
            let (units, UnitCounts { held, paid, .. }) = (ledger.order.quantity, moved);
            report.differ(None, Some(id), Finding::OrderMovements { state, units, held, paid });
        }
    }

    /// Applies the unsettled decisions to the records' version of the order.
    fn catch_up(&self, id: OrderId, entry: &mut Evidence, report: &mut AuditReport) {
        for decision in self.unsettled.of(id) {
            entry.movements.add_unsettled(decision);
            let hold_seconds = self.ledger.status.terms.hold_seconds;
            if let Err(finding) = story::tell(&mut entry.record, decision, hold_seconds) {
                report.differ(None, Some(id), finding);
            }
        }
    }

    /// Names orders that the records or the feed have and the ledger does not know. One page of them is
    /// enough to see that something is wrong.
    async fn name_extra(
        &self,
        connection: &mut DatabaseConnection,
        owned: &mut OwnedUnits,
        report: &mut AuditReport,
    ) -> Result<(), RecordsError> {
        let known = i64::try_from(self.ledger.orders.len()).unwrap_or(i64::MAX);
        let are_extra = "(order_number < 0 OR order_number >= ?)";
        let mut page = self.load(connection, are_extra, &[known], PAGE as i64, report).await?;
        for number in self.unsettled.numbers(self.id(), u32::try_from(known).unwrap_or(u32::MAX)) {
            page.entry(number).or_default();
        }
        for (number, mut entry) in page {
            let id = OrderId { sale: self.id(), number };
            self.catch_up(id, &mut entry, report);
            report.extra += 1;
            let by = if entry.record.is_some() { Source::Records } else { Source::StockLog };
            report.differ(None, Some(id), Finding::OrderNotInLedger { by });
            if let Some(record) = &entry.record {
                owned.count(record);
            }
        }
        Ok(())
    }
}
