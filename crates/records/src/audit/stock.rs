//! Compares the stock row of a sale with the ledger's status.

use penstock_domain::{SaleStatus, Timestamp};
use sqlx::any::AnyRow;

use super::{
    finding::{Finding, Standing},
    report::{AuditReport, UnitCounts},
    story::Unsettled,
};
use crate::{
    RecordsError,
    columns::{flag, integer, optional_moment},
    session::Session,
};

/// The row as stored, signed and unparsed, because it may be wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Terms {
    units: i64,
    limit_per_buyer: i64,
    hold_seconds: i64,
    opens_at: Option<Timestamp>,
    closes_at: Option<Timestamp>,
}

pub(super) async fn compare(
    connection: &mut Session,
    ledger: &SaleStatus,
    unsettled: &Unsettled<'_>,
    report: &mut AuditReport,
) -> Result<(), RecordsError> {
    let sale = ledger.terms.sale;
    let change = unsettled.change(sale);
    let row = sqlx::query("SELECT * FROM sale_stock WHERE sale_id = ?")
        .bind(sale.as_i64())
        .fetch_optional(&mut *connection)
        .await?;
    let Some(row) = row else {
        if !change.published {
            report.differ(Some(sale), None, Finding::StockRowMissing);
        }
        return Ok(());
    };
    let mut here = read_counts(&row)?;
    here.add(unsettled.units(sale));
    let there = super::ledger::counts(ledger);
    if here != there {
        report.differ(Some(sale), None, Finding::StockRow { row: here, ledger: there });
    }
    let (paused, closed) = (flag(&row, "paused")?, flag(&row, "closed")?);
    let here = Standing::of(change.paused.unwrap_or(paused), change.closed || closed);
    let there = Standing::of(ledger.paused, ledger.closed);
    if here != there {
        report.differ(Some(sale), None, Finding::SaleStanding { ledger: there, row: here });
    }
    if read_terms(&row)? != terms_of(ledger) {
        report.differ(Some(sale), None, Finding::SaleTerms);
    }
    Ok(())
}

fn read_counts(row: &AnyRow) -> Result<UnitCounts, RecordsError> {
    Ok(UnitCounts {
        total: integer(row, "total")?,
        available: integer(row, "remaining")?,
        held: integer(row, "held")?,
        paid: integer(row, "paid")?,
    })
}

fn read_terms(row: &AnyRow) -> Result<Terms, RecordsError> {
    Ok(Terms {
        units: integer(row, "units")?,
        limit_per_buyer: integer(row, "limit_per_buyer")?,
        hold_seconds: integer(row, "hold_seconds")?,
        opens_at: optional_moment(row, "opens_at")?,
        closes_at: optional_moment(row, "closes_at")?,
    })
}

fn terms_of(ledger: &SaleStatus) -> Terms {
    Terms {
        units: i64::from(ledger.terms.units),
        limit_per_buyer: i64::from(ledger.terms.limit_per_buyer),
        hold_seconds: i64::from(ledger.terms.hold_seconds),
        opens_at: ledger.terms.opens_at,
        closes_at: ledger.terms.closes_at,
    }
}
