//! The waiting room of one sale on one node. The node follows the view of the keeper, and keeps the room
//! itself when no other node does. `penstock-gate` decides whom to let in; Redis decides who keeps the room.

use std::{
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_domain::{SaleState, SaleStatus, Timestamp};
use penstock_gate::{RoomView, There, Told, Totals, WaitingRoom, late_pass_millis};
use penstock_redis_client::LinkError;
use penstock_shop::gate::DoorOptions;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use crate::{
    gate_calls::{GateCalls, Look, Remembered, Role, Seen},
    numbers::SharedNumbers,
    passes::Passes,
};

/// How often a node looks at a room, keeper or follower.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// The shortest pause between two looks.
const MIN_PAUSE: Duration = Duration::from_millis(10);
/// The longest time a request waits to see what other nodes have told.
const MAX_CATCH_UP: Duration = Duration::from_millis(300);
/// How often a node looks while nothing can happen.
const QUIET_LOOK_EVERY: Duration = Duration::from_millis(500);
/// A room is no longer quiet this long before its opening.
const SOON_MILLIS: i64 = 5_000;
/// How long a keeper keeps the room after a look. Far longer than a look and the pause before the next one
/// take.
const KEEP_MILLIS: u64 = 1_300;
/// How often a node looks at a room whose sale is over, or unknown to its ledger.
const IDLE_LOOK_EVERY: Duration = Duration::from_secs(60);
/// How often a node tells who is there: usually a few hundred bytes, and at most 128 KiB.
const TELL_EVERY: Duration = Duration::from_millis(500);
/// A node does not keep the room if its ledger has been behind on orders for longer than this.
const MAX_DEAF_MILLIS: i64 = 3_000;

/// A room as one node has it.
pub(crate) struct NodeRoom {
    pub(crate) calls: GateCalls,
    pub(crate) options: DoorOptions,
    pub(crate) seed: [u8; 32],
    opens_at: Option<Timestamp>,
    /// The room that people's requests read. It follows the view, even while this node keeps the room.
    pub(crate) shown: Arc<WaitingRoom>,
    pub(crate) numbers: SharedNumbers,
    pub(crate) passes: Passes,
    /// The status that the ledger last told this node.
    status: Mutex<Option<SaleStatus>>,
    has_changed: AtomicBool,
    is_leaving: AtomicBool,
    wake: Notify,
    left: Notify,
    /// Counts the looks that have begun. `ended` has the number of the last one that ended.
    begun: AtomicU64,
    ended: watch::Sender<u64>,
}

impl NodeRoom {
    pub(crate) fn new(
        calls: GateCalls,
        options: DoorOptions,
        (seed, opens_at): ([u8; 32], Option<Timestamp>),
        numbers: SharedNumbers,
        passes: Passes,
    ) -> Self {
        Self {
            shown: Arc::new(WaitingRoom::shared(calls.sale, seed, options.room)),
            calls,
            options,
            seed,
            opens_at,
            numbers,
            passes,
            status: Mutex::default(),
            has_changed: AtomicBool::new(false),
            is_leaving: AtomicBool::new(false),
            wake: Notify::new(),
            left: Notify::new(),
            begun: AtomicU64::new(0),
            ended: watch::Sender::new(0),
        }
    }

    /// True: something people see has changed since the last call, or it is time to hear from everybody on a
    /// stream.
    pub(crate) fn note_status(&self, status: SaleStatus, now: Timestamp) -> bool {
        let before = self.status.lock().unwrap_or_else(PoisonError::into_inner).replace(status);
        if before.is_none() {
            self.wake.notify_one();
        }
        self.has_changed.swap(false, Relaxed) | self.shown.listen(now)
    }

    fn status(&self) -> Option<SaleStatus> {
        *self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stops giving out numbers, and leaves the room to others.
    pub(crate) async fn leave(&self) {
        self.numbers.blocks().close();
        let left = self.left.notified();
        self.is_leaving.store(true, Relaxed);
        self.wake.notify_one();
        left.await;
    }

    /// Waits for a look that begins after this call, but not for long.
    pub(crate) async fn catch_up(&self) {
        let mut ended = self.ended.subscribe();
        let next = self.begun.load(Relaxed) + 1;
        self.wake.notify_one();
        // After a timeout the caller sees the room as it was before.
        let _ = timeout(MAX_CATCH_UP, ended.wait_for(|ended| *ended >= next)).await;
    }

    fn follow(&self, seen: &Seen, view: &RoomView) {
        self.shown.follow(view, seen.at);
        self.has_changed.store(true, Relaxed);
    }
}

/// What the keeper of a room holds.
struct Keeping {
    fence: u64,
    /// Ahead of the shown room by one look, until the view is stored.
    room: WaitingRoom,
    /// The last answer from Redis.
    seen: Seen,
    stored: RoomView,
    /// People who are there, as the nodes last told.
    told: Vec<Told>,
}

/// Looks at the room for as long as the node has it.
pub(crate) async fn look_after(room: Weak<NodeRoom>) {
    let mut looker = Looker::default();
    let mut complaint = None;
    loop {
        let Some(room) = room.upgrade() else { return };
        let is_leaving = room.is_leaving.load(Relaxed);
        let begun = room.begun.fetch_add(1, Relaxed) + 1;
        let looked = looker.look(&room, is_leaving).await;
        room.ended.send_replace(begun);
        room.numbers.set_out_of_sight(looked.is_err());
        complain(&room, &mut complaint, looked.err());
        if is_leaving {
            room.left.notify_one();
            return;
        }
        let pause = pause(&room, looker.seen_at);
        // Limits the looks, however many requests want to catch up.
        sleep(MIN_PAUSE).await;
        let wake = room.wake.notified();
        tokio::select! {
            () = wake => {}
            () = sleep(pause) => {}
        }
    }
}

/// Logs a problem once, and its end once.
fn complain(room: &NodeRoom, known: &mut Option<String>, error: Option<LinkError>) {
    let sale = room.calls.sale;
    match (error.map(|error| error.to_string()), &known) {
        (Some(problem), None) => {
            tracing::error!(%sale, problem, "the waiting room stands still on this node");
            *known = Some(problem);
        }
        (None, Some(_)) => {
            tracing::info!(%sale, "the waiting room goes on again");
            *known = None;
        }
        _ => {}
    }
}

fn pause(room: &NodeRoom, now: Timestamp) -> Duration {
    let Some(status) = room.status() else { return IDLE_LOOK_EVERY };
    let opens_at = status.terms.opens_at;
    match status.state(now) {
        SaleState::Draft | SaleState::Closed => IDLE_LOOK_EVERY,
        SaleState::Scheduled if opens_at.is_some_and(|at| at.millis_since(now) > SOON_MILLIS) => {
            QUIET_LOOK_EVERY
        }
        SaleState::Scheduled | SaleState::Open | SaleState::Paused | SaleState::SoldOut => LOOK_EVERY,
    }
}

struct Looker {
    keeping: Option<Keeping>,
    known_version: u64,
    /// The last view that this node followed.
    view: Option<RoomView>,
    seen_at: Timestamp,
    /// A status of this version shows all orders whose passes were used.
    sale_version: u64,
    /// Since when this node's ledger has been behind that version.
    deaf_since: Option<Timestamp>,
    /// When this node last told who is there, and whether the draw had been made.
    told: Option<(Instant, bool)>,
}

impl Default for Looker {
    fn default() -> Self {
        let seen_at = Timestamp::from_millis(0);
        Self {
            keeping: None,
            known_version: 0,
            view: None,
            seen_at,
            sale_version: 0,
            deaf_since: None,
            told: None,
        }
    }
}

/// What the keeper stores with its look.
#[derive(Default)]
struct Outcome {
    view: Option<RoomView>,
    taken_done: usize,
}

impl Looker {
    async fn look(&mut self, room: &NodeRoom, is_leaving: bool) -> Result<(), LinkError> {
        let status = room.status();
        let is_over = status.is_none_or(|status| status.state(self.seen_at) == SaleState::Closed);
        let is_deaf = self.is_deaf(status.as_ref());
        let outcome = match (&mut self.keeping, &status) {
            (Some(keeping), Some(status)) => keeping.tick(status),
            _ => Outcome::default(),
        };
        let is_drawn = room.shown.draw().count.is_some();
        let is_due =
            self.told.is_none_or(|(at, was_drawn)| at.elapsed() >= TELL_EVERY || is_drawn != was_drawn);
        let asks_who_is_there = is_due || self.keeping.as_ref().is_some_and(Keeping::waits_for_places);
        // Before its first look at the room, a node does not know of the draw, and the others would wait
        // until it tells places.
        let has_seen = self.seen_at > Timestamp::from_millis(0);
        let told = if asks_who_is_there && has_seen && !is_leaving { room.shown.told() } else { None };
        let keeping = self.keeping.as_ref();
        let look = Look {
            fence: keeping.map_or(0, |keeping| keeping.fence),
            keep_millis: if is_leaving || is_over || is_deaf { 0 } else { KEEP_MILLIS },
            known_version: self.known_version,
            view: outcome.view.as_ref(),
            taken_done: outcome.taken_done,
            asks_who_is_there,
            told: told.as_ref(),
            late_pass_millis: late_pass_millis(room.options.room.pass_seconds),
        };
        let known = room.numbers.issued();
        let seen = room.calls.tend(&room.seed, &look).await;
        // A node that had nothing to tell tries again with its next look, because others may be waiting for
        // it.
        if told.is_some() {
            self.told = Some((Instant::now(), is_drawn));
        }
        if !matches!(seen, Ok(Some(_))) {
            // The view may have been stored or not. The next look finds out.
            self.keeping = None;
        }
        match seen? {
            Some(seen) if seen.issued >= known => {
                self.take_in(room, seen, outcome);
                Ok(())
            }
            // The room is no longer needed.
            None if is_over => Ok(()),
            // The server was wiped, or replaced by one that had not heard everything.
            _ => self.put_back(room).await,
        }
    }

    /// A keeper that hears nothing from its ledger lets nobody in, so another node should keep the room.
    fn is_deaf(&mut self, status: Option<&SaleStatus>) -> bool {
        if status.is_none_or(|status| status.version >= self.sale_version) {
            self.deaf_since = None;
            return false;
        }
        let since = *self.deaf_since.get_or_insert(self.seen_at);
        self.seen_at.millis_since(since) > MAX_DEAF_MILLIS
    }

    /// Restores a room, or a part of it, that Redis has lost, from this node's memory.
    async fn put_back(&mut self, room: &NodeRoom) -> Result<(), LinkError> {
        self.keeping = None;
        let issued = room.numbers.issued();
        let early = room.shown.draw().count;
        let remembered = Remembered::new(issued, early, self.known_version, self.view.clone());
        tracing::warn!(sale = %room.calls.sale, issued, "Redis lost a waiting room; restoring it from this node");
        let seed = room.calls.room(room.seed, room.opens_at, &remembered).await?;
        if seed == room.seed { Ok(()) } else { Err(room.calls.other_seed()) }
    }

    fn take_in(&mut self, room: &NodeRoom, mut seen: Seen, outcome: Outcome) {
        self.seen_at = seen.at;
        room.passes.note_live(seen.live_passes.all);
        room.numbers.note_issued(seen.issued);
        if let Some(view) = &seen.view {
            room.follow(&seen, view);
            self.view = Some(view.clone());
        }
        room.shown.still_kept(if seen.role == Role::Follower { seen.kept_at } else { seen.at });
        self.known_version = seen.version;
        self.sale_version = seen.sale_version;
        match (seen.role, self.keeping.take()) {
            (Role::Keeper, Some(mut keeping)) => {
                if let Some(view) = outcome.view {
                    room.follow(&seen, &view);
                    self.view = Some(view.clone());
                    keeping.stored = view;
                }
                if let Some(told) = seen.told.take() {
                    keeping.told = told;
                }
                self.keeping = Some(Keeping { seen, ..keeping });
            }
            (Role::NewKeeper, _) => self.keeping = Some(Keeping::begin(room, seen, self.view.clone())),
            (Role::Keeper | Role::Follower, _) => {}
        }
    }
}

impl Keeping {
    /// Continues where the previous keeper stopped. If its view can't be read, continues where this node last
    /// saw the room.
    fn begin(room: &NodeRoom, mut seen: Seen, followed: Option<RoomView>) -> Self {
        tracing::debug!(sale = %room.calls.sale, fence = seen.fence, "this node keeps the waiting room");
        let stored = seen.view.clone().or(followed).unwrap_or_default();
        let keeping = WaitingRoom::shared(room.calls.sale, room.seed, room.options.room);
        keeping.follow(&stored, seen.kept_at);
        let told = seen.told.take().unwrap_or_default();
        Self { fence: seen.fence, room: keeping, told, stored, seen }
    }

    /// Some node has told only numbers so far. Nobody is called until every node has heard of the draw and
    /// tells places.
    fn waits_for_places(&self) -> bool {
        self.seen.early.is_some() && !self.told.iter().all(Told::is_placed)
    }

    fn tick(&mut self, status: &SaleStatus) -> Outcome {
        let seen = &self.seen;
        let there = There::of_all(&self.told, seen.early.is_some());
        let totals = Totals {
            issued: seen.issued,
            early: seen.early,
            live_passes: seen.live_passes,
            taken: &seen.taken,
            sale_version: seen.sale_version,
            there: &there,
        };
        let view = self.room.tend(status, &totals, seen.at);
        Outcome { taken_done: seen.taken.len(), view: (view != self.stored).then_some(view) }
    }
}
