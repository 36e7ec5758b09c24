//! Compares the stock row of a sale with the ledger's status.

use penstock_domain::SaleStatus;
use sqlx::any::AnyRow;

use super::{
    finding::{Finding, SaleStanding},
    report::AuditReport,
    story::Unsettled,
};
use crate::{
    RecordsError, UnitCounts,
    columns::{flag, integer, optional_moment},
    connection::DatabaseConnection,
};

pub(super) async fn compare(
    connection: &mut DatabaseConnection,
    ledger: &SaleStatus,
    unsettled: &Unsettled<'_>,
    report: &mut AuditReport,
) -> Result<(), RecordsError> {
    let sale = ledger.terms.sale;
    let change = unsettled.change(sale);
    let query = sqlx::query("SELECT * FROM sale_stock WHERE sale_id = ?").bind(sale.as_i64());
    let rows = connection.rows(query).await?;
    let Some(row) = rows.first() else {
        if !change.published {
            report.differ(Some(sale), None, Finding::StockRowMissing);
        }
        return Ok(());
    };
    let mut here = UnitCounts::stored(row)?;
    here.add(unsettled.units(sale));
    let there = UnitCounts::of(ledger);
    if here != there {
        report.differ(Some(sale), None, Finding::StockRow { row: here, ledger: there });
    }
    let (paused, closed) = (flag(row, "paused")?, flag(row, "closed")?);
    let here = SaleStanding::of(change.paused.unwrap_or(paused), change.closed || closed);
    let there = SaleStanding::of(ledger.paused, ledger.closed);
    if here != there {
        report.differ(Some(sale), None, Finding::SaleStanding { ledger: there, row: here });
    }
    if !has_terms_of(row, ledger)? {
        report.differ(Some(sale), None, Finding::SaleTerms);
    }
    Ok(())
}

/// Compares the terms as they are stored, unparsed, because they may be wrong.
fn has_terms_of(row: &AnyRow, ledger: &SaleStatus) -> Result<bool, RecordsError> {
    let terms = &ledger.terms;
    let numbers = [terms.units, terms.limit_per_buyer, terms.hold_seconds].map(i64::from);
    let stored = [integer(row, "units")?, integer(row, "limit_per_buyer")?, integer(row, "hold_seconds")?];
    let times = [terms.opens_at, terms.closes_at];
    let stored_times = [optional_moment(row, "opens_at")?, optional_moment(row, "closes_at")?];
    Ok(stored == numbers && stored_times == times)
}
