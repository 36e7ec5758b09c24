//! Tickets: places in a sale's waiting room, and how waiting people learn about theirs.

use std::{sync::Arc, time::Duration};

use axum::{
    Extension,
    extract::{FromRequestParts, RawPathParams, State},
    response::{Response, sse::Event},
};
use hyper::{StatusCode, http::request::Parts};
use penstock_domain::{SaleId, SaleState, Timestamp};
use penstock_gate::{GoneReason, Standing, TicketState, issue_ticket, read_ticket};
use penstock_shop::{
    Code, SaleMissing, Shop,
    gate::{DoorRefusal, NoRoom, OpenRoom, Peer, Reason, SaleGate, TurnedAway},
    storefront::Shelf,
};
use serde::Serialize;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore, watch},
    time::Instant,
};
use utoipa::ToSchema;

use crate::{
    api::{
        Api,
        streams::{self, Watch},
        visit::Visit,
    },
    contract::{
        json::PathId,
        problem::Problem,
        refusals::{Refuses, refusals},
        wire::Rfc3339,
        words::{GoneReasonWord, TicketStateWord},
    },
};

/// A place that only moved up is sent at most this often. That a turn has come or is gone is sent at once.
const PLACES_EVERY: Duration = Duration::from_secs(1);

/// The streams that one worker may have open. Clients keep them as long as they like, so they get only a part
/// of the worker's connections.
#[derive(Clone, Debug)]
pub(crate) struct TicketStreams(Arc<Semaphore>);

impl TicketStreams {
    pub(crate) fn beside(connections: usize) -> Self {
        Self(Arc::new(Semaphore::new((connections * 3 / 4).max(1))))
    }
}

/// A place in a waiting room.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Ticket)]
pub(crate) struct TicketView {
    /// A signed number. Keep it: it is your place.
    ticket: String,
    /// The number inside the ticket.
    number: u64,
    #[schema(value_type = TicketStateWord)]
    state: &'static str,
    /// Why the ticket is gone.
    #[schema(value_type = Option<GoneReasonWord>)]
    reason: Option<&'static str>,
    /// The position among the people who are present; 1 is next. Empty before the draw, and when it no longer
    /// matters.
    position: Option<u64>,
    /// Based on the current rate of admission; empty if that is unknown.
    estimated_wait_seconds: Option<u64>,
    /// The place in the whole queue, where 0 is first; for `penstock draw verify`. Empty before the draw.
    place: Option<u64>,
    /// The end of the turn: until then you can get a pass.
    #[schema(value_type = Option<String>, format = DateTime)]
    admitted_until: Option<Rfc3339>,
}

impl TicketView {
    fn new(ticket: &str, number: u64, standing: Standing) -> Self {
        let (state, reason, admitted_until) = match standing.state {
            TicketState::Waiting => ("waiting", None, None),
            TicketState::Admitted { until } => ("admitted", None, Some(Rfc3339(until))),
            TicketState::Gone(GoneReason::SoldOut) => ("gone", Some("sold_out"), None),
            TicketState::Gone(GoneReason::TurnOver) => ("gone", Some("turn_over"), None),
            TicketState::Gone(GoneReason::Closed) => ("gone", Some("closed"), None),
        };
        Self {
            ticket: ticket.to_owned(),
            number,
            state,
            reason,
            position: standing.position,
            estimated_wait_seconds: standing.estimated_wait_seconds,
            place: standing.place,
            admitted_until,
        }
    }
}

fn room_of<'a>(shop: &Shop, shelf: &'a Shelf) -> Result<&'a OpenRoom, NoRoom> {
    shop.gate_of(shelf).ok_or(NoRoom::NotGated).and_then(SaleGate::room)
}

fn view(shop: &Shop, shelf: &Shelf, ticket: &str, number: u64) -> Result<TicketView, Problem> {
    let status = shelf.status().ok_or_else(|| shop.missing_sale())?;
    let waiting = &room_of(shop, shelf)?.waiting;
    let place = waiting.place(number);
    waiting.heard(number, place);
    let standing = waiting.standing_at(place, &status, shop.now());
    Ok(TicketView::new(ticket, number, standing))
}

