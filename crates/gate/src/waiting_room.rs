//! The waiting room of one sale. It decides who may go on to buy: in a fair order, at the pace the shop can
//! take, and no more people than are likely to buy the units left. It keeps no list of people: a ticket is a
//! number, its place is computed, and people who are there are called in the order of their places. It does
//! no I/O: `unsaved` hands out the state that has to survive, and `saved` puts it into effect.

mod shared;
mod standing;

use std::sync::{
    OnceLock,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use parking_lot::{Mutex, RwLock};
use penstock_domain::{SaleId, SaleState, SaleStatus, Timestamp};

use crate::{
    draw::{Draw, commitment},
    line::Line,
    numbers::Numbers,
    pace::{AdmissionPace, Allowance},
    pass_share::{LivePasses, PassShare, late_pass_millis},
    presence::{Presence, There},
    room_state::RoomState,
    turns::{Turn, Turns},
    uptake::{BUYER, LATE},
};

pub use self::{
    shared::{RoomView, Totals},
    standing::{DrawView, GoneReason, RoomFigures, Standing, TicketState},
};

/// The shortest time between two saves of counts, which may be a little old after a crash.
const SAVE_COUNTS_EVERY_MILLIS: i64 = 1_000;
/// In a shared room, turns end at most this long after the keeper was last heard of. If nobody keeps the
/// room, the next keeper may give the time back.
const UNHEARD_MILLIS: i64 = 1_000;
/// The most restarts whose passes are counted separately. Older ones are added together.
const MAX_RESTARTS: usize = 8;
/// The stored form of an unknown pace.
const UNKNOWN: u64 = f64::NAN.to_bits();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomOptions {
    /// How long a person may take to ask for a pass once it is their turn.
    pub turn_seconds: u32,
    /// How soon people are expected to ask for a pass, until their real speed is known.
    pub uptake_seconds: u32,
    /// How long a pass is good. Passes from before a restart count for as long.
    pub pass_seconds: u32,
    /// The most people admitted per second; 0 means 1.
    pub admissions_per_second: u32,
}

#[derive(Debug)]
pub struct WaitingRoom {
    sale: SaleId,
    options: RoomOptions,
    seed: Seed,
    numbers: Numbers,
    /// Other nodes share this room: the numbers, and how many are early, come from outside.
    is_shared: bool,
    /// Set once the number of early tickets is durable.
    draw: OnceLock<Draw>,
    presence: Presence,
    line: RwLock<Line>,
    /// Changed only under the lock of `admission`; read by everybody who waits.
    admitted: AtomicU64,
    /// People per second, as the bits of a float.
    pace: AtomicU64,
    admission: Mutex<Admission>,
}

/// A seed that must not be printed.
struct Seed([u8; 32]);

impl std::fmt::Debug for Seed {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str("Seed")
    }
}

#[derive(Debug)]
struct Admission {
    turns: Turns,
    allowance: Allowance,
    pace: AdmissionPace,
    /// Everybody who was ever called.
    let_in: u64,
    /// The number of early tickets, from the opening on. It takes effect when it is durable.
    frozen: Option<u64>,
    durable: RoomState,
    ticked_at: Option<Timestamp>,
    saved_at: Option<Timestamp>,
    seen: Option<SaleState>,
    /// The draw has appeared since the last tick.
    drawn_lately: bool,
    /// Live passes at the last tick.
    live_passes: u64,
    pass_share: PassShare,
    /// Passes from before each restart, which nobody else counts, and until when they may be good.
    old_passes: Vec<(u64, Timestamp)>,
}

impl Admission {
    fn new(turns: Turns, options: RoomOptions, durable: RoomState) -> Self {
        Self {
            turns,
            allowance: Allowance::new(options.admissions_per_second),
            pace: AdmissionPace::default(),
            let_in: durable.let_in,
            frozen: durable.early,
            live_passes: durable.live_passes,
            pass_share: PassShare::new(options.pass_seconds),
            old_passes: Vec::new(),
            durable,
            ticked_at: None,
            saved_at: None,
            seen: None,
            drawn_lately: false,
        }
    }

