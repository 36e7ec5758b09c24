//! Sales as buyers see them: from memory, serialised once per change. A plain request for one sale is answered by the
//! lane; here is the list, and what is not plain.

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

use crate::{
    app::{Admin, App},
    entry::APPLICATION_JSON,
    json::{self, PageQuery, PathId, Query},
    page::{self, SalePage},
    peer::Peer,
    problem::{Code, Problem},
    storefront::Shelf,
    tally::Outcome,
    wire::{RenderedSale, SaleView},
};

/// Caches may keep it but have to ask whether it is still true.
pub(crate) const REVALIDATE: HeaderValue = HeaderValue::from_static("no-cache");

/// Whatever a node missed of a sale, it has heard by then: a ledger on Redis looks for it twice a second.
const NEWS_WITHIN_SECONDS: u32 = 10;

/// All published sales
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/sales", tag = "sales", params(PageQuery),
    responses((status = 200, body = SalePage)))]
pub(crate) async fn list_sales(
    State(app): State<Arc<App>>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let limit = page.limit()? as usize;
    if app.storefront.is_dark() {
        return Err(app.missing_sale());
    }
    let shelves = app.storefront.on_show();
    let start = match page.after::<SaleId>()? {
        Some(after) => shelves.iter().position(|shelf| shelf.id == after).ok_or_else(json::bad_cursor)? + 1,
        None => 0,
    };
    let has_more = shelves.len() > start + limit;
    let shown: Vec<Arc<Shelf>> = shelves.into_iter().skip(start).take(limit).collect();
    let next = shown.last().filter(|_| has_more).map(|shelf| shelf.id.to_string());
    let entries = shown.into_iter().map(move |shelf| {
        let app = Arc::clone(&app);
        move |body: &mut Vec<u8>| {
            let now = app.now();
            shelf.with_rendered(now, |sale| sale.write(now, body));
        }
    });
    Ok(page::streamed(entries, next))
}

/// A sale
///
/// `ETag` changes when anything but `server_time` does. Admins see drafts too.
#[utoipa::path(get, path = "/api/v1/sales/{id}", tag = "sales",
    params(("id" = String, Path), ("If-None-Match" = Option<String>, Header, description = "The `ETag` that you have")),
    responses((status = 200, body = SaleView, headers(("ETag" = String))),
        (status = 304, description = "It is as you have it", headers(("ETag" = String)))))]
pub(crate) async fn get_sale(
    State(app): State<Arc<App>>,
    PathId(id): PathId<SaleId>,
    peer: Peer,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let now = app.now();
    if let Some(shown) = app.storefront.with_sale(id, now, |sale| respond(sale, &headers, now)) {
        count_look(&app, id, shown.status());
        return Ok(shown);
    }
    if app.storefront.is_dark() {
        return Err(app.missing_sale());
    }
    let names_somebody = headers.contains_key(AUTHORIZATION) || headers.contains_key(COOKIE);
    if names_somebody && is_admin(&app, peer, &headers, now).await? {
        let mut shown = respond(&from_records(&app, id).await?, &headers, now);
        // A cache before the nodes keeps what everybody sees, and this is not for everybody.
        shown.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("private, no-store"));
        return Ok(shown);
    }
    Err(not_on_show(&app, id, now))
}

/// What a stranger is told of a sale that is not on show: that there is none, or that nobody can tell yet.
pub(crate) fn not_on_show(app: &App, id: SaleId, now: Timestamp) -> Problem {
    let is_coming = app.storefront.with_shelf(id, |shelf| is_coming(shelf, now)).unwrap_or(false);
    if is_coming { being_put_on_show() } else { app.missing_sale() }
}

/// Plain requests don't come this way, so that it does not matter which worker counts it.
fn count_look(app: &App, sale: SaleId, status: StatusCode) {
    let outcome = if status == StatusCode::NOT_MODIFIED { Outcome::NotModified } else { Outcome::Ok };
    if let Some(tally) = app.tallies.first().and_then(|tally| app.storefront.sale_tally(sale, tally)) {
        tally.count(outcome);
    }
}

async fn is_admin(app: &App, peer: Peer, headers: &HeaderMap, now: Timestamp) -> Result<bool, Problem> {
    let Ok(caller) = app.identity.caller(&hyper::Method::GET, headers, now) else { return Ok(false) };
    Admin::within_limits(&caller, peer, app)?;
    Ok(Admin::verify(&caller, app).await.is_ok())
}

/// A sale that is not on show, as the records have it: a merchant has to see what is there.
pub(crate) async fn from_records(app: &App, id: SaleId) -> Result<RenderedSale, Problem> {
    let row = row_of(app, id).await?;
    let item = app.records.item(row.item_id).await?.ok_or(Code::Internal)?;
    let state = match row.published_at {
        None => SaleState::Draft,
        // A ledger that has everything it knows on show knows no more of this one, and it forgets only what is closed.
        Some(_) if app.ledger.health() == Health::Ready && !app.storefront.is_dark() => SaleState::Closed,
        Some(_) => return Err(app.missing_sale()),
    };
    Ok(RenderedSale::new(&row, &item, None, state, None, None))
}

/// Why there is nothing to count of a sale that the ledger has not told of.
pub(crate) async fn uncounted(app: &App, id: SaleId) -> Problem {
    row_of(app, id).await.map_or_else(|problem| problem, |_| Code::NotPublished.into())
}

/// What the records have of a sale that is not on show, unless it will be in a moment: another node has published it, and
/// the news of it are on their way or were missed.
async fn row_of(app: &App, id: SaleId) -> Result<SaleRow, Problem> {
    let row = app.records.sale(id).await?.ok_or(Code::SaleNotFound)?;
    if row.published_at.is_some_and(|at| is_recent(at, app.now())) {
        return Err(being_put_on_show());
    }
    Ok(row)
}

/// Whether one of ledger and records has told of a sale that is not on show, and the other will. A sale that was published
/// long ago is none of them: the ledger has forgotten it.
fn is_coming(shelf: &Shelf, now: Timestamp) -> bool {
    shelf.details().is_none_or(|details| details.row.published_at.is_none_or(|at| is_recent(at, now)))
}

fn is_recent(published_at: Timestamp, now: Timestamp) -> bool {
    now < published_at.plus_seconds(NEWS_WITHIN_SECONDS)
}

fn being_put_on_show() -> Problem {
    Problem::with_detail(Code::Unavailable, "The sale is being put on show.")
}

fn respond(sale: &RenderedSale, headers: &HeaderMap, now: Timestamp) -> Response {
    let caching = [(ETAG, sale.etag.clone()), (CACHE_CONTROL, REVALIDATE)];
    if headers.get_all(IF_NONE_MATCH).iter().any(|known| sale.is_known(known.as_bytes())) {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    ([(CONTENT_TYPE, APPLICATION_JSON)], caching, sale.body(now)).into_response()
}
