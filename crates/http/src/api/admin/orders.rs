//! All orders, for the merchant: as a list to search, and as a table to download.

use std::sync::Arc;

use axum::{
    body::Body,
    extract::State,
    response::{IntoResponse, Response},
};
use futures_util::{TryStreamExt as _, stream};
use hyper::header::{CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_TYPE, HeaderValue};
use penstock_domain::{BuyerId, OrderId, OrderState, SaleId};
use penstock_records::{OrderFilter, OrderRow};
use penstock_shop::{Code, Shop, identity::Phone};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{admin::order_table::OrderTable, buyer::orders::render_rows, caller::Admin},
    contract::{
        json::{PageQuery, Query},
        page::{self, Page},
        problem::Problem,
        refusals::refusals,
        wire::{OrderView, Rfc3339},
        words::OrderStateWord,
    },
};

/// The most orders of a table in memory at once.
const TABLE_PAGE: u32 = 500;
const TABLE: HeaderValue = HeaderValue::from_static("text/csv; charset=utf-8");

/// Which orders; all of them if nothing is given.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderQuery {
    /// The id of an order, a sale or an account, a buyer, or the phone of an account in any notation.
    q: Option<String>,
    /// Only orders of this sale.
    sale: Option<String>,
    /// Only orders in this state.
    #[param(value_type = Option<OrderStateWord>)]
    state: Option<String>,
    /// Only orders of this buyer: `account:…`, or the subject of a shop's token.
    buyer: Option<String>,
}

impl OrderQuery {
    async fn filter(&self, shop: &Shop) -> Result<OrderFilter, Problem> {
        let sale = self.sale.as_ref().map(|sale| {
            sale.parse::<SaleId>().map_err(|_| Problem::invalid_field("sale", "is not the id of a sale"))
        });
        let state = self.state.as_ref().map(|state| {
            let states = "has to be held, paid, expired or cancelled";
            state.parse::<OrderState>().map_err(|_| Problem::invalid_field("state", states))
        });
        let buyer = self.buyer.as_deref().map(BuyerId::from_stored);
        let mut filter =
            OrderFilter { sale: sale.transpose()?, state: state.transpose()?, buyer, order: None };
        let Some(sought) = self.q.as_deref().map(str::trim).filter(|sought| !sought.is_empty()) else {
            return Ok(filter);
        };
        if filter.buyer.is_some() {
            return Err(Problem::invalid_field("q", "can't be given together with buyer"));
        }
        if let Ok(order) = sought.parse()
            && shop.records.order(order).await?.is_some()
        {
            filter.order = Some(order);
        } else if let Ok(sale) = sought.parse()
            && filter.sale.is_none_or(|other| other == sale)
            && shop.records.sale(sale).await?.is_some()
        {
            filter.sale = Some(sale);
        } else {
            filter.buyer = Some(buyer_called(shop, sought).await?);
        }
        Ok(filter)
    }
}

/// The buyer whose account has this phone or this id; otherwise the buyer of this name.
async fn buyer_called(shop: &Shop, sought: &str) -> Result<BuyerId, Problem> {
    if let Ok(Phone { mut forms, .. }) =
        Phone::of_account(sought, None, shop.options.identity.default_country)
    {
        // In a URL, a plus means a space, and people easily leave it out.
        forms.extend(forms.first().map(|written| format!("+{}", written.trim_start_matches('+'))));
        if let [account, ..] = shop.records.accounts_by_phone(&forms).await?.as_slice() {
            return Ok(BuyerId::of_account(account.id));
        }
    }
    if let Ok(id) = sought.parse()
        && let Some(account) = shop.records.account(id).await?
    {
        return Ok(BuyerId::of_account(account.id));
    }
    Ok(BuyerId::from_stored(sought))
}

/// An order as a merchant sees it.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = AdminOrder)]
pub(crate) struct AdminOrderView {
    #[serde(flatten)]
    order: OrderView,
    /// `account:…`, or the subject of a shop's token.
    buyer: String,
    /// It was paid after the last unit was gone: the money has to go back.
    refund_due: bool,
}

type AdminOrderPage = Page<AdminOrderView>;

