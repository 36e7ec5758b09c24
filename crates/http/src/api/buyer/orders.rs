//! Orders: placing, reading, paying and cancelling them. The ledger decides and is asked first; the records
//! only know settled orders.

use std::{
    num::NonZeroU32,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use axum::{
    Extension,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use hyper::{
    HeaderMap, StatusCode,
    header::{CONTENT_TYPE, HeaderName},
};
use penstock_domain::{Accepted, CancelRefusal, KeyDigest, OrderId, PaymentRefusal, SaleId};
use penstock_records::OrderRow;
use penstock_shop::{
    Code, Shop,
    gate::Peer,
    orders::{Attempt, ClaimRequest, FoundOrder, OrderError, OrderRefusal},
    storefront::{Details, Shelf},
    tally::{CountedClaim, Outcome, Tally},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    api::{
        caller::Credentials,
        visit::{Acting, Looking},
    },
    contract::{
        answer::{APPLICATION_JSON, CountAs},
        json::{self, PageQuery, PathId, Query},
        page::{self, OrderPage},
        problem::{Problem, panicked},
        refusals::refusals,
        wire::{OrderView, order_body, order_form},
    },
};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const PENSTOCK_PASS: HeaderName = HeaderName::from_static("penstock-pass");

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    /// The number of units.
    #[schema(value_type = u32, minimum = 1, example = 1)]
    pub(crate) quantity: NonZeroU32,
}

/// A claim as it came, in whatever way it was read.
pub(crate) struct ClaimRead<'a> {
    pub(crate) request: ClaimRequest<'a>,
    pub(crate) credentials: Credentials<'a>,
    pub(crate) is_json: bool,
    /// Or why it could not be read.
    pub(crate) body: Result<&'a [u8], Problem>,
}

/// Checks a claim; every order is placed this way.
pub(crate) fn check(shop: &Shop, shelf: &Arc<Shelf>, claim: ClaimRead<'_>) -> Result<Attempt, Problem> {
    let ClaimRead { request, credentials, is_json, body } = claim;
    let identify = || Ok(credentials.caller(shop, true, request.now)?.buyer()?);
    let read = || {
        if !is_json {
            return Err(Code::UnsupportedMediaType.into());
        }
        json::parse(body?).map(|OrderRequest { quantity }| quantity)
    };
    let checked = catch_unwind(AssertUnwindSafe(|| shop.check_claim(shelf, request, identify, read)));
    checked.unwrap_or_else(|_| Err(panicked()))
}

/// Place an order
///
/// An accepted order is a hold: its units are yours until `pay_before`. Send a new random `Idempotency-Key`
/// with each order. A retry with the same key gets the first answer again.
#[utoipa::path(post, path = "/api/v1/sales/{id}/orders", tag = "orders",
    params(("id" = String, Path, description = "The sale"), 
        ("Idempotency-Key" = String, Header, description = "New and random for each order, the same for each retry",
            pattern = "^[!-~]{1,128}$"),
        ("Penstock-Pass" = Option<String>, Header, description = "Required if the sale's gate needs a pass")),
    request_body = OrderRequest, security(("bearer" = []), ("session" = [])),
    responses((status = 201, body = OrderView)),
    extensions(("x-refusals" = json!(refusals!(Acting, PathId<SaleId>, json::Json<OrderRequest>, OrderRefusal; IdempotencyKeyRequired, IdempotencyKeyInvalid)))))]
pub(crate) async fn place_order(
    State(shop): State<Arc<Shop>>,
    Extension(tally): Extension<Arc<Tally>>,
    PathId(sale): PathId<SaleId>,
    peer: Peer,
    request: Request,
) -> Result<Response, Problem> {
    let shelf = shop.storefront.shelf(sale).ok_or_else(|| shop.missing_sale())?;
    let counted = CountedClaim::new(Arc::clone(shelf.tallies.of(&tally)));
    let decided = decide(&shop, &shelf, peer, request).await;
    let outcome = outcome_of(&decided);
    counted.answered(outcome);
    let (accepted, details) = decided?;
    let order = order_body(&details.order_form, &accepted.order);
    let mut response = (StatusCode::CREATED, [(CONTENT_TYPE, APPLICATION_JSON)], order).into_response();
    response.extensions_mut().insert(CountAs(outcome));
    Ok(response)
}

/// A claim that is not plain, and therefore came by hyper.
async fn decide(
    shop: &Shop,
    shelf: &Arc<Shelf>,
    peer: Peer,
    request: Request,
) -> Result<(Accepted, Arc<Details>), Problem> {
    let (parts, body) = request.into_parts();
    let headers = &parts.headers;
    let body = match json::read_body(body).await {
        // If the request did not arrive in time, nothing else of it is checked.
        Err(problem) if problem.code == Code::RequestTimeout => return Err(problem),
        body => body,
    };
    let key = headers.get(IDEMPOTENCY_KEY).ok_or(Code::IdempotencyKeyRequired)?;
    let key = KeyDigest::of(key.as_bytes()).map_err(|_| Code::IdempotencyKeyInvalid)?;
    let claim = ClaimRead {
        request: ClaimRequest { key, pass: only(headers, &PENSTOCK_PASS), peer, now: shop.now() },
        credentials: Credentials::read(headers),
        is_json: json::expect_json(headers).is_ok(),
        body: body.as_deref().map_err(Problem::clone),
    };
    Ok(check(shop, shelf, claim)?.decide(shop).await?)
}