    /// What passes from before restarts count for. Nobody knows how old each one is, but once the newest of a
    /// group must be late, all of them are.
    fn old_passes_for(&self, pass_seconds: u32, now: Timestamp) -> u64 {
        let late_for = late_pass_millis(pass_seconds);
        let live = self.old_passes.iter().filter(|(_, until)| now < *until);
        let counted = live.map(|(passes, until)| {
            passes.saturating_mul(if until.millis_since(now) > late_for { BUYER } else { LATE })
        });
        counted.fold(0, u64::saturating_add)
    }

    fn note_taken(&mut self, place: u64, now: Timestamp) {
        if self.turns.taken(place, now) {
            self.pass_share.taken(now);
        }
    }

    /// Takes over the passes of the previous process, which nobody else counts.
    fn remember_passes(&mut self, good_until: Timestamp, now: Timestamp) {
        self.old_passes = self.durable.old_passes.clone();
        self.old_passes.push((self.durable.live_passes, good_until));
        self.old_passes.retain(|(passes, until)| *passes > 0 && now < *until);
        while let [(first, _), (second, _), ..] = self.old_passes[..]
            && self.old_passes.len() > MAX_RESTARTS
        {
            self.old_passes.remove(0);
            self.old_passes[0].0 = first.saturating_add(second);
        }
    }
}

impl WaitingRoom {
    /// A new room starts with `RoomState::new(seed)`. A restored one goes on at `reserved`, so that no number
    /// is given out twice. People whose turn was not over get a full new one from the first tick on. The room
    /// counts on as many people as had an open turn or a live pass at that time.
    pub fn new(sale: SaleId, state: RoomState, options: RoomOptions) -> Self {
        let draw = state.early.map(|early| Draw::new(&state.seed, sale, early));
        let turns = Turns::lasting(options.turn_seconds, options.uptake_seconds);
        let room = Self::with_turns(sale, state, options, turns);
        if let Some(draw) = draw {
            room.set_draw(draw);
        }
        room
    }

    fn with_turns(sale: SaleId, state: RoomState, options: RoomOptions, turns: Turns) -> Self {
        Self {
            sale,
            options,
            seed: Seed(state.seed),
            numbers: Numbers::starting_at(state.reserved),
            is_shared: false,
            draw: OnceLock::new(),
            presence: Presence::new(state.reserved > 0),
            line: RwLock::default(),
            admitted: AtomicU64::new(state.admitted),
            pace: AtomicU64::new(UNKNOWN),
            admission: Mutex::new(Admission::new(turns, options, state)),
        }
    }

    /// True if this call set the draw.
    fn set_draw(&self, draw: Draw) -> bool {
        let is_new = self.draw.set(draw).is_ok();
        if is_new {
            self.presence.drawn();
        }
        is_new
    }

    /// None: the durable numbers are used up for the moment.
    pub fn take_number(&self) -> Option<u64> {
        self.numbers.take()
    }

    /// Whether a number could be given out now. Check this before spending anything on asking for one.
    pub fn has_numbers(&self) -> bool {
        self.numbers.has_any()
    }

    /// Somebody asked for this ticket or listens to a stream, so they are there. `place` is the answer of
    /// `place`.
    pub fn heard(&self, number: u64, place: Option<u64>) {
        // The draw may have appeared since the caller asked for the place.
        let place = || place.or_else(|| self.place(number)).unwrap_or(number);
        self.presence.heard(number, place);
    }

    /// Call this about every 100 milliseconds. Read `live_passes` before `status`: then an order accepted in
    /// between counts twice rather than not at all. True: something people see has changed, or everybody on a
    /// stream has to be noted again.
    pub fn tick(&self, status: &SaleStatus, live_passes: impl Into<LivePasses>, now: Timestamp) -> bool {
        let all_again = self.presence.listen(self.draw.get(), now);
        self.look(status, live_passes.into(), &self.presence.there(), now) | all_again
    }

