//! The buyers of one thread who are here, and their findings. It does no I/O: the event loop brings answers
//! and carries out decisions.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::connection::HttpAnswer;

use super::{
    Moment,
    answers::BuyerReply,
    arrivals::Arrival,
    buyer::{Buyer, BuyerCall, BuyerEvent, Next, Scene},
    codes::{CodeReader, RefusalCode},
    findings::Findings,
    pool::CallUnderWay,
    tally::CrowdTally,
    terms::CrowdTerms,
    timeline::Timeline,
};

/// The stock as all threads know it.
#[derive(Debug)]
pub(super) struct CrowdStock {
    units: i64,
    /// Units in buyers' hands.
    held: AtomicI64,
    /// When the stock was first gone, in nanoseconds from the opening.
    gone_at: AtomicI64,
}

impl CrowdStock {
    pub(super) fn new(units: u64) -> Self {
        let units = i64::try_from(units).unwrap_or(i64::MAX);
        Self { units, held: AtomicI64::new(0), gone_at: AtomicI64::new(i64::MAX) }
    }

    fn change(&self, units: i64, now: Moment) {
        if self.held.fetch_add(units, Ordering::Relaxed) + units >= self.units {
            self.gone_at.fetch_min(now.0, Ordering::Relaxed);
        }
    }

    pub(super) fn held(&self) -> u64 {
        u64::try_from(self.held.load(Ordering::Relaxed)).unwrap_or(0)
    }

    pub(super) fn gone_at(&self) -> Option<Moment> {
        let gone_at = self.gone_at.load(Ordering::Relaxed);
        (gone_at != i64::MAX).then_some(Moment(gone_at))
    }
}

#[derive(Debug)]
pub(super) struct Desk<'a> {
    terms: &'a CrowdTerms,
    stock: &'a CrowdStock,
    buyers: Vec<Buyer>,
    vacant: Vec<u32>,
    codes: CodeReader,
    pub(super) findings: Findings,
    pub(super) timeline: Timeline,
    pub(super) tally: CrowdTally,
}

impl<'a> Desk<'a> {
    pub(super) fn new(terms: &'a CrowdTerms, stock: &'a CrowdStock, starts_at: Moment) -> Self {
        Self {
            terms,
            stock,
            buyers: Vec::new(),
            vacant: Vec::new(),
            codes: CodeReader::new(),
            findings: Findings::default(),
            timeline: Timeline::new(starts_at),
            tally: CrowdTally::default(),
        }
    }

    pub(super) fn live(&self) -> usize {
        self.buyers.len() - self.vacant.len()
    }

    pub(super) fn buyer(&self, buyer: u32) -> Option<&Buyer> {
        self.buyers.get(buyer as usize)
    }

    /// Somebody comes, and gets the place of somebody who has left, if there is one.
    pub(super) fn welcome(&mut self, arrival: &Arrival, now: Moment) -> u32 {
        self.tally.came += 1;
        self.timeline.at(now).came += 1;
        let place = self.vacant.pop().unwrap_or_else(|| {
            self.buyers.push(Buyer::default());
            u32::try_from(self.buyers.len() - 1).unwrap_or(u32::MAX)
        });
        if let Some(buyer) = self.buyers.get_mut(place as usize) {
            buyer.become_new(arrival.who, arrival.in_burst, self.terms);
        }
        place
    }

    pub(super) fn dismiss(&mut self, buyer: u32) {
        if let Some(left) = self.buyers.get_mut(buyer as usize) {
            left.is_here = false;
            self.vacant.push(buyer);
        }
    }

    /// Tells a buyer of an event that was due at `due_at`.
    pub(super) fn step(&mut self, buyer: u32, event: BuyerEvent<'_>, due_at: Moment, now: Moment) -> Next {
        let Some(buyer) = self.buyers.get_mut(buyer as usize) else { return Next::Listen };
        let mut scene = Scene { now, due_at, terms: self.terms, findings: &mut self.findings };
        let next = buyer.step(event, &mut scene);
        self.share(now);
        next
    }

    /// Shares changes with the other threads.
    fn share(&mut self, now: Moment) {
        let fresh = std::mem::take(&mut self.findings.fresh);
        if fresh.held != 0 {
            self.stock.change(fresh.held, now);
        }
        if fresh.sold + fresh.admitted > 0 {
            let slice = self.timeline.at(now);
            slice.sold += fresh.sold;
            slice.admitted += fresh.admitted;
        }
    }

    /// A request has left; it could have left at `ready_at`.
    pub(super) fn sent(&mut self, under_way: CallUnderWay, ready_at: Moment, waited: bool) {
        let CallUnderWay { buyer, call, due_at, sent_at } = under_way;
        self.tally.sent(sent_at);
        self.timeline.at(sent_at).requests += 1;
        if call == BuyerCall::Order {
            let is_bot = self.buyer(buyer).is_some_and(|buyer| buyer.who.is_bot);
            self.tally.sent_order(is_bot, sent_at.since(ready_at), sent_at, waited);
            self.timeline.at(due_at).orders_due += 1;
        }
    }

    pub(super) fn answered(&mut self, under_way: CallUnderWay, answer: &HttpAnswer<'_>, now: Moment) -> Next {
        let CallUnderWay { buyer, call, due_at, .. } = under_way;
        let is_bot = self.buyer(buyer).is_some_and(|buyer| buyer.who.is_bot);
        let latency = now.since(due_at);
        self.tally.answered(call, is_bot, latency, now);
        let mut code = RefusalCode::NONE;
        if answer.status >= 400 {
            code = self.codes.read(answer.body);
            self.tally.refused(call, is_bot, code, now);
        }
        if call == BuyerCall::Order && !is_bot {
            self.timeline.record(now, latency);
            if answer.status >= 400 {
                self.timeline.at(now).refuse(code);
            }
        }
        let reply = BuyerReply {
            status: answer.status,
            code,
            retry_after_seconds: answer.retry_after_seconds,
            body: answer.body,
        };
        self.step(buyer, BuyerEvent::Answered(&reply), due_at, now)
    }

    /// Ends holds that nobody will pay.
    pub(super) fn expire(&mut self, now: Moment) {
        self.findings.expire(now);
        self.share(now);
    }

    /// Sends home everybody who is still here.
    pub(super) fn abandon(&mut self, now: Moment) {
        let mut scene = Scene { now, due_at: now, terms: self.terms, findings: &mut self.findings };
        for buyer in self.buyers.iter_mut().filter(|buyer| buyer.is_here) {
            buyer.abandon(&mut scene);
        }
    }
}
