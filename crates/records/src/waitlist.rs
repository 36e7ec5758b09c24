//! How many people wait for a sale, as far as that is settled. The ledger knows who they are and in which
//! order.

use std::collections::HashMap;

use penstock_domain::SaleId;
use sqlx::AssertSqlSafe;

use crate::{
    Records, RecordsError,
    columns::{natural, sale_id},
};

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
        let lengths =
            self.reader().await?.all(query, |row| Ok((sale_id(row)?, natural(row, "waiting")?))).await?;
        Ok(lengths.into_iter().collect())
    }
}
