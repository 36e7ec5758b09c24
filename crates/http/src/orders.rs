//! Orders: placing, reading, paying and cancelling them. The ledger decides and is asked first; the records
//! only know settled orders.

use std::{cmp::Reverse, collections::HashMap, num::NonZeroU32, sync::Arc, time::Instant};

use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use hyper::{
    HeaderMap, Method, StatusCode,
    header::{CONTENT_TYPE, HeaderName},
};
use penstock_domain::{
    Accepted, BuyerId, CancelRefusal, Claim, ClaimRefusal, Command, KeyDigest, Order, OrderId, OrderState,
    PaymentRefusal, SaleId, Timestamp,
};
use penstock_gate::InFlight;
use penstock_ledger::LedgerError;
use penstock_records::OrderRow;
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    app::App,
    entry::{APPLICATION_JSON, CountAs},
    gate::{Acting, Looking, Reason},
    identity::Caller,
    json::{self, PageQuery, PathId, Query},
    page::{self, OrderPage},
    peer::Peer,
    problem::{Code, Problem, Refusal as _},
    sale_tally::CountedClaim,
    storefront::{Details, Shelf},
    tally::Outcome,
    wire::{OrderTemplate, OrderView},
};

pub(crate) const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");
pub(crate) const PENSTOCK_PASS: HeaderName = HeaderName::from_static("penstock-pass");

/// For any page but the first, the ledger is asked for this many of a buyer's newest orders, because it can't
/// start at a cursor. Older orders were settled long ago.
const MAX_FROM_LEDGER: u32 = 1_000;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct OrderRequest {
    /// The number of units.
    #[schema(value_type = u32, minimum = 1, example = 1)]
    quantity: NonZeroU32,
}

/// A claim and the headers that matter to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ClaimRequest<'a> {
    pub(crate) sale: SaleId,
    pub(crate) key: KeyDigest,
    pub(crate) now: Timestamp,
    /// The header `Penstock-Pass`, if there is exactly one.
    pub(crate) pass: Option<&'a [u8]>,
    pub(crate) peer: Peer,
}

/// A claim that is ready for the ledger.
pub(crate) struct Attempt {
    claim: Claim,
    details: Arc<Details>,
    /// The sale and the deadline of the pass, if this is a new order of a sale with a gate. Empty for all
    /// others, because counting references to a sale that is in no processor cache takes time.
    gated: Option<(Arc<Shelf>, Timestamp)>,
    /// Why no new order is possible. An order that was accepted before is still found.
    only_recall: Option<Problem>,
    in_flight: InFlight,
}

/// Checks everything that does not need the ledger, the cheapest first.
pub(crate) fn check(
    app: &App,
    request: ClaimRequest<'_>,
    identify: impl FnOnce() -> Result<Caller, Problem>,
    read: impl FnOnce() -> Result<OrderRequest, Problem>,
) -> Result<Attempt, Problem> {
    let missing = || Err(app.missing_sale());
    app.storefront
        .with_shelf(request.sale, |shelf| check_with(app, shelf, request, identify, read))
        .unwrap_or_else(missing)
}

