//! The fast lane: everything that a connection reads passes here before hyper sees it. The lane answers a
//! claim that the latch refuses, and a request for a sale, on the spot from prepared bytes. It checks other
//! plain claims, and refuses them or passes them to the ledger. Everything else goes on to hyper, one request
//! at a time, so that the lane always knows where the next request begins.
//!
//! A sold-out sale gets a hundred refused claims for every accepted one. Here, refusing one costs a read, a
//! scan of its head and a write: nothing is allocated, locked or logged. A request that is not plain (another
//! version, no length, chunks, expectations, an odd `Connection`) goes to hyper together with the rest of the
//! connection, because two parsers that disagree on where a request ends make request smuggling possible.

mod head;
mod reading;
mod writing;

use std::{
    cell::RefCell,
    io,
    ops::Range,
    panic::AssertUnwindSafe,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures_util::{FutureExt as _, future::BoxFuture};
use penstock_domain::{Accepted, SaleId};
use penstock_shop::{
    Code,
    gate::Peer,
    orders::{Attempt, ClaimRequest},
    storefront::{Details, Shelf, WrittenSale},
    tally::{ConnectionEnd, Group, Outcome, Pending, SaleTally, Tally},
};
use tokio::{
    io::{AsyncRead as _, ReadBuf},
    net::TcpStream,
};

use self::head::{Call, ClaimHead, Forwarded, Head, SaleHead};
use super::{
    answers::{DateCache, PreparedRefusals, write_not_modified, write_order, write_sale},
    connections::{Connections, MAX_WAITS},
    entry::Entry,
    peer::Remote,
    pulse::{Pulse, Working},
};
use crate::{
    api::{
        Api,
        buyer::orders::{self, ClaimRead, outcome_of},
    },
    contract::{
        problem::{Problem, panicked},
        wire::is_known,
    },
};

const SCRATCH_BYTES: usize = 64 * 1024;
/// A request in more pieces than this goes to hyper, which remembers how far it has read.
const MAX_PIECES: u32 = 8;
/// The largest piece of a request that hyper gets at once. Hyper answers all requests in it before it checks
/// whether the client reads, so this bounds what it collects: `READ_AHEAD_BYTES`.
const PIECE_BYTES: usize = 512;

thread_local! {
    /// Requests are read into it and most are answered from it, so an idle connection holds no buffer.
    static SCRATCH: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH_BYTES].into());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Between two requests: hyper has nothing to do.
    Open,
    /// This many bytes of the current request are still to go to hyper.
    Passing(usize),
    /// Hyper has the whole request, but its answer is not out yet.
    Answering,
    /// Everything that arrives goes to hyper.
    HandedOver,
    /// Nothing more is read, because nobody knows where the next request would begin.
    Ended,
}

/// What to do with the bytes at hand.
enum Judgement {
    /// A claim of this length that is refused.
    Refuse(usize, Problem),
    /// A claim of this length for the ledger, and its sale's counters.
    Claim(usize, Attempt, Arc<SaleTally>),
    /// A request of this length that was answered with a sale.
    Shown(usize),
    /// A request of this length for hyper to answer.
    Pass(usize),
    HandOver,
    /// Not a request that can be accepted, and why.
    Malformed(&'static str),
    /// Not decidable yet.
    Wait,
    /// A claim of this sale whose body is not whole yet.
    WaitForBody(SaleId),
}

/// A claim that the ledger is deciding.
struct Deciding {
    decision: BoxFuture<'static, Result<(Accepted, Arc<Details>), Problem>>,
    pending: Pending,
    _working: Working,
}

pub(crate) struct Lane {
    stream: TcpStream,
    api: Api,
    refusals: Arc<PreparedRefusals>,
    tally: Arc<Tally>,
    remote: Remote,
    pulse: Arc<Pulse>,
    mode: Mode,
    /// The length of the last request that went to hyper.
    passed_bytes: usize,
    /// Bytes that were read but not yet judged or passed on.
    pending: Vec<u8>,
    /// How often the same incomplete request was judged.
    pieces: u32,
    /// The sale of a claim whose body has not arrived as a whole. If it never does, its client is gone.
    incomplete: Option<SaleId>,
    /// Nothing after this claim is looked at before it is answered.
    deciding: Option<Deciding>,
    /// Answers that are not written yet.
    answers: Vec<u8>,
    /// Once there are this many bytes of answers, no further request is looked at until they are written.
    max_answer_bytes: usize,
    /// Requests wait in `pending` because that limit was reached.
    is_full: bool,
    /// The client has not read everything that we wrote.
    is_stalled: bool,
    /// But it has read some since we last checked.
    has_taken: bool,
    /// How often this connection yielded to others because the memory for unread answers was full.
    waits: u32,
    connections: Arc<Connections>,
    /// How many of hyper's answers are out.
    flushed: u64,
    /// Hyper tried to read while it answered, and got nothing. It has to be woken to try again.
    looked_away: bool,
    date: DateCache,
}

impl Lane {
    pub(crate) fn new(stream: TcpStream, entry: &Entry) -> Self {
        Self {
            stream,
            api: entry.api.clone(),
            refusals: Arc::clone(&entry.refusals),
            tally: Arc::clone(&entry.tally),
            remote: entry.remote,
            pulse: Arc::clone(&entry.pulse),
            mode: Mode::Open,
            passed_bytes: 0,
            pending: Vec::new(),
            pieces: 0,
            incomplete: None,
            deciding: None,
            answers: Vec::new(),
            max_answer_bytes: entry.api.options.max_unread_bytes_per_connection,
            is_full: false,
            is_stalled: false,
            has_taken: false,
            waits: 0,
            connections: Arc::clone(&entry.connections),
            flushed: 0,
            looked_away: false,
            date: DateCache::default(),
        }
    }

