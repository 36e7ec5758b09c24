//! A waiting room that several nodes share. One of them keeps it: it lets people in by the totals of all nodes. What it
//! comes to is a view, from a kilobyte in a small room to 100 KiB where half of 20,000 have left, from which every other node answers as if it were the only one, and from
//! which another goes on when the keeper is gone. How nodes hear of each other is not known here.

use std::sync::{
    Mutex, OnceLock, PoisonError, RwLock,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use penstock_domain::{SaleId, SaleStatus, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Admission, RoomOptions, Seed, UNKNOWN, WaitingRoom};
use crate::{
    draw::Draw,
    line::Line,
    numbers::Numbers,
    pass_share::LivePasses,
    presence::{Presence, There, Told},
    room_state::RoomState,
    turns::{TurnStep, Turns},
    uptake::Uptake,
};

/// A room that nobody kept for longer than this was of use to nobody: the time does not count against anybody's turn.
const LONG_UNKEPT_MILLIS: i64 = 5_000;
/// What the keeper of a room tells the other nodes, and the next keeper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomView {
    /// Numbers below are given out, or in the hands of a node that gives them out.
    pub issued: u64,
    /// So many numbers take part in the draw. None: the sale has not opened.
    pub early: Option<u64>,
    /// The places below were called, or gone past because nobody was there.
    pub admitted: u64,
    /// People who were ever called.
    pub let_in: u64,
    /// People a second.
    pub pace: Option<f64>,
    pub turns: Vec<TurnStep>,
    pub line: Line,
    /// What was learnt of turns that nobody takes up.
    pub uptake: Uptake,
}

/// The counts of all nodes together, taken in one moment, so that a turn that has become a pass is in exactly one of them.
#[derive(Clone, Copy, Debug)]
pub struct Totals<'a> {
    pub issued: u64,
    pub early: Option<u64>,
    pub live_passes: LivePasses,
    /// Numbers whose turn has become a pass since the last time.
    pub taken: &'a [u64],
    /// Passes that are not live any more became orders, which a status of this version has seen.
    pub sale_version: u64,
    /// Who is there, as nodes told it lately.
    pub there: &'a There,
}

impl WaitingRoom {
    /// A room of which nothing is known yet but its seed. It gives out no numbers: they come from what the nodes share.
    pub fn shared(sale: SaleId, seed: [u8; 32], options: RoomOptions) -> Self {
        let turns = Turns::shared(options.turn_seconds, options.uptake_seconds);
        Self {
            sale,
            options,
            seed: Seed(seed),
            numbers: Numbers::starting_at(0),
            is_shared: true,
            draw: OnceLock::new(),
            presence: Presence::new(false),
            line: RwLock::default(),
            admitted: AtomicU64::new(0),
            pace: AtomicU64::new(UNKNOWN),
            admission: Mutex::new(Admission::new(turns, options, RoomState::new(seed))),
        }
    }

    /// To be called about every 100 milliseconds on the room that people ask. True: those who listen should be heard of
    /// again.
    pub fn listen(&self, now: Timestamp) -> bool {
        self.presence.listen(self.draw.get(), now)
    }

    /// Who is there, as far as this node has heard of them. None: there is nothing to tell yet.
    pub fn told(&self) -> Option<Told> {
        self.presence.there().told()
    }

    /// Takes over what the keeper saw when it last looked, at `kept_at`.
    pub fn follow(&self, view: &RoomView, kept_at: Timestamp) {
        let mut admission = self.lock();
        // People were there before this node was, and it has not heard of any. Where the sale is open and nobody has been let in, it has only
        // just begun, and who is there comes to be known at once.
        let is_waiting_for_draw = view.early.is_none() && view.issued > 0;
        if admission.ticked_at.is_none() && (view.let_in > 0 || is_waiting_for_draw) {
            self.presence.settle();
        }
        admission.let_in = view.let_in;
        self.numbers.given_out_elsewhere(view.issued);
        self.take_up_draw(&mut admission, view.early);
        admission.turns.replace(&view.turns, &view.uptake);
        admission.ticked_at = Some(kept_at);
        self.pace.store(view.pace.map_or(UNKNOWN, f64::to_bits), Relaxed);
        *self.line.write().unwrap_or_else(PoisonError::into_inner) = view.line.clone();
        // Last: whoever sees that their turn has come has to find it.
        self.admitted.store(view.admitted, Release);
    }

    /// The room was kept at this time, whether or not that changed anything.
    pub fn still_kept(&self, kept_at: Timestamp) {
        let mut admission = self.lock();
        admission.ticked_at = admission.ticked_at.map(|ticked_at| ticked_at.max(kept_at));
    }

    /// The keeper's look at the room, to be taken about every 100 milliseconds. What comes of it counts when it is durable
    /// and nobody else has become the keeper; so the room that people ask is another, which follows the view.
    pub fn tend(&self, status: &SaleStatus, totals: &Totals<'_>, now: Timestamp) -> RoomView {
        let mut admission = self.lock();
        self.numbers.given_out_elsewhere(totals.issued);
        self.take_up_draw(&mut admission, totals.early);
        make_up_for_absence(&mut admission, now);
        for place in totals.taken.iter().filter_map(|number| self.place(*number)) {
            admission.note_taken(place, now);
        }
        admission.turns.passes_are_counted();
        drop(admission);
        // Orders took the place of passes, and the status at hand does not show them yet: nobody is let in on it.
        let is_old = status.version < totals.sale_version;
        let live_passes = if is_old { u64::MAX.into() } else { totals.live_passes };
        self.look(status, live_passes, totals.there, now);
        self.view()
    }

    fn view(&self) -> RoomView {
        let admission = self.lock();
        let (turns, uptake) = admission.turns.told();
        RoomView {
            issued: self.numbers.issued(),
            early: self.draw.get().map(Draw::count),
            admitted: self.admitted.load(Acquire),
            let_in: admission.let_in,
            pace: self.pace(),
            turns,
            line: self.line.read().unwrap_or_else(PoisonError::into_inner).clone(),
            uptake,
        }
    }

    fn take_up_draw(&self, admission: &mut Admission, early: Option<u64>) {
        if let Some(early) = early
            && self.set_draw(Draw::new(&self.seed.0, self.sale, early))
        {
            admission.frozen = Some(early);
            admission.drawn_lately = true;
        }
    }
}

fn make_up_for_absence(admission: &mut Admission, now: Timestamp) {
    let absent_millis = admission.ticked_at.map_or(0, |ticked_at| now.millis_since(ticked_at));
    if absent_millis > LONG_UNKEPT_MILLIS {
        admission.turns.shift(absent_millis);
        admission.ticked_at = Some(now);
    }
}
