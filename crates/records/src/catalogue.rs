//! Items and sales as the merchant wrote them. Only the ledger knows what is left of a sale's stock.

use penstock_domain::{GateTerms, ItemId, Money, SaleId, SaleTerms, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{integer, moment, money, optional_moment, optional_text, small, text},
    session::Session,
};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Item {
    pub id: ItemId,
    pub title: String,
    pub description: String,
    pub picture: Option<String>,
    pub regular_price: Money,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SaleRow {
    pub id: SaleId,
    pub item_id: ItemId,
    pub price: Money,
    /// As drafted; restocks are in the ledger and in the stock log.
    pub units: u32,
    pub limit_per_buyer: u32,
    pub opens_at: Option<Timestamp>,
    pub closes_at: Option<Timestamp>,
    pub hold_seconds: u32,
    pub gate: GateTerms,
    pub published_at: Option<Timestamp>,
    pub created_at: Timestamp,
}

impl SaleRow {
    /// The terms that the ledger needs.
    pub fn terms(&self) -> SaleTerms {
        SaleTerms {
            sale: self.id,
            units: self.units,
            limit_per_buyer: self.limit_per_buyer,
            opens_at: self.opens_at,
            closes_at: self.closes_at,
            hold_seconds: self.hold_seconds,
        }
    }
}

impl Records {
    pub async fn create_item(&self, item: &Item) -> Result<(), RecordsError> {
        sqlx::query(
            "INSERT INTO items (id, title, description, picture, regular_price_minor, currency, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(item.id.as_i64())
        .bind(item.title.as_str())
        .bind(item.description.as_str())
        .bind(item.picture.as_deref())
        .bind(item.regular_price.minor)
        .bind(item.regular_price.currency.as_str())
        .bind(item.created_at.as_millis())
        .execute(&mut self.writer().await?)
        .await?;
        Ok(())
    }

    /// Replaces everything but the id and the time of creation. False: there is no such item.
    pub async fn update_item(&self, item: &Item) -> Result<bool, RecordsError> {
        let update = sqlx::query(
            "UPDATE items SET title = ?, description = ?, picture = ?, regular_price_minor = ?, currency = ? \
             WHERE id = ?",
        )
        .bind(item.title.as_str())
        .bind(item.description.as_str())
        .bind(item.picture.as_deref())
        .bind(item.regular_price.minor)
        .bind(item.regular_price.currency.as_str())
        .bind(item.id.as_i64())
        .execute(&mut self.writer().await?)
        .await?;
        Ok(update.rows_affected() == 1)
    }

    pub async fn item(&self, id: ItemId) -> Result<Option<Item>, RecordsError> {
        let row = sqlx::query("SELECT * FROM items WHERE id = ?")
            .bind(id.as_i64())
            .fetch_optional(&mut self.reader().await?)
            .await?;
        row.as_ref().map(read_item).transpose()
    }

    /// Items after the item `after`, newest first.
    pub async fn items(&self, after: Option<ItemId>, limit: u32) -> Result<Vec<Item>, RecordsError> {
        let rows =
            page(&mut self.reader().await?, "items", "1 = 1", after.map(ItemId::as_i64), limit).await?;
        rows.iter().map(read_item).collect()
    }

    /// Stores a draft, including `published_at` as it is.
    pub async fn create_sale(&self, sale: &SaleRow) -> Result<(), RecordsError> {
        sqlx::query(
            "INSERT INTO sales (id, item_id, price_minor, currency, units, limit_per_buyer, opens_at, \
             closes_at, hold_seconds, gate, published_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(sale.id.as_i64())
        .bind(sale.item_id.as_i64())
        .bind(sale.price.minor)
        .bind(sale.price.currency.as_str())
        .bind(i64::from(sale.units))
        .bind(i64::from(sale.limit_per_buyer))
        .bind(sale.opens_at.map(Timestamp::as_millis))
        .bind(sale.closes_at.map(Timestamp::as_millis))
        .bind(i64::from(sale.hold_seconds))
        .bind(gate_text(&sale.gate)?)
        .bind(sale.published_at.map(Timestamp::as_millis))
        .bind(sale.created_at.as_millis())
        .execute(&mut self.writer().await?)
        .await?;
        Ok(())
    }

    pub async fn sale(&self, id: SaleId) -> Result<Option<SaleRow>, RecordsError> {
        let row = sqlx::query("SELECT * FROM sales WHERE id = ?")
            .bind(id.as_i64())
            .fetch_optional(&mut self.reader().await?)
            .await?;
        row.as_ref().map(read_sale).transpose()
    }

    /// Sales after the sale `after`, newest first; all of them or only the published ones.
    pub async fn sales(
        &self,
        published_only: bool,
        after: Option<SaleId>,
        limit: u32,
    ) -> Result<Vec<SaleRow>, RecordsError> {
        let condition = if published_only { "published_at IS NOT NULL" } else { "1 = 1" };
        let rows =
            page(&mut self.reader().await?, "sales", condition, after.map(SaleId::as_i64), limit).await?;
        rows.iter().map(read_sale).collect()
    }

    /// Records when the sale was published; only the first time counts. False: there is no such sale.
    pub async fn mark_published(&self, id: SaleId, now: Timestamp) -> Result<bool, RecordsError> {
        let update = sqlx::query("UPDATE sales SET published_at = COALESCE(published_at, ?) WHERE id = ?")
            .bind(now.as_millis())
            .bind(id.as_i64())
            .execute(&mut self.writer().await?)
            .await?;
        Ok(update.rows_affected() == 1)
    }
}

/// One page of a table that has `created_at` and `id`, newest first. `table` and `condition` are never user
/// input.
async fn page(
    connection: &mut Session,
    table: &'static str,
    condition: &'static str,
    after: Option<i64>,
    limit: u32,
) -> Result<Vec<AnyRow>, RecordsError> {
    let order = "ORDER BY created_at DESC, id DESC LIMIT ?";
    let Some(after) = after else {
        let first = AssertSqlSafe(format!("SELECT * FROM {table} WHERE {condition} {order}"));
        return Ok(sqlx::query(first).bind(i64::from(limit)).fetch_all(connection).await?);
    };
    let last_seen = format!("(SELECT created_at FROM {table} WHERE id = ?)");
    // The bound is repeated on its own, because SQLite does not use an index range for alternatives.
    let next = AssertSqlSafe(format!(
        "SELECT * FROM {table} WHERE {condition} AND created_at <= {last_seen} AND (created_at < {last_seen} \
         OR (created_at = {last_seen} AND id < ?)) {order}"
    ));
    Ok(sqlx::query(next)
        .bind(after)
        .bind(after)
        .bind(after)
        .bind(after)
        .bind(i64::from(limit))
        .fetch_all(connection)
        .await?)
}

fn read_item(row: &AnyRow) -> Result<Item, RecordsError> {
    Ok(Item {
        id: ItemId::from_i64(integer(row, "id")?),
        title: text(row, "title")?,
        description: text(row, "description")?,
        picture: optional_text(row, "picture")?,
        regular_price: money(row, "regular_price_minor", "currency")?,
        created_at: moment(row, "created_at")?,
    })
}

pub(crate) fn gate_text(gate: &GateTerms) -> Result<String, RecordsError> {
    serde_json::to_string(gate).map_err(RecordsError::damaged)
}

pub(crate) fn read_sale(row: &AnyRow) -> Result<SaleRow, RecordsError> {
    Ok(SaleRow {
        id: SaleId::from_i64(integer(row, "id")?),
        item_id: ItemId::from_i64(integer(row, "item_id")?),
        price: money(row, "price_minor", "currency")?,
        units: small(row, "units")?,
        limit_per_buyer: small(row, "limit_per_buyer")?,
        opens_at: optional_moment(row, "opens_at")?,
        closes_at: optional_moment(row, "closes_at")?,
        hold_seconds: small(row, "hold_seconds")?,
        gate: serde_json::from_str(&text(row, "gate")?).map_err(RecordsError::damaged)?,
        published_at: optional_moment(row, "published_at")?,
        created_at: moment(row, "created_at")?,
    })
}