    fn judge(&mut self, bytes: &[u8]) -> Judgement {
        match head::read(bytes) {
            Head::Partial => Judgement::Wait,
            Head::Odd => Judgement::HandOver,
            Head::Malformed(why) => Judgement::Malformed(why),
            Head::Plain { length, call: Call::Sale(asked), .. } if self.show(asked) => {
                Judgement::Shown(length)
            }
            Head::Plain { length, call: Call::Sale(_) | Call::Other, .. } => Judgement::Pass(length),
            Head::Plain { head_length, length, call: Call::Claim(claim) } => {
                self.judge_claim(&claim, bytes, head_length..length)
            }
        }
    }

    /// Checks a claim whose body is at `place`. Only whole claims are looked at, because the next request begins
    /// after the body.
    fn judge_claim(&self, claim: &ClaimHead<'_>, bytes: &[u8], place: Range<usize>) -> Judgement {
        let length = place.end;
        let Some(body) = bytes.get(place) else {
            let may_wait = self.pieces < MAX_PIECES;
            return if may_wait { Judgement::WaitForBody(claim.sale) } else { Judgement::Pass(length) };
        };
        // Hyper announces the end of a connection.
        let Some(peer) = self.peer(claim).filter(|_| !self.pulse.is_finishing()) else {
            return Judgement::Pass(length);
        };
        let shop = &self.api.shop;
        let read = ClaimRead {
            request: ClaimRequest { key: claim.key, pass: claim.pass, peer, now: shop.now() },
            credentials: claim.credentials,
            is_json: claim.is_json,
            body: Ok(body),
        };
        let check = |shelf: &Arc<Shelf>| {
            let counted = shelf.tallies.of(&self.tally);
            match orders::check(shop, shelf, read) {
                Ok(attempt) => Judgement::Claim(length, attempt, Arc::clone(counted)),
                Err(problem) => {
                    counted.count(Outcome::Refused(problem.code));
                    Judgement::Refuse(length, problem)
                }
            }
        };
        let judged = shop.storefront.with_shelf(claim.sale, check);
        judged.unwrap_or_else(|| Judgement::Refuse(length, shop.missing_sale().into()))
    }

    /// Answers with the sale. False if not everybody may see it, or if hyper has to announce the end of the
    /// connection.
    fn show(&mut self, asked: SaleHead<'_>) -> bool {
        if self.pulse.is_finishing() {
            return false;
        }
        let now = self.api.shop.now();
        let mut write = |sale: &WrittenSale, counted: &SaleTally| {
            let pending = Pending::new(&self.tally, Group::Sales);
            let date = self.date.at(now);
            let outcome = if asked.known.is_some_and(|known| is_known(sale, known)) {
                write_not_modified(sale, date, &mut self.answers);
                Outcome::NotModified
            } else {
                write_sale(sale, now, date, &mut self.answers);
                Outcome::Ok
            };
            pending.answered(outcome);
            counted.count(outcome);
        };
        let show = |shelf: &Arc<Shelf>| {
            shelf.with_written(now, |sale| write(sale, shelf.tallies.of(&self.tally))).is_some()
        };
        let storefront = &self.api.shop.storefront;
        !storefront.is_dark() && storefront.with_shelf(asked.sale, show).unwrap_or(false)
    }

