//! Passes: the signed right to order in one sale. Ticket, challenge and head gate are checked here, once. The
//! order itself then needs one MAC.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use penstock_domain::{BuyerId, ChallengeKind, SaleId, SaleState, SaleStatus, Timestamp};
use penstock_gate::{Presented, TicketState, issue_pass, read_ticket};
use penstock_shop::{
    Code, Shop,
    gate::{Applicant, DoorRefusal, NoRoom, Reason, SaleGate, TurnedAway},
};
use serde::{Deserialize, Deserializer, Serialize};
use utoipa::ToSchema;

use crate::{
    api::visit::Visit,
    contract::{json::OptionalJson, problem::Problem, refusals::refusals, wire::Rfc3339},
};

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct PassRequest {
    /// The id of a solved challenge, if the sale has one.
    challenge: Option<String>,
    /// The solution.
    #[serde(deserialize_with = "text_or_number")]
    answer: Option<String>,
    /// An admitted ticket, if the sale has a waiting room.
    ticket: Option<String>,
}

fn text_or_number<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "has to be a text or a number")]
    enum Answer {
        Text(String),
        Number(u64),
    }
    Ok(Option::deserialize(deserializer)?.map(|answer| match answer {
        Answer::Text(text) => text,
        Answer::Number(number) => number.to_string(),
    }))
}

/// The right to order in one sale, for one buyer.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Pass)]
pub(crate) struct PassView {
    /// Send it as `Penstock-Pass` with the order.
    pass: String,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
}

/// Get a pass
///
/// Each remaining unit allows only a limited number of passes. If you ask again while yours is valid, you get
/// the same one.
#[utoipa::path(post, path = "/api/v1/sales/{id}/pass", tag = "gate", params(("id" = String, Path)),
    request_body = Option<PassRequest>, security(("bearer" = []), ("session" = [])),
    responses((status = 201, body = PassView)),
    extensions(("x-refusals" = json!(refusals!(Visit, OptionalJson<PassRequest>, NoRoom, TurnedAway; NotAdmitted, ChallengeFailed, PassesExhausted, NotPublished, NotOpen, Paused, SoldOut, Closed)))))]
pub(crate) async fn create_pass(
    State(shop): State<Arc<Shop>>,
    Visit { now, buyer, shelf, status }: Visit,
    OptionalJson(request): OptionalJson<PassRequest>,
) -> Result<(StatusCode, axum::Json<PassView>), Problem> {
    let sale = shelf.id;
    if let Some(code) = refusal_of(status.state(now)) {
        return Err(code.into());
    }
    let no_pass = || Problem::with_detail(Code::NotGated, "The sale needs no pass: just order.");
    let gate = shop.gate_of(&shelf).ok_or_else(no_pass)?;
    let refused = |refusal| refused(&shop, refusal);
    // Whatever costs the buyer something is used up last.
    let turn = admitted(&shop, gate, (sale, &buyer), &request, &status).await?;
    let number = turn.map(|turn| turn.number);
    gate.door.look(&buyer, number, status.available, now).map_err(refused)?;
    let challenge = present(&shop, gate, (sale, &buyer), &request, now)?;
    let available = status.available;
    let turn_until = turn.map(|turn| turn.until);
    let applicant = Applicant { buyer: buyer.clone(), number, turn_until, challenge, available, now };
    let deadline = gate.door.pass(applicant).await.map_err(refused)?;
    let pass = issue_pass(&shop.gate.keys.load(), sale, &buyer, deadline);
    Ok((StatusCode::CREATED, axum::Json(PassView { pass, expires_at: Rfc3339(deadline) })))
}

fn refused(shop: &Shop, refusal: DoorRefusal) -> Problem {
    let reason = match refusal {
        // One turn is one pass. A buyer who has used it up has to take a new ticket.
        DoorRefusal::TurnUsed => {
            return Problem::with_detail(Code::NotAdmitted, "This turn was used. Take a new ticket.");
        }
        DoorRefusal::TurnOver => {
            return Problem::with_detail(Code::NotAdmitted, "This turn is over. Take a new ticket.");
        }
        DoorRefusal::Exhausted => return Code::PassesExhausted.into(),
        DoorRefusal::ChallengeFailed => return Code::ChallengeFailed.into(),
        DoorRefusal::Unavailable => return Code::Unavailable.into(),
        DoorRefusal::TooManyPasses => Reason::LivePasses,
        DoorRefusal::TooManyChallenges => Reason::UsedChallenges,
        DoorRefusal::Busy => Reason::Door,
    };
    shop.gate.turned_away.because(reason).into()
}

#[derive(Clone, Copy)]
struct Turn {
    /// The number of the ticket.
    number: u64,
    until: Timestamp,
}

/// The caller's turn; None if there is no waiting room.
async fn admitted(
    shop: &Shop,
    gate: &SaleGate,
    (sale, buyer): (SaleId, &BuyerId),
    request: &PassRequest,
    status: &SaleStatus,
) -> Result<Option<Turn>, Problem> {
    if !gate.terms.waiting_room {
        return Ok(None);
    }
    let room = gate.room()?;
    let ticket = request.ticket.as_deref().ok_or(Code::NotAdmitted)?;
    let keys = shop.gate.keys.load_full();
    let ticket = read_ticket(&keys, sale, ticket).ok_or(Code::NotAdmitted)?;
    if !ticket.belongs_to(&keys, buyer) {
        return Err(Code::NotAdmitted.into());
    }
    let number = ticket.number;
    let place = room.waiting.place(number);
    room.waiting.heard(number, place);
    let mut state = room.waiting.standing_at(place, status, shop.now()).state;
    if state == TicketState::Waiting {
        // Another node may have told them already.
        gate.door.catch_up().await;
        state = room.waiting.standing(number, status, shop.now()).state;
    }
    match state {
        TicketState::Admitted { until } => Ok(Some(Turn { number, until })),
        TicketState::Waiting | TicketState::Gone(_) => Err(Code::NotAdmitted.into()),
    }
}

/// The presented challenge, if the sale has one.
fn present(
    shop: &Shop,
    gate: &SaleGate,
    (sale, buyer): (SaleId, &BuyerId),
    request: &PassRequest,
    now: Timestamp,
) -> Result<Option<Presented>, Problem> {
    if gate.terms.challenge == ChallengeKind::None {
        return Ok(None);
    }
    let (Some(challenge), Some(answer)) = (&request.challenge, &request.answer) else {
        return Err(Problem::with_detail(
            Code::ChallengeFailed,
            "Get a challenge with POST /sales/{id}/challenge and send its id and your answer.",
        ));
    };
    let keys = shop.gate.keys.load();
    let presented = shop.gate.challenges.present(&keys, sale, buyer, challenge, answer, now);
    presented.map(Some).map_err(|_| Code::ChallengeFailed.into())
}

/// Why nothing can be bought in this state; None if it can.
fn refusal_of(state: SaleState) -> Option<Code> {
    match state {
        SaleState::Draft => Some(Code::NotPublished),
        SaleState::Scheduled => Some(Code::NotOpen),
        SaleState::Open => None,
        SaleState::Paused => Some(Code::Paused),
        SaleState::SoldOut => Some(Code::SoldOut),
        SaleState::Closed => Some(Code::Closed),
    }
}
