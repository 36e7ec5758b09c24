//! What buyers found out: promises, doubts and counts. Plain data that one thread collects.

use std::collections::VecDeque;

use super::Moment;

/// What became of an accepted order, as far as its buyer knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Paid,
    /// Paid after the hold was over, and still got it.
    PaidLate,
    /// Paid after the hold was over and nothing was left: the money goes back.
    Refund,
    Cancelled,
    /// Neither paid nor cancelled.
    WalkedAway,
    /// The server refused a payment or cancellation that it had to accept.
    Refused,
    /// A payment or cancellation that was never answered.
    Unknown,
}

/// An order that was answered 201.
#[derive(Clone, Debug)]
pub struct Promised {
    /// People are numbered from 0; the numbers of bots follow after the last person's.
    pub buyer: u64,
    pub token: String,
    pub key: String,
    /// Its id.
    pub order: String,
    pub quantity: u32,
    pub end: End,
}

/// An order request that may have been accepted or not.
#[derive(Clone, Debug)]
pub struct Doubtful {
    pub buyer: u64,
    pub token: String,
    pub key: String,
}

/// What has changed since the loop last looked, for the display.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fresh {
    /// The change in units that buyers hold.
    pub(super) held: i64,
    /// Units accepted.
    pub(super) sold: u64,
    pub(super) admitted: u64,
}

#[derive(Debug, Default)]
pub(super) struct Findings {
    pub(super) promised: Vec<Promised>,
    pub(super) doubtful: Vec<Doubtful>,
    /// One sentence for each key that was answered with two orders, or with an order and a refusal.
    pub(super) contradictions: Vec<String>,
    pub(super) admitted: u64,
    pub(super) served: u64,
    pub(super) bots_served: u64,
    /// Bots among them that never got a pass in an honest way.
    pub(super) bots_served_by_skipping: u64,
    pub(super) gave_up: u64,
    /// Orders sent again with the same key.
    pub(super) repeated: u64,
    /// Requests other than orders that stayed unanswered after all repeats.
    pub(super) unanswered: u64,
    /// People who left without a yes or a no.
    pub(super) left_unanswered: u64,
    /// When the last person got a first answer.
    pub(super) last_first_answer_at: Option<Moment>,
    /// Holds that nobody will pay in time: when each ends, and its units. The earliest is first, because all
    /// holds of a sale are equally long.
    pub(super) expiring: VecDeque<(Moment, u32)>,
    pub(super) fresh: Fresh,
}

impl Findings {
    pub(super) fn first_answer(&mut self, at: Moment) {
        self.last_first_answer_at = self.last_first_answer_at.max(Some(at));
    }

    /// A buyer got an order, the first one or another.
    pub(super) fn promise(&mut self, promised: Promised, is_bot: bool, is_first: bool) {
        self.fresh.sold += u64::from(promised.quantity);
        self.fresh.held += i64::from(promised.quantity);
        let served = if is_bot { &mut self.bots_served } else { &mut self.served };
        *served += u64::from(is_first);
        self.promised.push(promised);
    }

    pub(super) fn set_end(&mut self, promised: usize, end: End) {
        if let Some(promised) = self.promised.get_mut(promised) {
            promised.end = end;
        }
    }

    pub(super) fn quantity(&self, promised: usize) -> u32 {
        self.promised.get(promised).map_or(0, |promised| promised.quantity)
    }

    /// Takes note of the holds that have ended by `now`.
    pub(super) fn expire(&mut self, now: Moment) {
        while let Some((_, quantity)) = self.expiring.pop_front_if(|(over_at, _)| *over_at <= now) {
            self.fresh.held -= i64::from(quantity);
        }
    }

    pub(super) fn add(&mut self, other: Self) {
        self.promised.extend(other.promised);
        self.doubtful.extend(other.doubtful);
        self.contradictions.extend(other.contradictions);
        self.admitted += other.admitted;
        self.served += other.served;
        self.bots_served += other.bots_served;
        self.bots_served_by_skipping += other.bots_served_by_skipping;
        self.gave_up += other.gave_up;
        self.repeated += other.repeated;
        self.unanswered += other.unanswered;
        self.left_unanswered += other.left_unanswered;
        self.last_first_answer_at = self.last_first_answer_at.max(other.last_first_answer_at);
    }
}