/// Take a ticket
///
/// People who come before the opening are placed by a draw at the opening; people who come later queue behind
/// them. `docs/draw.md` says how anybody can recompute a place.
#[utoipa::path(post, path = "/api/v1/sales/{id}/tickets", tag = "gate", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 201, body = TicketView)),
    extensions(("x-refusals" = json!(refusals!(Visit, NoRoom, TurnedAway; Closed)))))]
pub(crate) async fn create_ticket(
    State(shop): State<Arc<Shop>>,
    Visit { now, buyer, shelf, status }: Visit,
) -> Result<(StatusCode, axum::Json<TicketView>), Problem> {
    let sale = shelf.id;
    let room = room_of(&shop, &shelf)?;
    let gate = shop.gate_of(&shelf).ok_or(Code::NotGated)?;
    if status.state(now) == SaleState::Closed {
        return Err(Code::Closed.into());
    }
    // A buyer who is told to come back must not have used up one of their few tickets.
    if !gate.door.has_numbers() {
        return Err(shop.gate.turned_away.because(Reason::Numbers).into());
    }
    shop.gate.check_tickets_of(sale, &buyer, now)?;
    let number = gate.door.take_number(now).await.map_err(|refusal| {
        shop.gate.give_ticket_back(sale, &buyer);
        match refusal {
            DoorRefusal::Unavailable => Code::Unavailable.into(),
            _ => Problem::from(shop.gate.turned_away.because(Reason::Numbers)),
        }
    })?;
    let ticket = issue_ticket(&shop.gate.keys.load(), sale, &buyer, number);
    let place = room.waiting.place(number);
    room.waiting.heard(number, place);
    let standing = room.waiting.standing_at(place, &status, now);
    Ok((StatusCode::CREATED, axum::Json(TicketView::new(&ticket, number, standing))))
}

/// The ticket in the path: its sale, its text and its number.
pub(crate) struct PathTicket {
    shelf: Arc<Shelf>,
    text: String,
    number: u64,
}

impl FromRequestParts<Api> for PathTicket {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let shop = &api.shop;
        // Anybody who has the ticket may read it, so only the address can be limited.
        shop.gate.check_reads_from(Peer::from_request_parts(parts, api).await?, shop.now())?;
        let PathId(sale) = PathId::<SaleId>::from_request_parts(parts, api).await?;
        let shelf = shop.storefront.shelf(sale).ok_or_else(|| shop.missing_sale())?;
        room_of(shop, &shelf)?;
        let params = RawPathParams::from_request_parts(parts, api).await.map_err(|_| Code::TicketNotFound)?;
        let text = params.iter().find(|(name, _)| *name == "ticket").map(|(_, text)| text.to_owned());
        let text = text.ok_or(Code::TicketNotFound)?;
        let ticket = read_ticket(&shop.gate.keys.load(), sale, &text).ok_or(Code::TicketNotFound)?;
        Ok(Self { shelf, number: ticket.number, text })
    }
}

/// Get a ticket's place
///
/// Anybody who has the ticket may read it. A person counts as present while they ask, or keep a stream open:
/// ask every few seconds, at least every 15 seconds, or open the stream. A person who asks less often may be
/// passed over. When they are back they have their place again, for as long as a turn lasts.
#[utoipa::path(get, path = "/api/v1/sales/{id}/tickets/{ticket}", tag = "gate",
    params(("id" = String, Path), ("ticket" = String, Path)), responses((status = 200, body = TicketView)),
    extensions(("x-refusals" = json!(refusals!(PathTicket)))))]
pub(crate) async fn get_ticket(
    State(shop): State<Arc<Shop>>,
    ticket: PathTicket,
) -> Result<axum::Json<TicketView>, Problem> {
    view(&shop, &ticket.shelf, &ticket.text, ticket.number).map(axum::Json)
}

