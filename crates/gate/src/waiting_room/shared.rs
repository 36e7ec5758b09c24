//! A waiting room that several nodes share. One of them keeps it: it lets people in by the totals of all nodes. What it
//! comes to is a view of a few hundred bytes, from which every other node answers as if it were the only one, and from
//! which another goes on when the keeper is gone. How nodes hear of each other is not known here.

use std::sync::{
    OnceLock,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use penstock_domain::{SaleId, SaleStatus, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Admission, RoomOptions, Seed, UNKNOWN, WaitingRoom, is_uncertain};
use crate::{
    draw::Draw,
    numbers::Numbers,
    pace::{Allowance, Measured},
    room_state::{RoomState, Uncertain},
    turns::{TurnStep, Turns},
};

/// A room that nobody kept for longer than this was of use to nobody: the time does not count against anybody's turn.
const LONG_UNKEPT_MILLIS: i64 = 5_000;
/// Of so many numbers that nobody got the turns are given back one by one; more of them wait for the end of the turn.
const MAX_GIVEN_BACK: u64 = 4_096;
/// So many ranges of numbers that nobody got are remembered. Older ones are treated as people who do not come.
const MAX_UNUSED: usize = 4_096;

/// What the keeper of a room tells the other nodes, and the next keeper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomView {
    /// Numbers below are given out, or in the hands of a node that gives them out.
    pub issued: u64,
    /// So many numbers take part in the draw. None: the sale has not opened.
    pub early: Option<u64>,
    /// The places below had their turn, or have it.
    pub admitted: u64,
    /// People a second.
    pub pace: Option<f64>,
    pub turns: Vec<TurnStep>,
}

/// The counts of all nodes together, taken in one moment, so that a turn that has become a pass is in exactly one of them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Totals<'a> {
    pub issued: u64,
    pub early: Option<u64>,
    pub live_passes: u64,
    /// Numbers whose turn has become a pass since the last time.
    pub taken: &'a [u64],
    /// Numbers that, as became known since the last time, nobody got and nobody will.
    pub unused: &'a [Uncertain],
    /// Passes that are not live any more became orders, which a status of this version has seen.
    pub sale_version: u64,
}

impl WaitingRoom {
    /// A room of which nothing is known yet but its seed. It gives out no numbers: they come from what the nodes share.
    pub fn shared(sale: SaleId, seed: [u8; 32], options: RoomOptions) -> Self {
        Self {
            sale,
            options,
            seed: Seed(seed),
            numbers: Numbers::starting_at(0),
            is_shared: true,
            draw: OnceLock::new(),
            admitted: AtomicU64::new(0),
            pace: AtomicU64::new(UNKNOWN),
            admission: std::sync::Mutex::new(Admission {
                turns: Turns::shared(options.turn_seconds),
                allowance: Allowance::new(options.admissions_per_second),
                measured: Measured::default(),
                uncertain: Vec::new(),
                frozen: None,
                durable: RoomState::new(seed),
                ticked_at: None,
                saved_at: None,
                seen: None,
                drawn_lately: false,
                open: 0,
            }),
        }
    }

    /// Takes over what the keeper saw when it last looked, at `kept_at`.
    pub fn follow(&self, view: &RoomView, kept_at: Timestamp) {
        let mut admission = self.lock();
        self.numbers.given_out_elsewhere(view.issued);
        self.take_up_draw(&mut admission, view.early);
        admission.turns.replace(&view.turns);
        admission.ticked_at = Some(kept_at);
        self.pace.store(view.pace.map_or(UNKNOWN, f64::to_bits), Relaxed);
        // Last: who sees that his turn has come has to find it.
        self.admitted.store(view.admitted, Release);
    }

    /// The room was kept at this time, whether or not that changed anything.
    pub fn still_kept(&self, kept_at: Timestamp) {
        let mut admission = self.lock();
        admission.ticked_at = admission.ticked_at.map(|ticked_at| ticked_at.max(kept_at));
    }

    /// A new keeper hears of the numbers that nobody got before its time. Whom they stood for when they were let in, nobody
    /// knows any more, so that nothing is given back for them.
    pub fn pass_over(&self, unused: &[Uncertain]) {
        let mut admission = self.lock();
        for unused in unused {
            remember_unused(&mut admission, *unused);
        }
    }

    /// The keeper's look at the room, to be taken about every 100 milliseconds. What comes of it counts when it is durable
    /// and nobody else has become the keeper; so the room that people ask is another, which follows the view.
    pub fn tend(&self, status: &SaleStatus, totals: &Totals<'_>, now: Timestamp) -> RoomView {
        let mut admission = self.lock();
        self.numbers.given_out_elsewhere(totals.issued);
        self.take_up_draw(&mut admission, totals.early);
        make_up_for_absence(&mut admission, now);
        for place in totals.taken.iter().filter_map(|number| self.place(*number)) {
            admission.turns.taken(place, true);
        }
        for unused in totals.unused {
            self.note_unused(&mut admission, *unused);
        }
        admission.turns.passes_are_counted();
        self.forget_unused(&mut admission);
        drop(admission);
        // Orders took the place of passes, and the status at hand does not show them yet: nobody is let in on it.
        let is_old = status.version < totals.sale_version;
        self.tick(status, if is_old { u64::MAX } else { totals.live_passes }, now);
        self.view()
    }

    fn view(&self) -> RoomView {
        let admission = self.lock();
        RoomView {
            issued: self.numbers.issued(),
            early: self.draw.get().map(Draw::count),
            admitted: self.admitted.load(Acquire),
            pace: self.pace(),
            turns: admission.turns.told(),
        }
    }

    fn take_up_draw(&self, admission: &mut Admission, early: Option<u64>) {
        if let Some(early) = early
            && self.draw.set(Draw::new(&self.seed.0, self.sale, early)).is_ok()
        {
            admission.frozen = Some(early);
            admission.drawn_lately = true;
        }
    }

    /// Nobody waits for these numbers any more. Who was counted on because of one is not.
    fn note_unused(&self, admission: &mut Admission, unused: Uncertain) {
        // A node that did not hear whether it was heard tells it again.
        if is_uncertain(&admission.uncertain, unused.from) {
            return;
        }
        let admitted = self.admitted.load(Relaxed);
        for number in (unused.from..unused.to).take(MAX_GIVEN_BACK as usize) {
            if let Some(place) = self.place(number).filter(|place| *place < admitted) {
                admission.turns.taken(place, true);
            }
        }
        remember_unused(admission, unused);
    }

    fn forget_unused(&self, admission: &mut Admission) {
        let admitted = self.admitted.load(Relaxed);
        // Late numbers are their own places. Those of early ones are anywhere among the early ones.
        if self.draw.get().is_some_and(|draw| admitted >= draw.count()) {
            admission.uncertain.retain(|numbers| numbers.to > admitted);
        }
        let too_many = admission.uncertain.len().saturating_sub(MAX_UNUSED);
        admission.uncertain.drain(..too_many);
    }
}

fn remember_unused(admission: &mut Admission, unused: Uncertain) {
    let place = admission.uncertain.partition_point(|known| known.from < unused.from);
    admission.uncertain.insert(place, unused);
}

fn make_up_for_absence(admission: &mut Admission, now: Timestamp) {
    let absent_millis = admission.ticked_at.map_or(0, |ticked_at| now.millis_since(ticked_at));
    if absent_millis > LONG_UNKEPT_MILLIS {
        admission.turns.shift(absent_millis);
        admission.ticked_at = Some(now);
    }
}
