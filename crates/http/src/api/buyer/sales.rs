//! Sales as buyers see them: from memory, serialised once per change. The lane answers plain requests for one
//! sale; this module answers the list, and the other requests.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use hyper::{
    HeaderMap, StatusCode,
    header::{AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, COOKIE, ETAG, HeaderValue, IF_NONE_MATCH},
};
use penstock_domain::{SaleId, SaleState, Timestamp};
use penstock_ledger::Health;
use penstock_records::SaleRow;
use penstock_shop::{
    Code, SaleMissing, Shop,
    gate::Peer,
    storefront::{SaleFacts, Scribe as _, Shelf, WrittenSale},
    tally::Outcome,
};

use crate::{
    api::caller::{Admin, Credentials},
    contract::{
        answer::{APPLICATION_JSON, REVALIDATE},
        json::{self, PageQuery, PathId, Query},
        page::{self, SalePage},
        problem::Problem,
        refusals::refusals,
        wire::{JsonScribe, SaleView, is_known, sale_body, write_sale},
    },
};

/// Names no version.
const NO_TAG: HeaderValue = HeaderValue::from_static("W/\"\"");
/// By then a node has caught up on any news that it missed: a ledger on Redis checks twice a second.
const NEWS_WITHIN_SECONDS: u32 = 10;

/// List all published sales
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/sales", tag = "sales", params(PageQuery),
    responses((status = 200, body = SalePage)),
    extensions(("x-refusals" = json!(refusals!(Query<PageQuery>)))))]
pub(crate) async fn list_sales(
    State(shop): State<Arc<Shop>>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let limit = page.limit()? as usize;
    if shop.storefront.is_dark() {
        return Err(shop.missing_sale().into());
    }
    let shelves = shop.storefront.on_show();
    let start = match page.after::<SaleId>()? {
        Some(after) => shelves.iter().position(|shelf| shelf.id == after).ok_or_else(json::bad_cursor)? + 1,
        None => 0,
    };
    let has_more = shelves.len() > start + limit;
    let shown: Vec<Arc<Shelf>> = shelves.into_iter().skip(start).take(limit).collect();
    let next = shown.last().filter(|_| has_more).map(|shelf| shelf.id.to_string());
    let entries = shown.into_iter().map(move |shelf| {
        let shop = Arc::clone(&shop);
        move |body: &mut Vec<u8>| {
            let now = shop.now();
            shelf.with_written(now, |sale| write_sale(sale, now, body));
        }
    });
    Ok(page::streamed(entries, next))
}

/// Get a sale
///
/// `ETag` changes when anything but `server_time` does. Admins also see drafts.
#[utoipa::path(get, path = "/api/v1/sales/{id}", tag = "sales",
    params(("id" = String, Path), ("If-None-Match" = Option<String>, Header, description = "The `ETag` of your copy")),
    responses((status = 200, body = SaleView, headers(("ETag" = String))),
        (status = 304, description = "Your copy is up to date", headers(("ETag" = String)))),
    extensions(("x-refusals" = json!(refusals!(PathId<SaleId>, SaleMissing)))))]
pub(crate) async fn get_sale(
    State(shop): State<Arc<Shop>>,
    PathId(id): PathId<SaleId>,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let now = shop.now();
    if let Some(shown) = shop.storefront.with_sale(id, now, |sale| respond(sale, &headers, now)) {
        count_look(&shop, id, shown.status());
        return Ok(shown);
    }
    if shop.storefront.is_dark() {
        return Err(shop.missing_sale().into());
    }
    let names_somebody = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
    if names_somebody && is_admin(&shop, peer, &headers, now).await? {
        let mut shown = respond(&from_records(&shop, id).await?, &headers, now);
        // A cache in front of the nodes keeps what everybody may see; this is only for admins.
        shown.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        return Ok(shown);
    }
    Err(not_on_show(&shop, id, now))
}

