//! Sales: viewing, publishing and steering them.

use std::{future::Future, sync::Arc};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use hyper::header::CONTENT_TYPE;
use penstock_domain::{SaleId, SaleRefusal, SaleStatus, Timestamp};
use penstock_ledger::LedgerError;
use penstock_records::{ChangeDraftError, Item, SaleRow};
use penstock_shop::{
    Code, SaleMissing, Shop, housekeeping::waitlists, ports::Change, storefront::Shelf, waiting_rooms,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::{buyer::sales, caller::Admin},
    contract::{
        answer::APPLICATION_JSON,
        json::{Json, PageQuery, PathId, Query},
        page::{self, SalePage},
        problem::Problem,
        refusals::refusals,
        wire::{Rfc3339, SaleView, sale_body},
        words::SaleStateWord,
    },
};

/// List all sales, including drafts
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/admin/sales", tag = "admin", params(PageQuery),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SalePage)),
    extensions(("x-refusals" = json!(refusals!(Admin, Query<PageQuery>)))))]
pub(crate) async fn list_all_sales(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let limit = page.limit()?;
    let mut rows = shop.records.sales(false, page.after()?, limit + 1).await?;
    let has_more = rows.len() > limit as usize;
    rows.truncate(limit as usize);
    let next = rows.last().filter(|_| has_more).map(|row| row.id.to_string());
    let now = shop.now();
    let mut bodies = Vec::with_capacity(rows.len());
    for row in rows {
        bodies.push(body_of(&shop, row.id, now).await?);
    }
    Ok(page::whole(bodies, next))
}

/// Get a sale or a draft
#[utoipa::path(get, path = "/api/v1/admin/sales/{id}", tag = "admin", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, SaleMissing)))))]
pub(crate) async fn get_any_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
) -> Result<Response, Problem> {
    respond(&shop, id).await
}

/// The sale as buyers see it, or the draft.
async fn body_of(shop: &Shop, id: SaleId, now: Timestamp) -> Result<Vec<u8>, Problem> {
    match shop.storefront.with_sale(id, now, |sale| sale_body(sale, now)) {
        Some(body) => Ok(body),
        None => Ok(sale_body(&sales::from_records(shop, id).await?, now)),
    }
}

async fn respond(shop: &Shop, id: SaleId) -> Result<Response, Problem> {
    let body = body_of(shop, id, shop.now()).await?;
    Ok(([(CONTENT_TYPE, APPLICATION_JSON)], body).into_response())
}

/// Publish a sale
///
/// Loads its stock into the ledger. From then on its terms are fixed. Publishing twice changes nothing. A
/// draft whose closing time has passed is refused.
#[utoipa::path(post, path = "/api/v1/admin/sales/{id}/publish", tag = "admin", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, LedgerError<SaleRefusal>)))))]
pub(crate) async fn publish_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
) -> Result<Response, Problem> {
    refuse_if_over(&shop, id).await?;
    // From the records, because it may have been drafted on another node a moment ago. From here on its terms
    // are fixed: the ledger must be told the same terms as the records have, even if this is interrupted.
    let row = shop.records.fix_terms(id, shop.now()).await?.ok_or(Code::SaleNotFound)?;
    // Show the details first: when the ledger announces the sale, every node must have something to show.
    // Mark it in the records last; if that fails, publishing again does it.
    let shelf = put_up(&shop, &row).await?;
    // The hash of the draw's seed must be public before anybody takes a ticket.
    waiting_rooms::open(&shop, &shelf).await.map_err(|error| {
        tracing::error!(%error, sale = %id, "the waiting room can't be opened");
        Problem::with_detail(Code::Unavailable, "The waiting room can't be opened at the moment.")
    })?;
    // The other nodes show it, too, before the ledger tells them about it.
    shop.options.neighbours.tell(Change::Sale(id)).await;
    shop.ledger.publish(row.terms()).await?;
    if !shop.records.mark_published(id, shop.now()).await? {
        return Err(Code::SaleNotFound.into());
    }
    respond(&shop, id).await
}

/// Nobody wants to publish a sale in which nobody could ever buy. Only a draft is refused. If publishing was
/// interrupted or is requested twice, it goes on however late it is.
async fn refuse_if_over(shop: &Shop, id: SaleId) -> Result<(), Problem> {
    let row = shop.records.sale(id).await?.ok_or(Code::SaleNotFound)?;
    if row.closes_at.is_none_or(|closes_at| shop.now() < closes_at) {
        return Ok(());
    }
    let refused =
        shop.records.change_draft(id, |_| Err(Problem::invalid_field("closes_at", "is in the past")));
    match refused.await {
        Ok(_) | Err(ChangeDraftError::Fixed) => Ok(()),
        Err(ChangeDraftError::Unknown) => Err(Code::SaleNotFound.into()),
        Err(ChangeDraftError::Refused(problem)) => Err(problem),
        Err(ChangeDraftError::Records(error)) => Err(error.into()),
    }
}