/// Watch a ticket's place
///
/// Server-sent events; the data of each is the ticket as `GET` shows it. If there are too many streams, the
/// answer is `busy`: poll with `GET` every few seconds instead. A stream ends after about two minutes, so
/// that people who have left do not count as present for long. Open it again, as browsers do by themselves.
#[utoipa::path(get, path = "/api/v1/sales/{id}/tickets/{ticket}/events", tag = "gate",
    params(("id" = String, Path), ("ticket" = String, Path)),
    responses((status = 200, content_type = "text/event-stream", body = TicketView)),
    extensions(("x-refusals" = json!(refusals!(PathTicket, TurnedAway)))))]
pub(crate) async fn watch_ticket(
    State(api): State<Api>,
    Extension(TicketStreams(streams)): Extension<TicketStreams>,
    ticket: PathTicket,
) -> Result<Response, Problem> {
    let shop = Arc::clone(&api.shop);
    let permit = streams.try_acquire_owned();
    let permit = permit.map_err(|_| shop.gate.turned_away.because(Reason::Watchers))?;
    let changes = room_of(&shop, &ticket.shelf)?.changes.subscribe();
    let stopping = api.stopping.clone();
    let ends_at = shop.now().plus_millis(stream_millis(ticket.number));
    let watcher =
        Watcher { stopping, ends_at, shop, ticket, changes, place: None, last: None, _permit: permit };
    Ok(streams::respond(&api, watcher))
}

struct Watcher {
    shop: Arc<Shop>,
    ticket: PathTicket,
    changes: watch::Receiver<u64>,
    stopping: watch::Receiver<bool>,
    ends_at: Timestamp,
    /// Never changes after the draw; kept here because there may be many watchers.
    place: Option<u64>,
    /// What was last sent, and when.
    last: Option<(Standing, Instant)>,
    _permit: OwnedSemaphorePermit,
}

/// A proxy keeps accepting data for a phone that has vanished without a word. So streams last only this long,
/// and streams that began together end at different times.
fn stream_millis(ticket: u64) -> i64 {
    const LEAST_MILLIS: i64 = 90_000;
    const SPREAD_MILLIS: u64 = 60_000;
    LEAST_MILLIS + (ticket.wrapping_mul(7_919) % SPREAD_MILLIS) as i64
}

impl Watch for Watcher {
    /// The stream ends after its time, and when the server stops.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if *self.stopping.borrow() || self.shop.now() >= self.ends_at {
                return None;
            }
            self.changes.mark_unchanged();
            let standing = self.look()?;
            match &self.last {
                Some((last, told_at)) if !is_news(last, &standing) => {
                    let wait = PLACES_EVERY.saturating_sub(told_at.elapsed());
                    let moved = standing != *last;
                    if moved && wait.is_zero() {
                        return self.tell(standing);
                    }
                    self.change(moved.then_some(wait)).await?;
                }
                _ => return self.tell(standing),
            }
        }
    }
}

impl Watcher {
    fn look(&mut self) -> Option<Standing> {
        let status = self.ticket.shelf.status()?;
        let waiting = &room_of(&self.shop, &self.ticket.shelf).ok()?.waiting;
        self.place = self.place.or_else(|| waiting.place(self.ticket.number));
        waiting.heard(self.ticket.number, self.place);
        Some(waiting.standing_at(self.place, &status, self.shop.now()))
    }

    /// Waits for news, or until it is time to send a place that has moved.
    async fn change(&mut self, wait: Option<Duration>) -> Option<()> {
        let timer = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            changed = self.changes.changed() => changed.ok(),
            _ = self.stopping.wait_for(|stopping| *stopping) => None,
            () = timer => Some(()),
        }
    }

    fn tell(&mut self, standing: Standing) -> Option<Event> {
        let view = TicketView::new(&self.ticket.text, self.ticket.number, standing);
        let event = Event::default().json_data(&view).ok()?;
        self.last = Some((standing, Instant::now()));
        Some(event)
    }
}

/// Whether a person who saw `earlier` has to learn of `now` at once.
fn is_news(earlier: &Standing, now: &Standing) -> bool {
    earlier.state != now.state || earlier.place != now.place
}

impl Refuses for PathTicket {
    fn codes() -> Vec<Code> {
        [SaleMissing::codes(), NoRoom::codes(), vec![Code::TicketNotFound]].concat()
    }
}