    fn look(&self, status: &SaleStatus, live_passes: LivePasses, there: &There, now: Timestamp) -> bool {
        let mut admission = self.admission.lock();
        let millis = self.pass_time(&mut admission, now);
        self.numbers.measure(millis);
        admission.allowance.accrue(millis);
        let state = status.state(now);
        let mut changed = admission.seen.replace(state) != Some(state);
        self.freeze(&mut admission, status, state, now);
        if state == SaleState::Paused {
            // Nobody can use their turn, so nobody loses time.
            admission.turns.shift(i64::try_from(millis).unwrap_or(0));
        }
        changed |= std::mem::take(&mut admission.drawn_lately);
        if self.draw.get().is_some() && state == SaleState::Open {
            changed |= self.call(&mut admission, status.available, live_passes, there, now);
        }
        let before = admission.ticked_at.replace(now).unwrap_or(now);
        changed |= admission.turns.settle(there, before, now);
        admission.live_passes = live_passes.all;
        changed |= self.line_up(&admission, there, now);
        changed |= self.measure_pace(&mut admission, now);
        changed
    }

    /// Milliseconds since the last tick.
    fn pass_time(&self, admission: &mut Admission, now: Timestamp) -> u64 {
        let Some(before) = admission.ticked_at else {
            let admitted = self.admitted.load(Relaxed);
            if admitted > 0 {
                let state = &admission.durable;
                let past = state.open_from.min(admitted)..admitted;
                admission.turns.restore(&state.called, past, state.open, now);
                admission.remember_passes(now.plus_seconds(self.options.pass_seconds), now);
            }
            return 0;
        };
        let millis = now.millis_since(before);
        if millis < 0 {
            admission.turns.shift(millis);
            admission.pace.forget();
            admission.saved_at = None;
        }
        millis.max(0) as u64
    }

    /// Numbers given out from the opening on are not early.
    fn freeze(&self, admission: &mut Admission, status: &SaleStatus, state: SaleState, now: Timestamp) {
        if self.is_shared || admission.frozen.is_some() || state == SaleState::Closed {
            return;
        }
        admission.frozen = match status.terms.opens_at {
            None => Some(0),
            Some(opens_at) if now >= opens_at => Some(self.numbers.issued()),
            Some(_) => None,
        };
    }

    /// Calls people who are there, in the order of their places, as long as all open turns and passes
    /// together stand for no more than the units on sale.
    fn call(
        &self,
        admission: &mut Admission,
        available: u32,
        passes: LivePasses,
        there: &There,
        now: Timestamp,
    ) -> bool {
        let turns = &admission.turns;
        let old_passes = admission.old_passes_for(self.options.pass_seconds, now);
        let passes_for = admission.pass_share.spoken_for(passes, now).saturating_add(old_passes);
        let pass = admission.pass_share.fresh(passes.late, now);
        let spoken_for = turns.spoken_for(pass, now).saturating_add(passes_for);
        let (left, fresh) = ((u64::from(available) * BUYER).saturating_sub(spoken_for), turns.fresh(pass));
        // Rounds to the nearest, so that a few sixteenths neither call one person more nor leave a unit to
        // nobody.
        let room = (left + fresh / 2) / fresh;
        let budget = room.min(admission.allowance.people()).min(turns.room_for_runs());
        let admitted = self.admitted.load(Relaxed);
        let first = turns.first_open(now).unwrap_or(admitted);
        let called = self.next_waiting(turns, there, first, budget);
        let Some((_, last)) = called.last().copied() else { return false };
        let people = called.iter().map(|(from, to)| to - from).sum();
        let past = admitted..admitted.max(last);
        admission.allowance.spend(people);
        admission.let_in += people;
        admission.turns.call(&called, past.clone(), now);
        // Stored last: a reader who sees that a turn has come has to find it.
        self.admitted.store(past.end, Release);
        true
    }

    /// The runs of the next `budget` people who are there and were not called.
    fn next_waiting(&self, turns: &Turns, there: &There, first: u64, budget: u64) -> Vec<(u64, u64)> {
        let end = self.numbers.issued().min(there.known_to());
        let mut called: Vec<(u64, u64)> = Vec::new();
        let (mut left, mut from) = (budget, first);
        while left > 0
            && let Some(place) = there.next(from).filter(|place| *place < end)
        {
            if let Some(to) = turns.called_to(place) {
                from = to;
                continue;
            }
            match called.last_mut() {
                Some(last) if last.1 == place => last.1 += 1,
                _ => called.push((place, place + 1)),
            }
            left -= 1;
            from = place + 1;
        }
        called
    }

