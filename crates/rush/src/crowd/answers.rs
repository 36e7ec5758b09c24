//! What buyers read from answers. Refusals are told apart by their codes; only a yes is parsed.

use std::borrow::Cow;

use serde::Deserialize;

use super::codes::RefusalCode;

/// An answer as a buyer sees it.
#[derive(Clone, Copy, Debug)]
pub(super) struct BuyerReply<'a> {
    pub(super) status: u16,
    pub(super) code: RefusalCode,
    pub(super) retry_after_seconds: Option<u32>,
    pub(super) body: &'a [u8],
}

impl BuyerReply<'_> {
    pub(super) fn is_yes(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Asks the buyer to try again later, whatever was asked.
    pub(super) fn asks_for_patience(&self) -> bool {
        matches!(self.status, 408 | 429 | 500..)
    }

    /// Whether an order may have been accepted although the answer is not a yes: only "busy" promises that it
    /// was not.
    pub(super) fn leaves_doubt(&self) -> bool {
        self.status >= 500 && self.code != RefusalCode::BUSY
    }
}

/// A proof of work to be found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Puzzle {
    pub(super) salt: String,
    pub(super) difficulty: u8,
}

/// Where a ticket stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TicketPlace {
    Waiting,
    Admitted,
    SoldOut,
    TurnOver,
    Closed,
}

fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Option<T> {
    serde_json::from_slice(body).ok()
}

pub(super) fn session(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct SessionAnswer {
        token: String,
    }
    parse::<SessionAnswer>(body).map(|session| session.token)
}

pub(super) fn place(body: &[u8]) -> Option<(String, TicketPlace)> {
    #[derive(Deserialize)]
    struct TicketAnswer<'a> {
        ticket: String,
        #[serde(borrow)]
        state: Cow<'a, str>,
        #[serde(borrow)]
        reason: Option<Cow<'a, str>>,
    }
    let ticket: TicketAnswer<'_> = parse(body)?;
    let place = match (&*ticket.state, ticket.reason.as_deref()) {
        ("waiting", _) => TicketPlace::Waiting,
        ("admitted", _) => TicketPlace::Admitted,
        ("gone", Some("sold_out")) => TicketPlace::SoldOut,
        ("gone", Some("turn_over")) => TicketPlace::TurnOver,
        ("gone", _) => TicketPlace::Closed,
        _ => return None,
    };
    Some((ticket.ticket, place))
}

/// The id of a challenge, and the puzzle to solve.
pub(super) fn puzzle(body: &[u8]) -> Option<(String, Puzzle)> {
    #[derive(Deserialize)]
    struct ChallengeAnswer {
        id: String,
        salt: String,
        difficulty: u8,
    }
    let ChallengeAnswer { id, salt, difficulty } = parse(body)?;
    Some((id, Puzzle { salt, difficulty }))
}

pub(super) fn pass(body: &[u8]) -> Option<String> {
    #[derive(Deserialize)]
    struct PassAnswer {
        pass: String,
    }
    parse::<PassAnswer>(body).map(|pass| pass.pass)
}

/// The id and the quantity of an order.
pub(super) fn order(body: &[u8]) -> Option<(String, u32)> {
    #[derive(Deserialize)]
    struct OrderAnswer {
        id: String,
        quantity: u32,
    }
    parse::<OrderAnswer>(body).map(|order| (order.id, order.quantity))
}