/// The answer to a stranger for a sale that is not on show: that it does not exist, or that this is not known
/// yet.
pub(crate) fn not_on_show(shop: &Shop, id: SaleId, now: Timestamp) -> Problem {
    let is_coming = shop.storefront.with_shelf(id, |shelf| is_coming(shelf, now)).unwrap_or(false);
    if is_coming { being_put_on_show() } else { shop.missing_sale().into() }
}

/// Plain requests don't come this way, so it does not matter which worker counts this one.
fn count_look(shop: &Shop, sale: SaleId, status: StatusCode) {
    let outcome = if status == StatusCode::NOT_MODIFIED { Outcome::NotModified } else { Outcome::Ok };
    if let Some(tally) = shop.tallies.first().and_then(|tally| shop.storefront.sale_tally(sale, tally)) {
        tally.count(outcome);
    }
}

async fn is_admin(shop: &Shop, peer: Peer, headers: &HeaderMap, now: Timestamp) -> Result<bool, Problem> {
    let Ok(caller) = Credentials::read(headers).caller(shop, false, now) else { return Ok(false) };
    Admin::within_limits(&caller, peer, shop)?;
    Ok(Admin::verify(&caller, shop).await.is_ok())
}

/// A sale that is not on show, as the records have it, for the merchant.
pub(crate) async fn from_records(shop: &Shop, id: SaleId) -> Result<WrittenSale, Problem> {
    let row = row_of(shop, id).await?;
    let item = shop.records.item(row.item_id).await?.ok_or(Code::Internal)?;
    let state = match row.published_at {
        None => SaleState::Draft,
        // If the ledger is ready and everything it knows is on show, it has forgotten this sale, and it
        // forgets only closed ones.
        Some(_) if shop.ledger.health() == Health::Ready && !shop.storefront.is_dark() => SaleState::Closed,
        Some(_) => return Err(shop.missing_sale().into()),
    };
    let facts = SaleFacts { row: &row, item: &item, status: None, state, draw: None, waitlist: None };
    Ok(JsonScribe.sale(facts))
}

/// Why a sale that the ledger has not announced has no counts.
pub(crate) async fn uncounted(shop: &Shop, id: SaleId) -> Problem {
    row_of(shop, id).await.map_or_else(|problem| problem, |_| Code::NotPublished.into())
}

/// The row of a sale that is not on show. An error if it soon will be: another node has just published it,
/// and the news is on its way or was missed.
async fn row_of(shop: &Shop, id: SaleId) -> Result<SaleRow, Problem> {
    let row = shop.records.sale(id).await?.ok_or(Code::SaleNotFound)?;
    if row.published_at.is_some_and(|at| is_recent(at, shop.now())) {
        return Err(being_put_on_show());
    }
    Ok(row)
}

/// Whether either the ledger or the records know a sale that is not on show, and the other will soon. Not if
/// it was published long ago: then the ledger has forgotten it.
fn is_coming(shelf: &Shelf, now: Timestamp) -> bool {
    shelf.details().is_none_or(|details| details.row.published_at.is_none_or(|at| is_recent(at, now)))
}

fn is_recent(published_at: Timestamp, now: Timestamp) -> bool {
    now < published_at.plus_seconds(NEWS_WITHIN_SECONDS)
}

fn being_put_on_show() -> Problem {
    Problem::with_detail(Code::Unavailable, "The sale is being published. Try again in a moment.")
}

fn respond(sale: &WrittenSale, headers: &HeaderMap, now: Timestamp) -> Response {
    let tag = HeaderValue::try_from(sale.tag.as_str()).unwrap_or(NO_TAG);
    let caching = [(ETAG, tag), (CACHE_CONTROL, REVALIDATE)];
    if headers.get_all(IF_NONE_MATCH).iter().any(|known| is_known(sale, known.as_bytes())) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    ([(CONTENT_TYPE, APPLICATION_JSON)], caching, sale_body(sale, now)).into_response()
}