    /// True: the line was empty and is not now, or the other way round.
    fn line_up(&self, admission: &Admission, there: &There, now: Timestamp) -> bool {
        let admitted = self.admitted.load(Relaxed);
        let first = admission.turns.first_open(now).unwrap_or(admitted);
        let called: Vec<(u64, u64)> = admission.turns.called().collect();
        let waiting = |from: u64, to: u64| {
            let next = called.partition_point(|(_, end)| *end <= from);
            let runs = called.get(next..).unwrap_or_default().iter().take_while(|(start, _)| *start < to);
            let had_a_turn: u64 = runs.map(|(start, end)| there.count(from.max(*start), to.min(*end))).sum();
            // Where neighbours share a bit, each count rounds up on its own.
            there.count(from, to).saturating_sub(had_a_turn)
        };
        let line = Line::new(first, self.numbers.issued().max(first), waiting);
        let mut known = self.line.write();
        let changed = (known.total() == 0) != (line.total() == 0);
        *known = line;
        changed
    }

    /// True: the pace has become known or unknown.
    fn measure_pace(&self, admission: &mut Admission, now: Timestamp) -> bool {
        if self.waiting() == 0 {
            admission.pace.forget();
        }
        let before = self.pace();
        let pace = admission.pace.note(admission.let_in, now);
        self.pace.store(pace.map_or(UNKNOWN, f64::to_bits), Relaxed);
        before.is_some() != pace.is_some()
    }

    fn waiting(&self) -> u64 {
        self.line.read().total()
    }

    fn pace(&self) -> Option<f64> {
        Some(f64::from_bits(self.pace.load(Relaxed))).filter(|pace| pace.is_finite() && *pace > 0.0)
    }

    /// The state to make durable next, if any. Reservations and the opening are urgent. Other counts, which
    /// may be a little old after a crash, come once a second.
    pub fn unsaved(&self) -> Option<RoomState> {
        if self.numbers.is_closed() {
            return None;
        }
        let admission = self.admission.lock();
        let wanted = self.state(&admission, self.numbers.wanted());
        let durable = &admission.durable;
        let urgent = wanted.reserved != durable.reserved || wanted.early != durable.early;
        let due = match (admission.ticked_at, admission.saved_at) {
            (Some(ticked_at), Some(saved_at)) => ticked_at.millis_since(saved_at) >= SAVE_COUNTS_EVERY_MILLIS,
            (ticked_at, None) => ticked_at.is_some(),
            (None, Some(_)) => false,
        };
        (urgent || (due && wanted != *durable)).then_some(wanted)
    }

    /// This state, which came from `unsaved`, is now durable.
    pub fn saved(&self, state: &RoomState) {
        let mut admission = self.admission.lock();
        admission.saved_at = admission.ticked_at;
        admission.durable = state.clone();
        self.numbers.reserved_durably(state.reserved);
        if let Some(early) = state.early
            && self.set_draw(Draw::new(&self.seed.0, self.sale, early))
        {
            admission.drawn_lately = true;
        }
    }

    /// The exact state for an orderly stop. No more numbers are given out.
    pub fn closing_state(&self) -> RoomState {
        let issued = self.numbers.close();
        self.state(&self.admission.lock(), issued)
    }

    fn state(&self, admission: &Admission, reserved: u64) -> RoomState {
        // Before the first tick, the new turns of restored people have not begun.
        let Some(now) = admission.ticked_at else {
            return RoomState { reserved, early: admission.frozen, ..admission.durable.clone() };
        };
        let admitted = self.admitted.load(Relaxed);
        RoomState {
            seed: self.seed.0,
            reserved,
            early: admission.frozen,
            admitted,
            open: admission.turns.pending(),
            live_passes: admission.live_passes,
            old_passes: admission.old_passes.iter().copied().filter(|(_, until)| now < *until).collect(),
            open_from: admission.turns.first_open(now).unwrap_or(admitted),
            called: admission.turns.open(now),
            let_in: admission.let_in,
        }
    }