fn check_with(
    app: &App,
    shelf: &Arc<Shelf>,
    ClaimRequest { sale, key, now, pass, peer }: ClaimRequest<'_>,
    identify: impl FnOnce() -> Result<Caller, Problem>,
    read: impl FnOnce() -> Result<OrderRequest, Problem>,
) -> Result<Attempt, Problem> {
    let latch = shelf.latch().ok_or_else(|| app.missing_sale())?;
    if let Some(refusal) = latch.refuses(key, now) {
        return Err(Code::from(refusal).into());
    }
    let details = shelf.details().ok_or(Code::Unavailable)?;
    app.gate.check_origin(peer, now)?;
    let in_flight = app.enter(shelf)?;
    let buyer = identify()?.buyer()?;
    app.gate.check_buyer(&buyer, now)?;
    let (mut only_recall, mut pass_until) = (None, None);
    if details.row.gate.pass_required {
        match app.gate.check_pass((sale, &buyer), pass, now) {
            Ok(deadline) => pass_until = Some(deadline),
            // A buyer who was accepted with a pass gets the first answer again after the pass has expired.
            Err(problem) if latch.may_have_accepted(key) => only_recall = Some(problem),
            Err(problem) => return Err(problem),
        }
    }
    let OrderRequest { quantity } = read()?;
    app.gate.pour(now)?;
    // A retry of an earlier order does not use the current pass. The keys decide that, not the order's date,
    // which comes from another server's clock.
    let used_pass = pass_until.filter(|_| !latch.may_have_accepted(key));
    let gated = used_pass.map(|deadline| (Arc::clone(shelf), deadline));
    Ok(Attempt {
        claim: Claim { sale, buyer, quantity: quantity.get(), key },
        details,
        gated,
        only_recall,
        in_flight,
    })
}

impl Attempt {
    pub(crate) fn sale(&self) -> SaleId {
        self.claim.sale
    }

    /// Lets the ledger decide. Also returns the details for rendering the order.
    pub(crate) async fn decide(self, app: &App) -> Result<(Accepted, Arc<Details>), Problem> {
        let began = Instant::now();
        let command = match self.only_recall {
            None => Command::Claim(self.claim),
            Some(_) => Command::Recall(self.claim),
        };
        let (decided, given_at) = app.ledger.decide(command).await;
        let decided = decided.map_err(|error| match (error, self.only_recall) {
            (LedgerError::Refused(ClaimRefusal::NotAccepted), Some(problem)) => problem,
            (other, _) => other.into(),
        });
        let now = app.now();
        // The limit controls the time in the ledger. If this thread is late because it is busy refusing, a
        // lower limit would only leave the ledger without work.
        self.in_flight.finished(given_at.saturating_duration_since(began), now);
        match (&decided, &self.gated) {
            // Its pass makes room for the next one.
            (Ok(accepted), Some((shelf, deadline))) => {
                if let (Some(gate), Some(status)) = (shelf.gate.get(), shelf.status()) {
                    gate.door.used(&accepted.order.buyer, *deadline, status.version, now);
                }
            }
            (Err(problem), _) if problem.code == Code::Busy => app.gate.turned_away.count(Reason::Queue),
            _ => {}
        }
        Ok((decided?, self.details))
    }
}

/// Places an order; returns its JSON, and the outcome to count.
pub(crate) async fn place(
    app: &App,
    (sale, peer): (SaleId, Peer),
    headers: &HeaderMap,
    body: Result<Bytes, Problem>,
) -> Result<(Vec<u8>, Outcome), Problem> {
    // If the request did not arrive in time, nothing else of it is checked.
    let body = match body {
        Err(problem) if problem.code == Code::RequestTimeout => return Err(problem),
        body => body,
    };
    let key = headers.get(IDEMPOTENCY_KEY).ok_or(Code::IdempotencyKeyRequired)?;
    let key = KeyDigest::of(key.as_bytes()).map_err(|_| Code::IdempotencyKeyInvalid)?;
    let now = app.now();
    let identify = || app.identity.caller(&Method::POST, headers, now);
    let read = || {
        json::expect_json(headers)?;
        json::parse(&body?)
    };
    let request = ClaimRequest { sale, key, now, pass: only(headers, &PENSTOCK_PASS), peer };
    let (accepted, details) = check(app, request, identify, read)?.decide(app).await?;
    Ok((details.order_template.body(&accepted.order), Outcome::of_accepted(&accepted)))
}

/// The value of a header, if there is exactly one.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a [u8]> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => Some(value.as_bytes()),
        _ => None,
    }
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
    responses((status = 201, body = OrderView)))]
