//! The worker: finds the streams that have something to settle, and gives each a turn. Workers don't talk to
//! each other: the one with a stream's lease settles it, and each takes free streams in its own order.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
    time::Instant,
};

use fastrand::Rng;
use futures_util::{
    future::{BoxFuture, FutureExt},
    stream::{FuturesUnordered, StreamExt},
};
use penstock_ledger::{Health, Unavailable};
use penstock_records::{RecordsError, StreamView};
use tokio::sync::watch;

use crate::{Settlement, backoff::Backoff, pace::SharedPace, pause, turn::Stream};

/// A job that has ended.
enum JobEnd {
    Listed(Result<Vec<Arc<str>>, Unavailable>),
    Looked(Result<Vec<StreamView>, RecordsError>),
    Turned(Stream),
}

struct Worker<'a> {
    settlement: &'a Settlement,
    pace: SharedPace,
    random: Rng,
    stop: watch::Receiver<bool>,
    /// Streams that wait for a turn.
    streams: HashMap<Arc<str>, Stream>,
    /// Streams that have a turn now.
    turning: HashSet<Arc<str>>,
    /// Turns, and at most one listing and one look, all at the same time.
    jobs: FuturesUnordered<BoxFuture<'a, JobEnd>>,
    listing: Errand,
    look: Errand,
    /// Whether the streams have been listed before.
    has_listed: bool,
}

/// Something that is done again and again, one at a time.
struct Errand {
    under_way: bool,
    next_at: Instant,
    backoff: Backoff,
}

impl Errand {
    fn is_due(&self, now: Instant) -> bool {
        !self.under_way && now >= self.next_at
    }
}

impl Settlement {
    pub(crate) async fn settle_until(&self, mut stop: watch::Receiver<bool>) {
        let mut worker = Worker::new(self, stop.clone());
        while !*stop.borrow() {
            worker.begin_what_is_due();
            tokio::select! {
                Some(done) = worker.jobs.next(), if !worker.jobs.is_empty() => worker.take(done),
                stopped = pause(&mut stop, self.options.poll_interval) => if stopped { break },
            }
        }
        worker.end().await;
    }
}

impl<'a> Worker<'a> {
    fn new(settlement: &'a Settlement, stop: watch::Receiver<bool>) -> Self {
        let now = Instant::now();
        let options = &settlement.options;
        let errand = || Errand { under_way: false, next_at: now, backoff: settlement.backoff() };
        Self {
            settlement,
            pace: SharedPace::new(options.max_decisions_per_second, options.hold_back, now),
            random: Rng::with_seed(settlement.seed),
            stop,
            streams: HashMap::new(),
            turning: HashSet::new(),
            jobs: FuturesUnordered::new(),
            listing: errand(),
            look: errand(),
            has_listed: false,
        }
    }

    fn begin_what_is_due(&mut self) {
        let (settlement, now) = (self.settlement, Instant::now());
        if settlement.ledger.health() == Health::Recovering {
            return;
        }
        if self.listing.is_due(now) {
            self.listing.under_way = true;
            self.jobs.push(async { JobEnd::Listed(settlement.ledger.feed().streams().await) }.boxed());
        }
        let feed = settlement.ledger.feed();
        let waiting = self.streams.values().filter(|stream| {
            now >= stream.rests_until && feed.head(&stream.name) > stream.settled.unwrap_or(0)
        });
        let (leased, unknown): (Vec<&Stream>, Vec<&Stream>) =
            waiting.partition(|stream| stream.lease.is_some());
        let mut leased: Vec<Arc<str>> = leased.into_iter().map(|stream| stream.name.clone()).collect();
        let unknown: Vec<Arc<str>> = unknown.into_iter().map(|stream| stream.name.clone()).collect();
        self.random.shuffle(&mut leased);
        self.begin_turns(leased);
        if !unknown.is_empty() && self.look.is_due(now) && self.places() > 0 {
            self.look.under_way = true;
            self.jobs.push(async move { JobEnd::Looked(settlement.records.leases(&unknown).await) }.boxed());
        }
    }

