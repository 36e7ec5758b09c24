//! `penstock audit`: reads ledger and records, compares them, and reports the result in words. It changes
//! nothing and may run while a server does.

use std::fmt::Write as _;

use anyhow::{Context as _, anyhow, bail};
use penstock_ledger::{Health, embedded};
use penstock_records::{AuditReport, RecordsError};
use penstock_shop::{AuditError, audit};

use crate::{
    cluster,
    config::{Config, EngineKind},
    database, folder, options, output,
};

/// Prints the report. True: everything adds up.
pub(crate) async fn run(config: &Config, json: bool) -> anyhow::Result<bool> {
    let report = report(config).await?;
    output::result(json, &report, || in_words(&report))?;
    Ok(report.ok)
}

pub(crate) async fn report(config: &Config) -> anyhow::Result<AuditReport> {
    match config.engine {
        EngineKind::Embedded => of_folder(config).await,
        EngineKind::Cluster => of_cluster(config).await,
    }
}

async fn of_folder(config: &Config) -> anyhow::Result<AuditReport> {
    folder::require_readable(&config.data)?;
    let records = database::open_to_read(config).await?;
    let feed = embedded::read(&options::journal_folder(config)).context("the ledger can't be read")?;
    let report = audit(&feed, &records, u64::MAX).await;
    records.close().await;
    report.map_err(in_plain_words)
}

async fn of_cluster(config: &Config) -> anyhow::Result<AuditReport> {
    let (ledger, records) = cluster::open_ledger(config).await?;
    let report = match ledger.recovered().await {
        Health::Unavailable(reason) => bail!("the ledger can't be read: {reason}"),
        _ => audit(ledger.feed().as_ref(), &records, u64::MAX).await,
    };
    ledger.stop().await;
    records.close().await;
    report.map_err(in_plain_words)
}

/// Operators know of a database, not of "records".
fn in_plain_words(error: AuditError) -> anyhow::Error {
    match error {
        AuditError::Records(RecordsError::Unavailable(reason)) => {
            anyhow!("the database can't be reached, so there is nothing to compare with: {reason}")
        }
        other => other.into(),
    }
}

fn in_words(report: &AuditReport) -> String {
    let mut text = String::new();
    let verdict = if report.ok { "Everything adds up." } else { "It does NOT add up." };
    // Writing into a String can't fail.
    let _ = writeln!(text, "{verdict} Sales: {}, orders: {}.\n", report.sales, report.orders);
    let units = report.units;
    let rows: [(&str, i128); 11] = [
        ("units published", units.total.into()),
        ("units available", units.available.into()),
        ("units held", units.held.into()),
        ("units paid", units.paid.into()),
        ("oversold", report.oversold.into()),
        ("lost", report.lost.into()),
        ("duplicated", report.duplicated.into()),
        ("over the limit", report.over_limit.into()),
        ("dead letters", report.dead_letters.into()),
        ("not settled yet", report.pending.into()),
        ("decisions compared", report.position.into()),
    ];
    for (name, count) in rows {
        let _ = writeln!(text, "  {name:<20}{count:>12}");
    }
    for difference in &report.differences {
        let about = difference.order.as_deref().or(difference.sale.as_deref()).unwrap_or("ledger");
        let _ = write!(text, "\n{about}: {}", difference.what);
    }
    if report.more_differences > 0 {
        let _ = write!(text, "\n… and {} more differences", report.more_differences);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_database_that_is_down_is_reported_as_unreachable() {
        let down = AuditError::Records(RecordsError::Unavailable("connection refused".to_owned()));
        let said = format!("{:#}", in_plain_words(down));
        assert!(
            said.starts_with("the database can't be reached") && said.ends_with("connection refused"),
            "{said}"
        );
    }
}
