//! Orders as they are settled. Before settlement, the ledger answers buyers.

use penstock_domain::{BuyerId, ItemId, KeyDigest, Money, Order, OrderId, OrderState, SaleId};
use sqlx::{Any, QueryBuilder, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{flag, integer, moment, money, optional_moment, sale_id, small, text},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OrderRow {
    pub order: Order,
    /// Copied from the sale when the order was settled.
    pub unit_price: Money,
    pub item_id: ItemId,
}

/// The orders that a merchant looks for; nothing set means all.
#[derive(Clone, Debug, Default)]
pub struct OrderFilter {
    pub sale: Option<SaleId>,
    pub state: Option<OrderState>,
    pub buyer: Option<BuyerId>,
    /// Only this one.
    pub order: Option<OrderId>,
}

/// No join: MariaDB would begin with the sales and sort all their orders for a single page.
const SELECT: &str =
    "SELECT o.*, (SELECT item_id FROM sales WHERE id = o.sale_id) AS item_id FROM orders o WHERE ";

impl Records {
    pub async fn order(&self, id: OrderId) -> Result<Option<OrderRow>, RecordsError> {
        let filter = OrderFilter { sale: Some(id.sale), order: Some(id), ..OrderFilter::default() };
        Ok(self.all_orders(&filter, None, 1).await?.pop())
    }

    /// A buyer's orders over all sales after the order `after`, newest first.
    pub async fn orders_of(
        &self,
        buyer: &BuyerId,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<OrderRow>, RecordsError> {
        let filter = OrderFilter { buyer: Some(buyer.clone()), ..OrderFilter::default() };
        self.all_orders(&filter, after, limit).await
    }

    /// Orders after the order `after`, newest first.
    pub async fn all_orders(
        &self,
        filter: &OrderFilter,
        after: Option<OrderId>,
        limit: u32,
    ) -> Result<Vec<OrderRow>, RecordsError> {
        let mut query = select_page(filter, after, limit);
        self.reader().await?.all(query.build(), read_order_row).await
    }
}

fn select_page(filter: &OrderFilter, after: Option<OrderId>, limit: u32) -> QueryBuilder<Any> {
    let mut query = QueryBuilder::<Any>::new(SELECT);
    query.push("1 = 1");
    if let Some(sale) = filter.sale {
        query.push(" AND o.sale_id = ").push_bind(sale.as_i64());
    }
    if let Some(state) = filter.state {
        query.push(" AND o.state = ").push_bind(state.as_str());
    }
    if let Some(buyer) = &filter.buyer {
        query.push(" AND o.buyer = ").push_bind(buyer.as_str());
    }
    if let Some(order) = filter.order {
        query.push(" AND o.sale_id = ").push_bind(order.sale.as_i64());
        query.push(" AND o.order_number = ").push_bind(i64::from(order.number));
    }
    if let Some(after) = after {
        push_after(&mut query, filter, after);
    }
    // Within one sale, the order of numbers is the order of time, and the primary key is sorted by it.
    query.push(if filter.sale.is_some() {
        " ORDER BY o.order_number DESC LIMIT "
    } else {
        " ORDER BY o.created_at DESC, o.sale_id DESC, o.order_number DESC LIMIT "
    });
    query.push_bind(i64::from(limit));
    query
}

/// Continues where the last page ended, by a range of the index that the page is sorted by.
fn push_after(query: &mut QueryBuilder<Any>, filter: &OrderFilter, after: OrderId) {
    let (sale, number) = (after.sale.as_i64(), i64::from(after.number));
    if filter.sale.is_some() {
        query.push(" AND o.order_number < ").push_bind(number);
        return;
    }
    let push_last_seen = |query: &mut QueryBuilder<Any>| {
        query.push("(SELECT created_at FROM orders WHERE sale_id = ").push_bind(sale);
        query.push(" AND order_number = ").push_bind(number).push(")");
    };
    // SQLite does not use an index range for alternatives, nor MariaDB for a comparison of rows; so the bound
    // is repeated on its own.
    query.push(" AND o.created_at <= ");
    push_last_seen(query);
    query.push(" AND (o.created_at < ");
    push_last_seen(query);
    query.push(" OR (o.created_at = ");
    push_last_seen(query);
    query.push(" AND (o.sale_id < ").push_bind(sale);
    query.push(" OR (o.sale_id = ").push_bind(sale);
    query.push(" AND o.order_number < ").push_bind(number).push("))))");
}

fn read_order_row(row: &AnyRow) -> Result<OrderRow, RecordsError> {
    let (order, _) = read_order(row)?;
    let unit_price = money(row, "unit_price_minor", "currency")?;
    Ok(OrderRow { order, unit_price, item_id: ItemId::from_i64(integer(row, "item_id")?) })
}

/// Reads a row of `orders` with its idempotency key.
pub(crate) fn read_order(row: &AnyRow) -> Result<(Order, KeyDigest), RecordsError> {
    let order = Order {
        id: OrderId { sale: sale_id(row)?, number: small(row, "order_number")? },
        buyer: BuyerId::from_stored(&text(row, "buyer")?),
        quantity: small(row, "quantity")?,
        state: read_state(row)?,
        created_at: moment(row, "created_at")?,
        pay_before: moment(row, "pay_before")?,
        paid_at: optional_moment(row, "paid_at")?,
        refund_due: flag(row, "refund_due")?,
    };
    let words = [integer(row, "key_high")? as u64, integer(row, "key_low")? as u64];
    Ok((order, KeyDigest::from_words(words)))
}

pub(crate) fn read_state(row: &AnyRow) -> Result<OrderState, RecordsError> {
    let state = text(row, "state")?;
    state.parse().map_err(|_| RecordsError::damaged(format!("an order's state is {state:?}")))
}

#[cfg(test)]
mod tests {
    use sqlx::{AssertSqlSafe, Row as _};

    use super::*;
    use crate::sqlite_url;

    #[tokio::test]
    async fn a_page_of_a_sqlite_file_is_a_range_of_an_index() {
        let folder = tempfile::tempdir().unwrap();
        let records = Records::open(&sqlite_url(&folder.path().join("records.db")), 1).await.unwrap();
        let sale = SaleId::from_random(1);
        let after = Some(OrderId { sale, number: 7 });
        let all = OrderFilter::default();
        let paid = OrderFilter { state: Some(OrderState::Paid), ..OrderFilter::default() };
        let of_sale = OrderFilter { sale: Some(sale), ..OrderFilter::default() };
        for (filter, range) in [
            (all, "SEARCH o USING INDEX orders_by_age (created_at<?)"),
            (paid, "SEARCH o USING INDEX orders_by_age (created_at<?)"),
            (of_sale, "SEARCH o USING INDEX sqlite_autoindex_orders_1 (sale_id=? AND order_number<?)"),
        ] {
            let query = select_page(&filter, after, 50);
            let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {}", query.sql().as_str()));
            let rows = records.reader().await.unwrap().rows(sqlx::query(explain)).await.unwrap();
            let steps: Vec<String> = rows.iter().map(|row| row.get("detail")).collect();
            assert!(steps.iter().any(|step| step == range), "{steps:?}");
            assert!(!steps.iter().any(|step| step.contains("TEMP B-TREE")), "{steps:?}");
        }
    }
}