    /// Gives turns to as many of `streams` as there are places.
    fn begin_turns(&mut self, streams: Vec<Arc<str>>) {
        let settlement = self.settlement;
        for name in streams {
            let held_back = self.pace.holds_back(settlement.ledger.feed().head(&name), Instant::now());
            if held_back || self.places() == 0 {
                return;
            }
            let Some(stream) = self.streams.remove(&name) else { continue };
            self.turning.insert(name);
            let turn = settlement.turn(stream, self.pace.clone(), self.stop.clone());
            self.jobs.push(turn.map(JobEnd::Turned).boxed());
        }
    }

    fn places(&self) -> usize {
        self.settlement.options.max_streams.saturating_sub(self.turning.len())
    }

    fn take(&mut self, done: JobEnd) {
        match done {
            JobEnd::Listed(Ok(streams)) => self.listed(streams),
            JobEnd::Listed(Err(error)) => {
                after_failure(self.settlement, &mut self.listing, "the streams could not be listed", &error);
            }
            JobEnd::Looked(Ok(views)) => self.looked(views),
            JobEnd::Looked(Err(error)) => {
                let what = "the settlement cursors could not be read";
                after_failure(self.settlement, &mut self.look, what, &error);
            }
            JobEnd::Turned(stream) => {
                self.turning.remove(&stream.name);
                self.streams.insert(stream.name.clone(), stream);
            }
        }
    }

    fn listed(&mut self, streams: Vec<Arc<str>>) {
        let settlement = self.settlement;
        settlement.stats.streams(&streams);
        if !self.has_listed {
            self.has_listed = true;
            settlement.stats.looked(None);
        }
        let now = Instant::now();
        let mut before = std::mem::take(&mut self.streams);
        for name in streams {
            if !self.turning.contains(&name) {
                let stream = before.remove(&name);
                let stream = stream.unwrap_or_else(|| Stream::new(name.clone(), settlement.backoff(), now));
                self.streams.insert(name, stream);
            }
        }
        self.after_success(|worker| &mut worker.listing);
    }

    /// Takes free streams, in its own order and not all at once, so that several workers share them.
    fn looked(&mut self, views: Vec<StreamView>) {
        let settlement = self.settlement;
        settlement.stats.looked(None);
        let mut free = Vec::new();
        for StreamView { stream: name, cursor, owner, leased } in views {
            settlement.stats.located(&name, cursor.position);
            let Some(stream) = self.streams.get_mut(&name) else { continue };
            let somebody_else = owner.filter(|owner| *owner != settlement.owner);
            let head = settlement.ledger.feed().head(&name);
            if cursor.position == head {
                stream.settled = Some(head);
                settlement.stats.well(&name);
                settlement.ledger.feed().settled(&name, cursor);
            } else if somebody_else.is_some() && leased {
                settlement.stats.well(&name);
            } else {
                stream.left_by = somebody_else;
                free.push(name);
            }
        }
        self.random.shuffle(&mut free);
        free.truncate(free.len().div_ceil(2).min(self.places()));
        self.begin_turns(free);
        self.after_success(|worker| &mut worker.look);
    }

    fn after_success(&mut self, errand: fn(&mut Self) -> &mut Errand) {
        // Somewhat more or less, so that workers don't look in step.
        let wait = self.settlement.options.discover_every.mul_f64(0.75 + 0.5 * self.random.f64());
        let errand = errand(self);
        errand.under_way = false;
        errand.backoff.reset();
        errand.next_at = Instant::now() + wait;
    }

    /// Lets the turns end, and leaves the streams to others.
    async fn end(mut self) {
        while !self.turning.is_empty() {
            let Some(done) = self.jobs.next().await else { break };
            self.take(done);
        }
        if self.streams.values().any(|stream| stream.lease.is_some())
            && let Err(error) = self.settlement.records.release(&self.settlement.owner).await
        {
            tracing::warn!(reason = %error, "the leases could not be given back; they run out");
        }
    }
}

fn after_failure(settlement: &Settlement, errand: &mut Errand, what: &str, why: &dyn std::fmt::Display) {
    settlement.stats.looked(Some(format!("{what}: {why}")));
    tracing::warn!(reason = %why, "{what}; trying again");
    errand.under_way = false;
    errand.next_at = Instant::now() + errand.backoff.next((settlement.clock)());
}
