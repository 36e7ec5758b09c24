//! A waiting room that several nodes share. One of them keeps it and lets people in by the totals of all
//! nodes. The result is a view: a kilobyte in a small room, 100 KiB where half of 20,000 people have left.
//! From the view every other node answers as if it were the only one, and the next keeper goes on from it.
//! How nodes reach each other is not known here.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use penstock_domain::{SaleId, SaleStatus, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Admission, RoomOptions, UNKNOWN, WaitingRoom};
use crate::{
    draw::Draw,
    line::Line,
    pass_share::LivePasses,
    presence::{There, Told},
    room_state::RoomState,
    turns::{TurnStep, Turns},
    uptake::Uptake,
};

/// If nobody kept a room for longer than this, nobody could use it, and the time does not count against
/// anybody's turn.
const LONG_UNKEPT_MILLIS: i64 = 5_000;
/// What the keeper of a room tells the other nodes and the next keeper.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RoomView {
    /// Numbers below this one are given out, or belong to a node that gives them out.
    pub issued: u64,
    /// The numbers that take part in the draw. None: the sale has not opened.
    pub early: Option<u64>,
    /// The places below this one were called, or passed over because nobody was there.
    pub admitted: u64,
    /// Everybody who was ever called.
    pub let_in: u64,
    /// People per second.
    pub pace: Option<f64>,
    pub turns: Vec<TurnStep>,
    pub line: Line,
    /// What was learnt about how people take up their turns.
    pub uptake: Uptake,
}

/// The counts of all nodes, read at one moment, so that a turn that became a pass is in exactly one of them.
#[derive(Clone, Copy, Debug)]
pub struct Totals<'a> {
    pub issued: u64,
    pub early: Option<u64>,
    pub live_passes: LivePasses,
    /// Numbers whose turn has become a pass since the last time.
    pub taken: &'a [u64],
    /// A status of at least this version shows the orders of all passes that are no longer live.
    pub sale_version: u64,
    /// The people who are there, as nodes last told.
    pub there: &'a There,
}

impl WaitingRoom {
    /// A room known only by its seed. It gives out no numbers: they come from what the nodes share.
    pub fn shared(sale: SaleId, seed: [u8; 32], options: RoomOptions) -> Self {
        let turns = Turns::shared(options.turn_seconds, options.uptake_seconds);
        Self { is_shared: true, ..Self::with_turns(sale, RoomState::new(seed), options, turns) }
    }

    /// Call this about every 100 milliseconds on the room that people's requests read. True: everybody on a
    /// stream has to be noted again.
    pub fn listen(&self, now: Timestamp) -> bool {
        self.presence.listen(self.draw.get(), now)
    }

    /// The people this node has heard of. None: there is nothing to tell yet.
    pub fn told(&self) -> Option<Told> {
        self.presence.there().told()
    }

    /// Takes over the view of the keeper's last look, at `kept_at`.
    pub fn follow(&self, view: &RoomView, kept_at: Timestamp) {
        let mut admission = self.admission.lock();
        // People were there before this node started, and it has not heard of them yet. If the sale is open
        // and nobody has been let in, it has only just begun, and the node soon hears of everybody.
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
        *self.line.write() = view.line.clone();
        // Stored last: a reader who sees that a turn has come has to find it.
        self.admitted.store(view.admitted, Release);
    }

    /// The room was kept at this time, whether or not anything changed.
    pub fn still_kept(&self, kept_at: Timestamp) {
        let mut admission = self.admission.lock();
        admission.ticked_at = admission.ticked_at.map(|ticked_at| ticked_at.max(kept_at));
    }

    /// The keeper's look at the room, about every 100 milliseconds. The result counts once it is durable and
    /// nobody else has become the keeper. So people's requests read another room, which follows the view.
    pub fn tend(&self, status: &SaleStatus, totals: &Totals<'_>, now: Timestamp) -> RoomView {
        let mut admission = self.admission.lock();
        self.numbers.given_out_elsewhere(totals.issued);
        self.take_up_draw(&mut admission, totals.early);
        make_up_for_absence(&mut admission, now);
        for place in totals.taken.iter().filter_map(|number| self.place(*number)) {
            admission.note_taken(place, now);
        }
        admission.turns.passes_are_counted();
        drop(admission);
        // Orders have replaced passes, and the status at hand does not show them yet. Let nobody in on that
        // basis.
        let is_old = status.version < totals.sale_version;
        let live_passes = if is_old { u64::MAX.into() } else { totals.live_passes };
        self.look(status, live_passes, totals.there, now);
        self.view()
    }

    fn view(&self) -> RoomView {
        let admission = self.admission.lock();
        let (turns, uptake) = admission.turns.told();
        RoomView {
            issued: self.numbers.issued(),
            early: self.draw.get().map(Draw::count),
            admitted: self.admitted.load(Acquire),
            let_in: admission.let_in,
            pace: self.pace(),
            turns,
            line: self.line.read().clone(),
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