/// Shows the sale here, and puts it where the other nodes can find it.
async fn put_up(shop: &Shop, row: &SaleRow) -> Result<Arc<Shelf>, Problem> {
    let _turn = shop.refreshing.lock().await;
    let item: Item = shop.records.item(row.item_id).await?.ok_or(Code::Internal)?;
    shop.catalogue.preload(row, &item).await;
    Ok(shop.storefront.put(row.clone(), item))
}

/// Asks the ledger to change a published sale.
async fn steer(
    shop: &Shop,
    id: SaleId,
    change: impl Future<Output = Result<SaleStatus, LedgerError<SaleRefusal>>>,
) -> Result<Response, Problem> {
    match change.await {
        Ok(_) => respond(shop, id).await,
        // The ledger does not know drafts, but the records do.
        Err(LedgerError::Refused(SaleRefusal::UnknownSale)) => {
            shop.records.sale(id).await?.ok_or(Code::SaleNotFound)?;
            Err(Code::NotPublished.into())
        }
        Err(error) => Err(error.into()),
    }
}

/// Pause a sale
///
/// New orders are refused until it is resumed. Accepted orders can still be paid.
#[utoipa::path(post, path = "/api/v1/admin/sales/{id}/pause", tag = "admin", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, LedgerError<SaleRefusal>)))))]
pub(crate) async fn pause_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
) -> Result<Response, Problem> {
    steer(&shop, id, shop.ledger.pause(id)).await
}

/// Resume a paused sale
#[utoipa::path(post, path = "/api/v1/admin/sales/{id}/resume", tag = "admin", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, LedgerError<SaleRefusal>)))))]
pub(crate) async fn resume_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
) -> Result<Response, Problem> {
    steer(&shop, id, shop.ledger.resume(id)).await
}

/// Close a sale for good
#[utoipa::path(post, path = "/api/v1/admin/sales/{id}/close", tag = "admin", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, LedgerError<SaleRefusal>)))))]
pub(crate) async fn close_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
) -> Result<Response, Problem> {
    steer(&shop, id, shop.ledger.close(id)).await
}

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RestockRequest {
    /// Units to add.
    #[schema(minimum = 1, maximum = 100_000_000)]
    units: u32,
}

/// Add units to a sale
#[utoipa::path(post, path = "/api/v1/admin/sales/{id}/restock", tag = "admin", params(("id" = String, Path)),
    request_body = RestockRequest, security(("bearer" = []), ("session" = [])),
    responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, Json<RestockRequest>, LedgerError<SaleRefusal>)))))]
pub(crate) async fn restock_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
    Json(request): Json<RestockRequest>,
) -> Result<Response, Problem> {
    if request.units == 0 {
        return Err(Problem::invalid_field("units", "has to be at least 1"));
    }
    steer(&shop, id, shop.ledger.restock(id, request.units)).await
}

/// The counts of a sale according to the ledger. `total = available + held + paid`.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct SaleStats {
    sale_id: String,
    #[schema(value_type = SaleStateWord)]
    state: &'static str,
    total: u32,
    available: u32,
    held: u32,
    paid: u32,
    /// Passes that buyers hold: neither used nor expired.
    passes_live: u64,
    /// People in the waiting room who are present and whose turn has not come.
    waiting: u64,
    /// People on the waitlist, as far as it is settled; empty while the records are unavailable.
    waitlist: Option<u64>,
    /// Grows with every change.
    version: u64,
    #[schema(value_type = String, format = DateTime)]
    server_time: Rfc3339,
}

/// Get the counts of a sale
#[utoipa::path(get, path = "/api/v1/admin/sales/{id}/stats", tag = "admin", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = SaleStats)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>; NotPublished)))))]
pub(crate) async fn sale_stats(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
) -> Result<axum::Json<SaleStats>, Problem> {
    let shelf = shop.storefront.shelf(id);
    let Some((shelf, status)) = shelf.and_then(|shelf| shelf.status().map(|status| (shelf, status))) else {
        return Err(sales::uncounted(&shop, id).await);
    };
    let now = shop.now();
    let gate = shelf.gate_figures(now);
    let state = status.state(now);
    let waitlist = waitlists::length_of(&shop, id, state).await;
    Ok(axum::Json(SaleStats {
        sale_id: id.to_string(),
        state: state.as_str(),
        total: status.total,
        available: status.available,
        held: status.held,
        paid: status.paid,
        passes_live: gate.passes_live,
        waiting: gate.waiting,
        waitlist,
        version: status.version,
        server_time: Rfc3339(now),
    }))
}
