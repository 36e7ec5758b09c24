//! The rows of orders inserted without settlement's batches, as a shop would that writes each order by
//! itself.

use std::time::Instant;

use penstock_domain::{Decision, Event};
use sqlx::{AnyConnection, Connection, Executor};
use tokio::task::JoinSet;

/// What a settler without batches would do: insert the rows of one order after the other, singly or the three
/// of an order in one transaction, on several connections. The tables are like ours, and nothing is read
/// first. Returns rows per second, and removes the rows again.
pub(super) async fn insert_singly(
    url: &str,
    holds: &[Decision],
    connections: usize,
    transactions: bool,
) -> anyhow::Result<f64> {
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(AnyConnection::connect(url).await?);
    }
    let mut inserting = JoinSet::new();
    let begin = Instant::now();
    for (connection, holds) in opened.into_iter().zip(holds.chunks(holds.len().div_ceil(connections))) {
        inserting.spawn(insert_holds(connection, holds.to_vec(), transactions));
    }
    while let Some(inserted) = inserting.join_next().await {
        inserted??;
    }
    let seconds = begin.elapsed().as_secs_f64();
    let mut connection = AnyConnection::connect(url).await?;
    for statement in ["DELETE FROM outbox", "DELETE FROM stock_log", "DELETE FROM orders"] {
        connection.execute(statement).await?;
    }
    connection.close().await?;
    Ok((holds.len() * 3) as f64 / seconds)
}

async fn insert_holds(
    mut connection: AnyConnection,
    holds: Vec<Decision>,
    transactions: bool,
) -> anyhow::Result<()> {
    for decision in &holds {
        if transactions {
            let mut transaction = connection.begin().await?;
            insert_hold(&mut transaction, decision).await?;
            transaction.commit().await?;
        } else {
            insert_hold(&mut connection, decision).await?;
        }
    }
    Ok(())
}

async fn insert_hold(connection: &mut AnyConnection, decision: &Decision) -> anyhow::Result<()> {
    let Event::Held { order, buyer, quantity, key } = &decision.event else { return Ok(()) };
    let [key_high, key_low] = key.words();
    let (position, at) = (decision.position as i64, decision.at.as_millis());
    sqlx::query("INSERT INTO orders VALUES (?, ?, ?, ?, 1990, 'EUR', 'held', ?, ?, NULL, 0, ?, ?)")
        .bind(order.sale.as_i64())
        .bind(i64::from(order.number))
        .bind(buyer.as_str())
        .bind(i64::from(*quantity))
        .bind(at)
        .bind(at)
        .bind(key_high as i64)
        .bind(key_low as i64)
        .execute(&mut *connection)
        .await?;
    sqlx::query("INSERT INTO stock_log VALUES (?, ?, ?, ?, 'hold', ?, ?)")
        .bind("ledger")
        .bind(position)
        .bind(order.sale.as_i64())
        .bind(i64::from(order.number))
        .bind(i64::from(*quantity))
        .bind(at)
        .execute(&mut *connection)
        .await?;
    let payload = serde_json::to_string(decision)?;
    sqlx::query("INSERT INTO outbox VALUES (?, ?, 'order.held', ?, ?, NULL)")
        .bind("ledger")
        .bind(position)
        .bind(payload)
        .bind(at)
        .execute(&mut *connection)
        .await?;
    Ok(())
}
