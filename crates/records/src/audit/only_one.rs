//! What only the ledger knows, and what only the records know. A ledger may have forgotten sales that are
//! closed and fully settled; then the records have to add up by themselves.

use std::collections::{HashMap, HashSet};

use penstock_domain::{OrderState, SaleId};
use sqlx::{AssertSqlSafe, any::AnyRow};

use super::{Finding, LedgerForgets, report::AuditReport, story};
use crate::{
    RecordsError, UnitCounts,
    columns::{flag, integer, natural, optional_integer, sale_id, text},
    connection::DatabaseConnection,
    dialect::Dialect,
};

/// What the records say about sales, without the ledger.
#[derive(Debug)]
pub(super) struct Recorded {
    sales: HashMap<SaleId, RecordedSale>,
    /// Unresolved dead letters by stream.
    letters: Vec<(String, u64)>,
}

#[derive(Debug, Default)]
struct RecordedSale {
    /// True if it has its own row; orders may exist without it.
    exists: bool,
    published: bool,
    /// The stock row, if there is one, and whether the sale is over.
    stock: Option<(UnitCounts, bool)>,
    /// Read only for sales that may be forgotten.
    logged: UnitCounts,
    orders: u64,
    held: i64,
    paid: i64,
}

impl Recorded {
    pub(super) async fn load(
        connection: &mut DatabaseConnection,
        dialect: Dialect,
        forgetting: LedgerForgets,
    ) -> Result<Self, RecordsError> {
        let mut sales = HashMap::new();
        load_sales(connection, dialect, &mut sales).await?;
        load_orders(connection, &mut sales).await?;
        if forgetting == LedgerForgets::Closed {
            load_movements(connection, &mut sales).await?;
        }
        let letters =
            "SELECT stream, COUNT(*) AS letters FROM dead_letters WHERE resolved_at IS NULL GROUP BY stream";
        let read = |row: &AnyRow| Ok((text(row, "stream")?, natural(row, "letters")?));
        let letters = connection.all(sqlx::query(letters), read).await?;
        Ok(Self { sales, letters })
    }

    pub(super) fn name(
        &self,
        in_ledger: &HashSet<SaleId>,
        streams: &HashSet<String>,
        forgetting: LedgerForgets,
        report: &mut AuditReport,
    ) {
        for sale in in_ledger.iter().filter(|sale| !self.sales.get(sale).is_some_and(|sale| sale.exists)) {
            report.differ(Some(*sale), None, Finding::SaleNotInRecords);
        }
        let mut only_here: Vec<_> = self.sales.iter().filter(|(sale, _)| !in_ledger.contains(sale)).collect();
        only_here.sort_by_key(|(sale, _)| **sale);
        for (sale, recorded) in only_here {
            match recorded.stock {
                Some((counts, true)) if forgetting == LedgerForgets::Closed && counts.held == 0 => {
                    vouch(*sale, recorded, counts, report);
                }
                _ => name_unknown(*sale, recorded, report),
            }
        }
        // Dead letters of streams that were not compared are unresolved, too.
        for (stream, letters) in self.letters.iter().filter(|(stream, _)| !streams.contains(stream)) {
            report.dead_letters += letters;
            let (letters, stream) = (*letters, stream.clone());
            report.differ(None, None, Finding::LettersOfUnknownStream { letters, stream });
        }
    }
}

fn name_unknown(sale: SaleId, recorded: &RecordedSale, report: &mut AuditReport) {
    if recorded.published {
        report.differ(Some(sale), None, Finding::SaleNotInLedger);
    }
    if recorded.orders > 0 {
        let orders = recorded.orders;
        report.extra += orders;
        report.differ(Some(sale), None, Finding::OrdersNotInLedger { orders });
    }
}

/// The ledger has forgotten the sale: stock row, stock log and orders have to agree without it.
fn vouch(sale: SaleId, recorded: &RecordedSale, row: UnitCounts, report: &mut AuditReport) {
    report.sales += 1;
    report.orders += recorded.orders;
    report.units.add(row);
    if !row.is_conserved() {
        report.differ(Some(sale), None, Finding::PastStockRow { row });
    }
    if recorded.logged != row {
        report.differ(Some(sale), None, Finding::PastStockLog { log: recorded.logged, row });
    }
    if (recorded.held, recorded.paid) != (row.held, row.paid) {
        let (held, paid) = (recorded.held, recorded.paid);
        report.differ(Some(sale), None, Finding::PastOrders { held, paid, row });
    }
    let over = recorded.held + recorded.paid - row.total;
    report.oversold += over.max(0).unsigned_abs();
}

async fn load_sales(
    connection: &mut DatabaseConnection,
    dialect: Dialect,
    sales: &mut HashMap<SaleId, RecordedSale>,
) -> Result<(), RecordsError> {
    let now = dialect.now_millis();
    let query = format!(
        "SELECT s.id AS sale_id, s.published_at, k.total, k.remaining, k.held, k.paid, \
         CASE WHEN k.closed = 1 OR k.closes_at <= {now} THEN 1 ELSE 0 END AS is_over \
         FROM sales s LEFT JOIN sale_stock k ON k.sale_id = s.id"
    );
    for row in connection.rows(sqlx::query(AssertSqlSafe(query))).await? {
        let recorded = sales.entry(sale_id(&row)?).or_default();
        recorded.exists = true;
        recorded.published = optional_integer(&row, "published_at")?.is_some();
        if optional_integer(&row, "total")?.is_some() {
            recorded.stock = Some((UnitCounts::stored(&row)?, flag(&row, "is_over")?));
        }
    }
    Ok(())
}

async fn load_orders(
    connection: &mut DatabaseConnection,
    sales: &mut HashMap<SaleId, RecordedSale>,
) -> Result<(), RecordsError> {
    let query = "SELECT sale_id, state, COUNT(*) AS orders, CAST(SUM(quantity) AS SIGNED) AS units FROM orders \
                 GROUP BY sale_id, state";
    for row in connection.rows(sqlx::query(query)).await? {
        let recorded = sales.entry(sale_id(&row)?).or_default();
        recorded.orders += natural(&row, "orders")?;
        match text(&row, "state")?.as_str() {
            state if state == OrderState::Held.as_str() => recorded.held += integer(&row, "units")?,
            state if state == OrderState::Paid.as_str() => recorded.paid += integer(&row, "units")?,
            _ => {}
        }
    }
    Ok(())
}

async fn load_movements(
    connection: &mut DatabaseConnection,
    sales: &mut HashMap<SaleId, RecordedSale>,
) -> Result<(), RecordsError> {
    let query = "SELECT l.sale_id, l.kind, CAST(SUM(l.units) AS SIGNED) AS units FROM stock_log l \
                 JOIN sale_stock k ON k.sale_id = l.sale_id WHERE k.held = 0 AND (k.closed = 1 OR k.closes_at IS NOT NULL) \
                 GROUP BY l.sale_id, l.kind";
    for row in connection.rows(sqlx::query(query)).await? {
        let sale = sale_id(&row)?;
        // A movement of an unknown kind counts for nothing, so the log will not add up.
        if let Some(moved) = story::movement(&text(&row, "kind")?, integer(&row, "units")?) {
            sales.entry(sale).or_default().logged.add(moved);
        }
    }
    Ok(())
}
