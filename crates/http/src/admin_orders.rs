//! All orders, for the merchant.

use std::sync::Arc;

use axum::{extract::State, response::Response};
use penstock_domain::{BuyerId, OrderId, OrderState, SaleId};
use penstock_records::OrderFilter;
use serde::Deserialize;

use crate::{
    app::{Admin, App},
    json::{PageQuery, Query},
    orders::{page_response, render_rows},
    problem::Problem,
    wire::{OrderView, Page},
};

/// Which orders; nothing given means all.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct OrderQuery {
    /// Of this sale.
    sale: Option<String>,
    /// `held`, `paid`, `expired` or `cancelled`.
    state: Option<String>,
    /// Of this buyer: `account:…`, or the subject of a shop's token.
    buyer: Option<String>,
}

impl OrderQuery {
    fn filter(&self) -> Result<OrderFilter, Problem> {
        let sale = self.sale.as_ref().map(|sale| {
            sale.parse::<SaleId>().map_err(|_| Problem::invalid_field("sale", "is not the id of a sale"))
        });
        let state = self.state.as_ref().map(|state| {
            let states = "has to be held, paid, expired or cancelled";
            state.parse::<OrderState>().map_err(|_| Problem::invalid_field("state", states))
        });
        let buyer = self.buyer.as_deref().map(BuyerId::from_stored);
        Ok(OrderFilter { sale: sale.transpose()?, state: state.transpose()?, buyer })
    }
}

/// All orders that are settled
///
/// Newest first. What was accepted in the last moments may still be on its way from the ledger.
#[utoipa::path(get, path = "/api/v1/admin/orders", tag = "admin", params(OrderQuery, PageQuery),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = Page<OrderView>)))]
pub(crate) async fn list_orders(
    State(app): State<Arc<App>>,
    _admin: Admin,
    Query(query): Query<OrderQuery>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let limit = page.limit()?;
    let filter = query.filter()?;
    let mut rows = app.records.all_orders(&filter, page.after::<OrderId>()?, limit + 1).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.order.id.to_string());
    Ok(page_response(&render_rows(&app, rows).await?, next))
}