    /// Where the claim comes from. None if hyper has to join the headers of several proxies.
    fn peer(&self, claim: &ClaimHead<'_>) -> Option<Peer> {
        let forwarded = match (self.remote, claim.forwarded) {
            (Remote::Proxy(_), Forwarded::Several) => return None,
            (_, Forwarded::Once(list)) => Some(list),
            _ => None,
        };
        Some(self.remote.peer(forwarded.into_iter(), &self.api.options.trusted_proxies))
    }

    fn decide(&mut self, attempt: Attempt, counted: Arc<SaleTally>) {
        let shop = Arc::clone(&self.api.shop);
        let decision = async move {
            let decided = AssertUnwindSafe(attempt.decide(&shop)).catch_unwind().await;
            decided.map_or_else(|_| Err(panicked()), |decided| decided.map_err(Problem::from))
        };
        self.deciding = Some(Deciding {
            decision: Box::pin(decision),
            pending: Pending::of_claim(&self.tally, counted),
            _working: self.pulse.deciding(),
        });
    }

    /// Waits for the ledger and writes the answer into the buffer.
    fn poll_decision(&mut self, context: &mut Context<'_>) -> Poll<()> {
        let Some(deciding) = &mut self.deciding else { return Poll::Ready(()) };
        let decided = ready!(deciding.decision.as_mut().poll(context));
        self.make_room();
        let date = self.date.at(self.api.shop.now());
        match &decided {
            Ok((accepted, details)) => {
                write_order(&accepted.order, &details.order_form, date, &mut self.answers);
            }
            Err(problem) => self.refusals.write_problem(problem, date, &mut self.answers),
        }
        if let Some(deciding) = self.deciding.take() {
            deciding.pending.answered(outcome_of(&decided));
        }
        Poll::Ready(())
    }

    /// A request is complete, and the lane handles it.
    fn take(&mut self) {
        self.pieces = 0;
        self.pulse.arrived();
        self.pulse.beat();
    }

    /// Refuses a request and announces the end of the connection.
    fn end_with(&mut self, problem: &Problem) {
        self.tally.count(Outcome::Refused(problem.code));
        let date = self.date.at(self.api.shop.now());
        self.refusals.write_last(problem, date, &mut self.answers);
    }

    /// Refuses a late request, if no other answer is on its way to the client, and closes.
    pub(crate) fn refuse_late(mut self) {
        self.incomplete = None;
        if !self.answers.is_empty() || self.flushed != self.pulse.answered() {
            return self.abandon();
        }
        let date = self.date.at(self.api.shop.now());
        self.refusals.write_last(&Code::RequestTimeout.into(), date, &mut self.answers);
        // A client that does not take it at once does not get it.
        let _ = self.stream.try_write(&self.answers);
    }

    /// Closes. If the client does not read what we wrote, the system would keep it in memory for minutes, so
    /// the connection is reset.
    pub(crate) fn abandon(self) {
        if self.is_stalled {
            // If this fails, the system closes the connection by its own rules.
            let _ = self.stream.set_zero_linger();
        }
    }

    /// Handles the lane's own requests at the beginning of `bytes`, up to the first that the ledger has to
    /// decide or until there are enough answers. Returns how many bytes they took. The mode tells what
    /// happens to the rest.
    fn take_requests(&mut self, bytes: &[u8]) -> usize {
        self.make_room();
        self.is_full = false;
        let mut done = 0;
        while done < bytes.len() {
            if self.answers.len() >= self.max_answer_bytes {
                self.is_full = true;
                break;
            }
            let judgement = self.judge(&bytes[done..]);
            self.incomplete = None;
            match judgement {
                Judgement::Refuse(length, problem) => {
                    done += length;
                    self.take();
                    self.tally.count(Outcome::Refused(problem.code));
                    let date = self.date.at(self.api.shop.now());
                    self.refusals.write_problem(&problem, date, &mut self.answers);
                    continue;
                }
                Judgement::Shown(length) => {
                    done += length;
                    self.take();
                    continue;
                }
                Judgement::Claim(length, attempt, counted) => {
                    done += length;
                    self.take();
                    self.decide(attempt, counted);
                }
                Judgement::Pass(length) => {
                    self.pieces = 0;
                    self.pulse.pass();
                    self.mode = Mode::Passing(length);
                    self.passed_bytes = length;
                    if bytes.len() - done < length {
                        self.pulse.arriving();
                    } else {
                        self.pulse.arrived();
                    }
                }
                Judgement::HandOver => {
                    self.mode = Mode::HandedOver;
                    self.pulse.arriving();
                }
                Judgement::Malformed(why) => {
                    done = bytes.len();
                    self.take();
                    self.end_with(&Problem::with_detail(Code::BadRequest, why));
                    self.pulse.end_because(ConnectionEnd::Malformed);
                    self.mode = Mode::Ended;
                }
                Judgement::WaitForBody(sale) => {
                    self.pulse.arriving();
                    self.pieces += 1;
                    self.incomplete = Some(sale);
                }
                Judgement::Wait => {
                    self.pulse.arriving();
                    self.pieces += 1;
                    if self.pieces > MAX_PIECES {
                        self.mode = Mode::HandedOver;
                    }
                }
            }
            break;
        }
        done
    }