/// Adds the fields that only the merchant sees to an order's JSON. It already says so if a refund is due.
fn with_buyer(mut body: Vec<u8>, buyer: &BuyerId, refund_due: bool) -> Vec<u8> {
    body.pop();
    let buyer = serde_json::to_string(buyer.as_str()).unwrap_or_default();
    let refund = if refund_due { "" } else { r#","refund_due":false"# };
    body.extend_from_slice(format!(r#","buyer":{buyer}{refund}}}"#).as_bytes());
    body
}

/// List all settled orders
///
/// Newest first. An order that was accepted a moment ago may still be missing: it is on its way from the
/// ledger.
#[utoipa::path(get, path = "/api/v1/admin/orders", tag = "admin", params(OrderQuery, PageQuery),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = AdminOrderPage)),
    extensions(("x-refusals" = json!(refusals!(Admin, Query<OrderQuery>)))))]
pub(crate) async fn list_all_orders(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    Query(query): Query<OrderQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let limit = page.limit()?;
    let filter = query.filter(&shop).await?;
    let mut rows = shop.records.all_orders(&filter, page.after::<OrderId>()?, limit + 1).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.order.id.to_string());
    let private: Vec<(BuyerId, bool)> =
        rows.iter().map(|row| (row.order.buyer.clone(), row.order.refund_due)).collect();
    let bodies = render_rows(&shop, rows).await?.into_iter().zip(&private);
    let bodies: Vec<Vec<u8>> =
        bodies.map(|(body, (buyer, refund_due))| with_buyer(body, buyer, *refund_due)).collect();
    Ok(page::whole(bodies, next))
}

/// Download all settled orders as a table
///
/// CSV in UTF-8, newest first, with one line of headings. If a title or a buyer contains something that a
/// spreadsheet would take for a formula, whether it separates cells by commas, semicolons or tabs, an
/// apostrophe precedes it.
#[utoipa::path(get, path = "/api/v1/admin/orders.csv", tag = "admin", params(OrderQuery),
    security(("bearer" = []), ("session" = [])),
    responses((status = 200, body = String, content_type = "text/csv")),
    extensions(("x-refusals" = json!(refusals!(Admin, Query<OrderQuery>)))))]
pub(crate) async fn export_orders(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    Query(query): Query<OrderQuery>,
) -> Result<Response, Problem> {
    let filter = query.filter(&shop).await?;
    // The first page is read before the answer begins, so that a failure can still be reported as one.
    let first = Export { after: None, filter, shop: Arc::clone(&shop) }.next().await?;
    let pages = stream::try_unfold(Some(first), |page| async move {
        let Some((text, rest)) = page else { return Ok(None) };
        let next = match rest {
            Some(rest) => Some(rest.next().await.map_err(|_| BrokenOff)?),
            None => None,
        };
        Ok::<_, BrokenOff>(Some((text, next)))
    });
    let day = Rfc3339(shop.now()).to_string();
    let name = format!("attachment; filename=\"orders-{}.csv\"", day.split('T').next().unwrap_or_default());
    let name = HeaderValue::try_from(name).map_err(|_| Code::Internal)?;
    let headers = [
        (CONTENT_TYPE, TABLE),
        (CONTENT_DISPOSITION, name),
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
    ];
    Ok((headers, Body::from_stream(pages.into_stream())).into_response())
}

/// A table that is cut off must not look complete, so the connection breaks off as well.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the orders can't be read any further")]
struct BrokenOff;

/// The part of a table that is still to be written.
struct Export {
    shop: Arc<Shop>,
    filter: OrderFilter,
    /// The last order that was written.
    after: Option<OrderId>,
}

impl Export {
    /// The next piece of the table, and the part after it.
    async fn next(mut self) -> Result<(Vec<u8>, Option<Self>), Problem> {
        let rows = self.shop.records.all_orders(&self.filter, self.after, TABLE_PAGE).await?;
        let mut table = if self.after.is_none() { OrderTable::begin() } else { OrderTable::go_on() };
        for row in &rows {
            table.add(row, &self.title_of(row).await?);
        }
        let is_last = rows.len() < TABLE_PAGE as usize;
        self.after = rows.last().map(|row| row.order.id);
        Ok((table.finish(), Some(self).filter(|_| !is_last)))
    }

    async fn title_of(&self, row: &OrderRow) -> Result<String, Problem> {
        let item = self.shop.catalogue.item(row.item_id).await?.ok_or(Code::Internal)?;
        Ok(item.title.clone())
    }
}
