//! `penstock audit`: reads ledger and records, compares them, and says in words what came of it.
//! It changes nothing and may run beside a server.

use std::{fmt::Write as _, time::Duration};

use anyhow::{Context as _, bail};
use penstock_ledger::{decisions_between, embedded};
use penstock_records::{AuditReport, Records};

use crate::{config::Config, database, folder, options, output};

/// A running server may forget decisions between two of our looks; then we look again.
const MAX_LOOKS: u32 = 50;
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(50);

/// Prints the report. True: everything adds up.
pub(crate) async fn run(config: &Config, json: bool) -> anyhow::Result<bool> {
    let report = report(config).await?;
    if json {
        output::json(&report)?
    } else {
        output::write(&in_words(&report))?
    }
    Ok(report.ok)
}

pub(crate) async fn report(config: &Config) -> anyhow::Result<AuditReport> {
    folder::require_readable(&config.data)?;
    let records = database::open_to_read(config).await?;
    let report = look_until_consistent(config, &records).await;
    records.close().await;
    report
}

async fn look_until_consistent(config: &Config, records: &Records) -> anyhow::Result<AuditReport> {
    let mut trouble = String::new();
    for _ in 0..MAX_LOOKS {
        match look(config, records).await? {
            Ok(report) => return Ok(report),
            Err(moved) => trouble = moved,
        }
        tokio::time::sleep(LOOK_AGAIN_AFTER).await;
    }
    bail!("no consistent view in {MAX_LOOKS} looks: {trouble}")
}

/// One look. The inner error says what moved meanwhile.
async fn look(config: &Config, records: &Records) -> anyhow::Result<Result<AuditReport, String>> {
    // The cursor is read first: the ledger's state can then only be at it or past it.
    let audit = records.begin_audit(embedded::STREAM).await?;
    let cursor = audit.cursor();
    let (snapshot, feed) =
        embedded::read_state(&options::journal_folder(config)).context("the ledger can't be read")?;
    match decisions_between(&feed, embedded::STREAM, cursor, snapshot.position).await {
        Ok(pending) => Ok(Ok(audit.compare(&snapshot, &pending).await?)),
        Err(error) => Ok(Err(error.to_string())),
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