    /// Reads the bytes that have come in. False if there will be no more.
    fn poll_fill(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        SCRATCH.with_borrow_mut(|scratch| {
            let mut read = ReadBuf::new(scratch);
            ready!(Pin::new(&mut self.stream).poll_read(context, &mut read))?;
            let bytes = read.filled();
            if bytes.is_empty() {
                return Poll::Ready(Ok(false));
            }
            let done = match self.mode {
                Mode::Open if self.pending.is_empty() && self.deciding.is_none() => self.take_requests(bytes),
                Mode::HandedOver if !self.pulse.is_handling() => {
                    self.pulse.arriving();
                    0
                }
                _ => 0,
            };
            self.pending.extend_from_slice(&bytes[done..]);
            if !self.pending.is_empty() {
                self.pulse.keep_in_lane(self.pending.capacity());
            }
            Poll::Ready(Ok(true))
        })
    }

    /// The first `count` bytes of `pending` are done.
    fn forget(&mut self, count: usize) {
        self.pending.drain(..count);
        if self.pending.is_empty() {
            // Most connections are idle most of the time.
            self.pending = Vec::new();
        }
        self.pulse.keep_in_lane(self.pending.capacity());
    }

    /// Serves without hyper as long as it is not needed. False if the connection has ended.
    pub(crate) fn poll_alone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        let is_for_hyper = ready!(self.poll_open(context))?;
        self.pulse.do_without_hyper(false);
        Poll::Ready(Ok(is_for_hyper && self.mode != Mode::Ended))
    }

    /// One step between two requests. True if there is something for hyper.
    fn poll_open(&mut self, context: &mut Context<'_>) -> Poll<io::Result<bool>> {
        if self.waits < MAX_WAITS && self.connections.is_full() {
            // Connections that were given up leave before this one takes any memory.
            self.waits += 1;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        self.waits = 0;
        // Bytes read into an empty lane are judged as they come in. A request for hyper that waits for
        // answers to be written is judged only once.
        let mut is_unjudged = self.mode == Mode::Open && !self.pending.is_empty();
        loop {
            if self.deciding.is_some() {
                // Earlier answers and this one don't wait for each other. Otherwise a client that does not
                // read could make the connection look as if we were working on it.
                let written = self.poll_write_answers(context)?;
                ready!(self.poll_decision(context));
                if written.is_pending() {
                    ready!(self.poll_write_answers(context))?;
                }
                is_unjudged = !self.pending.is_empty();
            }
            if is_unjudged {
                let pending = std::mem::take(&mut self.pending);
                let done = self.take_requests(&pending);
                self.pending = pending;
                self.forget(done);
            }
            if self.deciding.is_some() {
                continue;
            }
            // Also before more is read, so that a client that does not read our answers can't make us collect
            // them.
            ready!(self.poll_write_answers(context))?;
            if self.mode != Mode::Open {
                return Poll::Ready(Ok(true));
            }
            if self.is_full {
                // A client that sends many requests at once takes turns with the others.
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            is_unjudged = !self.pending.is_empty();
            if !ready!(self.poll_fill(context))? {
                // Hyper has to see the end too, and everything before it.
                self.mode = Mode::HandedOver;
                self.incomplete = None;
                return Poll::Ready(Ok(!self.pending.is_empty()));
            }
        }
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some(sale) = self.incomplete {
            self.tally.count(Outcome::ClientGone);
            let count = |shelf: &Arc<Shelf>| shelf.tallies.of(&self.tally).count(Outcome::ClientGone);
            self.api.shop.storefront.with_shelf(sale, count);
        }
    }
}