    /// The place of a number in the order of the room. Once known, it never changes, so a watcher of a ticket
    /// computes it only once. None: not drawn yet.
    pub fn place(&self, number: u64) -> Option<u64> {
        self.draw.get().map(|draw| draw.place(number))
    }

    pub fn standing(&self, number: u64, status: &SaleStatus, now: Timestamp) -> Standing {
        self.standing_at(self.place(number), status, now)
    }

    /// The standing of the ticket at this place.
    pub fn standing_at(&self, place: Option<u64>, status: &SaleStatus, now: Timestamp) -> Standing {
        let opened = status.terms.opens_at.is_none_or(|opens_at| now >= opens_at);
        let waiting =
            Standing { state: TicketState::Waiting, place, position: None, estimated_wait_seconds: None };
        if status.state(now) == SaleState::Closed {
            Standing { state: TicketState::Gone(GoneReason::Closed), ..waiting }
        } else if opened && status.available == 0 {
            Standing { state: TicketState::Gone(GoneReason::SoldOut), ..waiting }
        } else if let Some(place) = place {
            self.in_line(place, waiting, now)
        } else {
            waiting
        }
    }

    fn in_line(&self, place: u64, waiting: Standing, now: Timestamp) -> Standing {
        if place < self.admitted.load(Acquire) {
            match self.turn(place, now) {
                Turn::Until(until) => return Standing { state: TicketState::Admitted { until }, ..waiting },
                Turn::Over => return Standing { state: TicketState::Gone(GoneReason::TurnOver), ..waiting },
                // They are back, and ahead of everybody else.
                Turn::Missed => {}
            }
        }
        let position = self.line.read().position(place);
        let estimated_wait_seconds = self.pace().map(|pace| (position as f64 / pace).ceil() as u64);
        Standing { position: Some(position), estimated_wait_seconds, ..waiting }
    }

    fn turn(&self, place: u64, now: Timestamp) -> Turn {
        let admission = self.admission.lock();
        let Some(ticked_at) = admission.ticked_at else {
            // Just restored: the new turn begins with the first tick.
            let state = &admission.durable;
            return match place {
                _ if state.is_called(place) => Turn::Until(now.plus_seconds(self.options.turn_seconds)),
                place if place >= state.open_from => Turn::Missed,
                _ => Turn::Over,
            };
        };
        let now = if self.is_shared { now.min(ticked_at.plus_millis(UNHEARD_MILLIS)) } else { now };
        admission.turns.of(place, now)
    }

    /// This ticket's turn has become a pass, so it is no longer pending. Call this after the pass was counted
    /// as live, so that it never goes uncounted. Repeating it changes nothing.
    pub fn pass_taken(&self, number: u64) {
        let Some(place) = self.place(number) else { return };
        let mut admission = self.admission.lock();
        if let Some(ticked_at) = admission.ticked_at {
            admission.note_taken(place, ticked_at);
        }
    }

    /// An order was accepted with a pass from an earlier process, which was good until this time.
    pub fn old_pass_used(&self, good_until: Timestamp) {
        let mut admission = self.admission.lock();
        // The groups are in the order of the restarts.
        let mut groups = admission.old_passes.iter_mut();
        if let Some((passes, _)) = groups.find(|(passes, until)| *passes > 0 && good_until <= *until) {
            *passes -= 1;
        }
    }

    /// Whether this ticket's turn has already become a pass. Known as long as the turn lasts.
    pub fn has_taken(&self, number: u64) -> bool {
        self.place(number).is_some_and(|place| self.admission.lock().turns.is_taken(place))
    }

    /// The seed and the count are revealed after the opening, once the number of participants is durable.
    pub fn draw(&self) -> DrawView {
        let count = self.draw.get().map(Draw::count);
        DrawView { commitment: commitment(&self.seed.0), seed: count.map(|_| self.seed.0), count }
    }

    pub fn figures(&self) -> RoomFigures {
        let admission = self.admission.lock();
        RoomFigures {
            tickets: self.numbers.issued(),
            early: self.draw.get().map(Draw::count),
            admitted: self.admitted.load(Relaxed),
            waiting: self.waiting(),
            let_in: admission.let_in,
            pending: admission.turns.pending(),
            admissions_per_second: self.pace(),
        }
    }
}