pub(crate) async fn place_order(
    State(app): State<Arc<App>>,
    PathId(sale): PathId<SaleId>,
    peer: Peer,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let body = json::read_body(body).await;
    // Only odd spellings of the path come this way, so it does not matter which worker counts them.
    let tally = app.tallies.first().and_then(|tally| app.storefront.sale_tally(sale, tally));
    let counted = CountedClaim::new(tally);
    let placed = place(&app, (sale, peer), &parts.headers, body).await;
    counted.answered(
        placed.as_ref().map_or_else(|problem| Outcome::Refused(problem.code), |(_, outcome)| *outcome),
    );
    let (order, outcome) = placed?;
    let mut response = (StatusCode::CREATED, [(CONTENT_TYPE, APPLICATION_JSON)], order).into_response();
    response.extensions_mut().insert(CountAs(outcome));
    Ok(response)
}

/// List your orders
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/orders", tag = "orders", params(PageQuery),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderPage)))]
pub(crate) async fn list_orders(
    State(app): State<Arc<App>>,
    Looking(caller): Looking,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let buyer = caller.buyer()?;
    app.gate.check_lists_of(&buyer, app.now())?;
    let limit = page.limit()? as usize;
    let after = match page.after::<OrderId>()? {
        Some(after) => Some(find(&app, after, Some(&buyer)).await?.ok_or_else(json::bad_cursor)?.order),
        None => None,
    };
    let mut orders = merged(&app, &buyer, after.as_ref().map(|order| order.id), limit as u32 + 1).await?;
    let place = |order: &Order| Reverse((order.created_at, order.id));
    if let Some(after) = &after {
        orders.retain(|found| place(&found.order) > place(after));
    }
    orders.sort_unstable_by_key(|found| place(&found.order));
    let next = (orders.len() > limit).then(|| orders[limit - 1].order.id.to_string());
    orders.truncate(limit);
    Ok(page::whole(render(&app, &orders).await?, next))
}

/// An order and, if it came from the records, its row there.
struct Found {
    order: Order,
    settled: Option<OrderRow>,
}

/// Orders of the ledger and of the records. Where both have an order, the ledger is more recent.
async fn merged(
    app: &App,
    buyer: &BuyerId,
    after: Option<OrderId>,
    limit: u32,
) -> Result<Vec<Found>, Problem> {
    let from_ledger = if after.is_some() { MAX_FROM_LEDGER } else { limit };
    let fresh = app.ledger.orders_of(buyer.clone(), from_ledger).await?;
    let mut found: HashMap<OrderId, Found> = HashMap::new();
    match app.records.orders_of(buyer, after, limit).await {
        Ok(rows) => found.extend(rows.into_iter().map(|row| (row.order.id, Found::settled(row)))),
        // The ledger alone has everything recent, which is better than nothing.
        Err(error) => tracing::warn!(%error, "orders are listed without the records"),
    }
    found.extend(fresh.into_iter().map(|order| (order.id, Found { order, settled: None })));
    Ok(found.into_values().collect())
}

impl Found {
    fn settled(row: OrderRow) -> Self {
        Self { order: row.order.clone(), settled: Some(row) }
    }
}

/// The order according to the ledger, or according to the records if the ledger does not know it.
async fn find(app: &App, id: OrderId, buyer: Option<&BuyerId>) -> Result<Option<Found>, Problem> {
    if let Some(order) = app.ledger.find_order(id, buyer.cloned()).await? {
        return Ok(Some(Found { order, settled: None }));
    }
    let row = app.records.order(id).await?;
    Ok(row.filter(|row| buyer.is_none_or(|buyer| *buyer == row.order.buyer)).map(Found::settled))
}

/// An order that the ledger does not know: it forgets a sale that is closed and settled, and none of its
/// orders is held by then.
async fn forgotten(app: &App, id: OrderId, buyer: &BuyerId) -> Result<Found, Problem> {
    let row = app.records.order(id).await?.filter(|row| row.order.buyer == *buyer);
    Ok(Found::settled(row.ok_or(Code::OrderNotFound)?))
}

async fn render(app: &App, orders: &[Found]) -> Result<Vec<Vec<u8>>, Problem> {
    let mut bodies = Vec::with_capacity(orders.len());
    for found in orders {
        bodies.push(render_one(app, found).await?);
    }
    Ok(bodies)
}

