//! How many people wait for a sale, as far as that is settled. The ledger knows who they are and in which
//! order.

use std::collections::HashMap;

use penstock_domain::SaleId;
use sqlx::AssertSqlSafe;

use crate::{Records, RecordsError, columns::integer};

impl Records {
    /// The lengths of these sales' waitlists; empty ones are left out.
    pub async fn waitlist_lengths(&self, sales: &[SaleId]) -> Result<HashMap<SaleId, u64>, RecordsError> {
        if sales.is_empty() {
            return Ok(HashMap::new());
        }
        let marks = vec!["?"; sales.len()].join(", ");
        let statement = AssertSqlSafe(format!(
            "SELECT sale_id, COUNT(*) AS waiting FROM waitlist WHERE sale_id IN ({marks}) GROUP BY sale_id"
        ));
        let query = sales.iter().fold(sqlx::query(statement), |query, sale| query.bind(sale.as_i64()));
        let rows = query.fetch_all(&mut self.reader().await?).await?;
        let length = |row| {
            let sale = SaleId::from_i64(integer(row, "sale_id")?);
            Ok((sale, integer(row, "waiting")?.unsigned_abs()))
        };
        rows.iter().map(length).collect()
    }
}
