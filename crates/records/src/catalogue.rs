//! Items and sales as the merchant wrote them. Only the ledger knows what is left of a sale's stock.

use penstock_domain::{GateTerms, ItemId, Money, SaleId, SaleTerms, Timestamp};
use serde::{Deserialize, Serialize};
use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{integer, moment, money, optional_moment, optional_text, small, text},
    connection::Statement,
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
        let insert = sqlx::query(
            "INSERT INTO items (id, title, description, picture, regular_price_minor, currency, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(item.id.as_i64());
        self.writer().await?.change(bind_item(insert, item).bind(item.created_at.as_millis())).await?;
        Ok(())
    }

    /// Replaces everything but the id and the time of creation. False: there is no such item.
    pub async fn update_item(&self, item: &Item) -> Result<bool, RecordsError> {
        let update = sqlx::query(
            "UPDATE items SET title = ?, description = ?, picture = ?, regular_price_minor = ?, currency = ? \
             WHERE id = ?",
        );
        Ok(self.writer().await?.change(bind_item(update, item).bind(item.id.as_i64())).await? == 1)
    }

    pub async fn item(&self, id: ItemId) -> Result<Option<Item>, RecordsError> {
        let query = sqlx::query("SELECT * FROM items WHERE id = ?").bind(id.as_i64());
        self.reader().await?.one(query, read_item).await
    }

    /// Items after the item `after`, newest first.
    pub async fn items(&self, after: Option<ItemId>, limit: u32) -> Result<Vec<Item>, RecordsError> {
        self.page("items", "1 = 1", after.map(ItemId::as_i64), limit, read_item).await
    }

    /// Stores a draft, including `published_at` as it is.
    pub async fn create_sale(&self, sale: &SaleRow) -> Result<(), RecordsError> {
        let insert = sqlx::query(
            "INSERT INTO sales (id, item_id, price_minor, currency, units, limit_per_buyer, opens_at, \
             closes_at, hold_seconds, gate, published_at, created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(sale.id.as_i64());
        let insert = bind_draft(insert, sale)?
            .bind(sale.published_at.map(Timestamp::as_millis))
            .bind(sale.created_at.as_millis());
        self.writer().await?.change(insert).await?;
        Ok(())
    }

    pub async fn sale(&self, id: SaleId) -> Result<Option<SaleRow>, RecordsError> {
        self.reader().await?.one(select_sale(id), read_sale).await
    }

    /// Sales after the sale `after`, newest first; all of them or only the published ones.
    pub async fn sales(
        &self,
        published_only: bool,
        after: Option<SaleId>,
        limit: u32,
    ) -> Result<Vec<SaleRow>, RecordsError> {
        let condition = if published_only { "published_at IS NOT NULL" } else { "1 = 1" };
        self.page("sales", condition, after.map(SaleId::as_i64), limit, read_sale).await
    }

    /// Records when the sale was published; only the first time counts. False: there is no such sale.
    pub async fn mark_published(&self, id: SaleId, now: Timestamp) -> Result<bool, RecordsError> {
        let update = sqlx::query("UPDATE sales SET published_at = COALESCE(published_at, ?) WHERE id = ?")
            .bind(now.as_millis())
            .bind(id.as_i64());
        Ok(self.writer().await?.change(update).await? == 1)
    }

    /// One page of a table that has `created_at` and `id`, newest first. `table` and `condition` are never
    /// user input.
    async fn page<T>(
        &self,
        table: &'static str,
        condition: &'static str,
        after: Option<i64>,
        limit: u32,
        read: fn(&AnyRow) -> Result<T, RecordsError>,
    ) -> Result<Vec<T>, RecordsError> {
        let last_seen = format!("(SELECT created_at FROM {table} WHERE id = ?)");
        // The bound is repeated on its own, because SQLite does not use an index range for alternatives.
        let is_after = match after {
            Some(_) => format!(
                "AND created_at <= {last_seen} AND (created_at < {last_seen} \
                 OR (created_at = {last_seen} AND id < ?))"
            ),
            None => String::new(),
        };
        let query = AssertSqlSafe(format!(
            "SELECT * FROM {table} WHERE {condition} {is_after} ORDER BY created_at DESC, id DESC LIMIT ?"
        ));
        let query = after
            .into_iter()
            .flat_map(|after| [after; 4])
            .fold(sqlx::query(query), |query, after| query.bind(after));
        self.reader().await?.all(query.bind(i64::from(limit)), read).await
    }
}

/// Binds what can change of an item.
fn bind_item<'q>(statement: Statement<'q>, item: &'q Item) -> Statement<'q> {
    statement
        .bind(item.title.as_str())
        .bind(item.description.as_str())
        .bind(item.picture.as_deref())
        .bind(item.regular_price.minor)
        .bind(item.regular_price.currency.as_str())
}

/// Binds what can change of a draft.
pub(crate) fn bind_draft<'q>(
    statement: Statement<'q>,
    sale: &'q SaleRow,
) -> Result<Statement<'q>, RecordsError> {
    Ok(statement
        .bind(sale.item_id.as_i64())
        .bind(sale.price.minor)
        .bind(sale.price.currency.as_str())
        .bind(i64::from(sale.units))
        .bind(i64::from(sale.limit_per_buyer))
        .bind(sale.opens_at.map(Timestamp::as_millis))
        .bind(sale.closes_at.map(Timestamp::as_millis))
        .bind(i64::from(sale.hold_seconds))
        .bind(serde_json::to_string(&sale.gate).map_err(RecordsError::damaged)?))
}

pub(crate) fn select_sale<'q>(id: SaleId) -> Statement<'q> {
    sqlx::query("SELECT * FROM sales WHERE id = ?").bind(id.as_i64())
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