async fn render_one(app: &App, found: &Found) -> Result<Vec<u8>, Problem> {
    let order = &found.order;
    if let Some(details) = app.storefront.shelf(order.id.sale).and_then(|shelf| shelf.details()) {
        return Ok(details.order_template.body(order));
    }
    let Some(row) = &found.settled else { return Err(Code::Unavailable.into()) };
    let item = app.catalogue.item(row.item_id).await?.ok_or(Code::Internal)?;
    Ok(OrderTemplate::of(&order.id.sale.to_string(), &item, row.unit_price).body(order))
}

/// Orders from the records as the API shows them, for the merchant.
pub(crate) async fn render_rows(app: &App, rows: Vec<OrderRow>) -> Result<Vec<Vec<u8>>, Problem> {
    let found: Vec<Found> = rows.into_iter().map(Found::settled).collect();
    render(app, &found).await
}

async fn respond(app: &App, found: Found) -> Result<Response, Problem> {
    let body = render_one(app, &found).await?;
    Ok(([(CONTENT_TYPE, APPLICATION_JSON)], body).into_response())
}

/// Get one of your orders
#[utoipa::path(get, path = "/api/v1/orders/{id}", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderView)))]
pub(crate) async fn get_order(
    State(app): State<Arc<App>>,
    Looking(caller): Looking,
    PathId(id): PathId<OrderId>,
) -> Result<Response, Problem> {
    let buyer = caller.buyer()?;
    let found = find(&app, id, Some(&buyer)).await?.ok_or(Code::OrderNotFound)?;
    respond(&app, found).await
}

/// Pay for an order
///
/// The demo provider: the payment always succeeds. If the payment comes after the hold has expired, it still
/// gets units if there are any. Otherwise, and if the sale is long over, the answer is `refund_due`.
#[utoipa::path(post, path = "/api/v1/orders/{id}/pay", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderView)))]
pub(crate) async fn pay_order(
    State(app): State<Arc<App>>,
    Acting { buyer, .. }: Acting,
    PathId(id): PathId<OrderId>,
) -> Result<Response, Problem> {
    match app.ledger.confirm_payment(id, Some(buyer.clone())).await {
        Ok(order) => respond(&app, Found { order, settled: None }).await,
        Err(LedgerError::Refused(PaymentRefusal::UnknownOrder)) => {
            let found = forgotten(&app, id, &buyer).await?;
            match found.order.state {
                OrderState::Paid => respond(&app, found).await,
                OrderState::Expired => {
                    if let Some(row) = &found.settled {
                        app.records.owe_refund(row, app.now()).await?;
                    }
                    Err(Code::RefundDue.into())
                }
                OrderState::Cancelled => Err(Code::HoldExpired.into()),
                OrderState::Held => Err(Code::Unavailable.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}

/// Cancel an order
///
/// Its units go to the first person on the waitlist, or back on sale, at once. Cancelling twice changes
/// nothing.
#[utoipa::path(post, path = "/api/v1/orders/{id}/cancel", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = OrderView)))]
pub(crate) async fn cancel_order(
    State(app): State<Arc<App>>,
    Acting { buyer, .. }: Acting,
    PathId(id): PathId<OrderId>,
) -> Result<Response, Problem> {
    match app.ledger.cancel(id, Some(buyer.clone())).await {
        Ok(order) => respond(&app, Found { order, settled: None }).await,
        Err(LedgerError::Refused(CancelRefusal::UnknownOrder)) => {
            let found = forgotten(&app, id, &buyer).await?;
            match found.order.state {
                OrderState::Cancelled => respond(&app, found).await,
                OrderState::Paid => Err(CancelRefusal::AlreadyPaid.problem()),
                OrderState::Expired => Err(CancelRefusal::HoldExpired.problem()),
                OrderState::Held => Err(Code::Unavailable.into()),
            }
        }
        Err(error) => Err(error.into()),
    }
}