/// How to count a decided claim.
pub(crate) fn outcome_of<D>(decided: &Result<(Accepted, D), Problem>) -> Outcome {
    decided
        .as_ref()
        .map_or_else(|problem| Outcome::Refused(problem.code), |(accepted, _)| Outcome::of_accepted(accepted))
}

/// The value of a header, if there is exactly one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
}

/// List your orders
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/orders", tag = "orders", params(PageQuery),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderPage)),
    extensions(("x-refusals" = json!(refusals!(Looking, Query<PageQuery>, OrderError)))))]
pub(crate) async fn list_orders(
    State(shop): State<Arc<Shop>>,
    Looking(caller): Looking,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let buyer = caller.buyer()?;
    shop.gate.check_lists_of(&buyer, shop.now())?;
    let limit = page.limit()? as usize;
    let found = shop.orders_of(&buyer, page.after()?, limit as u32 + 1).await?;
    let mut orders = found.ok_or_else(json::bad_cursor)?;
    let next = (orders.len() > limit).then(|| orders[limit - 1].order.id.to_string());
    orders.truncate(limit);
    Ok(page::whole(render(&shop, &orders).await?, next))
}

async fn render(shop: &Shop, orders: &[FoundOrder]) -> Result<Vec<Vec<u8>>, Problem> {
    let mut bodies = Vec::with_capacity(orders.len());
    for found in orders {
        bodies.push(render_one(shop, found).await?);
    }
    Ok(bodies)
}

async fn render_one(shop: &Shop, found: &FoundOrder) -> Result<Vec<u8>, Problem> {
    let order = &found.order;
    if let Some(details) = shop.storefront.shelf(order.id.sale).and_then(|shelf| shelf.details()) {
        return Ok(order_body(&details.order_form, order));
    }
    let Some(row) = &found.settled else { return Err(Code::Unavailable.into()) };
    let item = shop.catalogue.item(row.item_id).await?.ok_or(Code::Internal)?;
    Ok(order_body(&order_form(order.id.sale, &item, row.unit_price), order))
}

/// Orders from the records as the API shows them, for the merchant.
pub(crate) async fn render_rows(shop: &Shop, rows: Vec<OrderRow>) -> Result<Vec<Vec<u8>>, Problem> {
    let found: Vec<FoundOrder> = rows.into_iter().map(FoundOrder::from).collect();
    render(shop, &found).await
}

async fn respond(shop: &Shop, found: FoundOrder) -> Result<Response, Problem> {
    let body = render_one(shop, &found).await?;
    Ok(([(CONTENT_TYPE, APPLICATION_JSON)], body).into_response())
}

/// Get one of your orders
#[utoipa::path(get, path = "/api/v1/orders/{id}", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderView)),
    extensions(("x-refusals" = json!(refusals!(Looking, PathId<OrderId>, OrderError)))))]
pub(crate) async fn get_order(
    State(shop): State<Arc<Shop>>,
    Looking(caller): Looking,
    PathId(id): PathId<OrderId>,
) -> Result<Response, Problem> {
    let buyer = caller.buyer()?;
    let found = shop.order_of(id, &buyer).await?.ok_or(Code::OrderNotFound)?;
    respond(&shop, found).await
}

/// Pay for an order
///
/// The demo provider: the payment always succeeds. If the payment comes after the hold has expired, it still
/// gets units if there are any. Otherwise, and if the sale is long over, the answer is `refund_due`.
#[utoipa::path(post, path = "/api/v1/orders/{id}/pay", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderView)),
    extensions(("x-refusals" = json!(refusals!(Acting, PathId<OrderId>, OrderError<PaymentRefusal>)))))]
pub(crate) async fn pay_order(
    State(shop): State<Arc<Shop>>,
    Acting { buyer, .. }: Acting,
    PathId(id): PathId<OrderId>,
) -> Result<Response, Problem> {
    respond(&shop, shop.pay_order(id, buyer).await?).await
}

/// Cancel an order
///
/// Its units go to the first person on the waitlist, or back on sale, at once. Cancelling twice changes
/// nothing.
#[utoipa::path(post, path = "/api/v1/orders/{id}/cancel", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderView)),
    extensions(("x-refusals" = json!(refusals!(Acting, PathId<OrderId>, OrderError<CancelRefusal>)))))]
pub(crate) async fn cancel_order(
    State(shop): State<Arc<Shop>>,
    Acting { buyer, .. }: Acting,
    PathId(id): PathId<OrderId>,
) -> Result<Response, Problem> {
    respond(&shop, shop.cancel_order(id, buyer).await?).await
}
