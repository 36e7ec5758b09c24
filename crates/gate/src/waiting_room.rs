//! The waiting room of one sale: who may go on to buy, in a fair order, at the pace the shop can take, and never
//! more people than could still buy. It keeps no list of people: a ticket is a number, its place is computed, and
//! its turn has come when enough places have been admitted. It does no I/O: what has to survive is handed out by
//! `unsaved` and takes effect by `saved`.

mod shared;

use std::sync::{
    Mutex, MutexGuard, OnceLock, PoisonError,
    atomic::{
        AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

use penstock_domain::{SaleId, SaleState, SaleStatus, Timestamp};

use crate::{
    draw::{Draw, commitment},
    numbers::Numbers,
    pace::{Allowance, Measured},
    room_state::{RoomState, Uncertain},
    turns::Turns,
};

pub use self::shared::{RoomView, Totals};

/// Counts that may be a little old after a crash are made durable no more often than this.
const SAVE_COUNTS_EVERY_MILLIS: i64 = 1_000;
/// When so many more tickets have been given out, that is made durable at once: after a crash nobody could tell them
/// from numbers that were only reserved.
const MAX_UNSAVED_TICKETS: u64 = 64;
/// Places of uncertain numbers are passed over for nothing, but not without end in one tick.
const MAX_PLACES_LOOKED_AT: u64 = 1_024;
/// Where nodes share a room, turns end up to so long after its keeper was last heard of, and no later: if nobody keeps it,
/// the next keeper may give that time back.
const UNHEARD_MILLIS: i64 = 1_000;
/// The stored form of a pace that is not known.
const UNKNOWN: u64 = f64::NAN.to_bits();

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RoomOptions {
    /// How long somebody whose turn has come may take to ask for a pass.
    pub turn_seconds: u32,
    /// How long a pass is good. Passes from before a restart are counted on for so long.
    pub pass_seconds: u32,
    /// At most so many people are admitted each second; 0 is taken for 1.
    pub admissions_per_second: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GoneReason {
    SoldOut,
    TurnOver,
    Closed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TicketState {
    Waiting,
    Admitted { until: Timestamp },
    Gone(GoneReason),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub state: TicketState,
    /// The place in the order of the room, which never changes. Counts from 0. None: not drawn yet.
    pub place: Option<u64>,
    /// 1 is the next to be admitted.
    pub position: Option<u64>,
    pub estimated_wait_seconds: Option<u64>,
}

/// What anybody may know of the draw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DrawView {
    pub commitment: [u8; 32],
    /// Told when it can no longer change anything.
    pub seed: Option<[u8; 32]>,
    pub count: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RoomFigures {
    /// Tickets given out, including numbers that a crash skipped.
    pub tickets: u64,
    pub early: Option<u64>,
    pub admitted: u64,
    /// People whose turn it is and who have not taken a pass yet.
    pub pending: u64,
    pub admissions_per_second: Option<f64>,
}

#[derive(Debug)]
pub struct WaitingRoom {
    sale: SaleId,
    options: RoomOptions,
    seed: Seed,
    numbers: Numbers,
    /// Other nodes have this room too: numbers, and how many of them are early, come from outside.
    is_shared: bool,
    /// There once the number of early tickets is durable.
    draw: OnceLock<Draw>,
    /// Changed under the lock of `admission` only; read by everybody who waits.
    admitted: AtomicU64,
    /// People a second, as the bits of a float.
    pace: AtomicU64,
    admission: Mutex<Admission>,
}

/// Not to be printed.
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
    measured: Measured,
    /// Numbers of which hardly any was given out, in their order.
    uncertain: Vec<Uncertain>,
    /// The number of early tickets, from the opening on; it counts when it is durable.
    frozen: Option<u64>,
    durable: RoomState,
    ticked_at: Option<Timestamp>,
    saved_at: Option<Timestamp>,
    seen: Option<SaleState>,
    /// The draw has appeared since the last tick.
    drawn_lately: bool,
    /// People who could still buy at the last tick, or before a restart: turns and passes that are not over.
    open: u64,
}

impl WaitingRoom {
    /// A new room has `RoomState::new(seed)`. A restored one goes on at `reserved`, so that no number is given out
    /// twice. Those whose turn was not over have a full new one from the first tick on, and as many people are counted
    /// on as had an open turn or a live pass then.
    pub fn new(sale: SaleId, state: RoomState, options: RoomOptions) -> Self {
        let state = state.restored();
        let draw = state.early.map(|early| Draw::new(&state.seed, sale, early));
        Self {
            sale,
            options,
            seed: Seed(state.seed),
            numbers: Numbers::starting_at(state.reserved),
            is_shared: false,
            draw: draw.map(OnceLock::from).unwrap_or_default(),
            admitted: AtomicU64::new(state.admitted),
            pace: AtomicU64::new(UNKNOWN),
            admission: Mutex::new(Admission {
                turns: Turns::lasting(options.turn_seconds),
                allowance: Allowance::new(options.admissions_per_second),
                measured: Measured::default(),
                uncertain: state.uncertain.clone(),
                frozen: state.early,
                open: state.open,
                durable: state,
                ticked_at: None,
                saved_at: None,
                seen: None,
                drawn_lately: false,
            }),
        }
    }

    /// None: the numbers that were made durable are used up for the moment.
    pub fn take_number(&self) -> Option<u64> {
        self.numbers.take()
    }

    /// A number could be given out now: a look before anything is spent on asking for one.
    pub fn has_numbers(&self) -> bool {
        self.numbers.has_any()
    }

    /// To be called about every 100 milliseconds. `live_passes` has to be read before `status`: an order that is
    /// accepted in between is then counted twice rather than not at all. True: something people see has changed.
    pub fn tick(&self, status: &SaleStatus, live_passes: u64, now: Timestamp) -> bool {
        let mut admission = self.lock();
        let millis = self.pass_time(&mut admission, now);
        self.numbers.measure(millis);
        admission.allowance.accrue(millis);
        let state = status.state(now);
        let mut changed = admission.seen.replace(state) != Some(state);
        self.freeze(&mut admission, status, state, now);
        if state == SaleState::Paused {
            // Nobody can use their turn, so nobody loses any of it.
            admission.turns.shift(i64::try_from(millis).unwrap_or(0));
        }
        changed |= std::mem::take(&mut admission.drawn_lately);
        if let Some(draw) = self.draw.get() {
            if state == SaleState::Open {
                changed |= self.admit(&mut admission, draw, status.available, live_passes, now);
            }
            changed |= self.measure_pace(&mut admission, now);
        }
        let before = admission.ticked_at.replace(now).unwrap_or(now);
        changed |= admission.turns.settle(before, now);
        admission.open = admission.turns.pending().saturating_add(live_passes);
        changed
    }

    /// Milliseconds since the last tick.
    fn pass_time(&self, admission: &mut Admission, now: Timestamp) -> u64 {
        let Some(before) = admission.ticked_at else {
            let admitted = self.admitted.load(Relaxed);
            if admitted > 0 {
                let places = admission.durable.open_from.min(admitted)..admitted;
                admission.turns.restore(places, admission.open, self.options.pass_seconds, now);
            }
            return 0;
        };
        let millis = now.millis_since(before);
        if millis < 0 {
            admission.turns.shift(millis);
            admission.measured.forget();
            admission.saved_at = None;
        }
        millis.max(0) as u64
    }

    /// Whatever number is given out from the opening on is not early.
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

    /// Turns that nobody has used yet, live passes and the newly admitted never exceed the units on sale.
    fn admit(
        &self,
        admission: &mut Admission,
        draw: &Draw,
        available: u32,
        live_passes: u64,
        now: Timestamp,
    ) -> bool {
        let spoken_for = admission.turns.spoken_for().saturating_add(live_passes);
        let room = u64::from(available).saturating_sub(spoken_for);
        let from = self.admitted.load(Relaxed);
        let budget = room.min(admission.allowance.people());
        let (to, counted) = self.next_places(draw, &admission.uncertain, from, budget);
        if to == from {
            return false;
        }
        admission.allowance.spend(counted);
        admission.turns.admit(from, to, counted, now);
        // Last: who sees that his turn has come has to find it.
        self.admitted.store(to, Release);
        true
    }

    /// Up to which place `budget` people can be admitted, and how many of the budget that takes.
    fn next_places(&self, draw: &Draw, uncertain: &[Uncertain], from: u64, budget: u64) -> (u64, u64) {
        let issued = self.numbers.issued();
        if uncertain.is_empty() {
            let to = from.saturating_add(budget).min(issued).max(from);
            return (to, to - from);
        }
        let end = issued.min(from.saturating_add(MAX_PLACES_LOOKED_AT));
        let (mut to, mut counted) = (from, 0);
        while to < end {
            // Counting on numbers that hardly anybody has would keep the others out for a turn each time.
            let expected = !is_uncertain(uncertain, draw.number_at(to));
            if expected && counted == budget {
                break;
            }
            counted += u64::from(expected);
            to += 1;
        }
        (to, counted)
    }

    /// True: it has become known or unknown.
    fn measure_pace(&self, admission: &mut Admission, now: Timestamp) -> bool {
        let admitted = self.admitted.load(Relaxed);
        if admitted >= self.numbers.issued() {
            admission.measured.forget();
        }
        let before = self.pace();
        let pace = admission.measured.note(admitted, now);
        self.pace.store(pace.map_or(UNKNOWN, f64::to_bits), Relaxed);
        before.is_some() != pace.is_some()
    }

    fn pace(&self) -> Option<f64> {
        Some(f64::from_bits(self.pace.load(Relaxed))).filter(|pace| pace.is_finite() && *pace > 0.0)
    }

    /// What has to be made durable next, if anything. Reservations, the opening and many new tickets are asked for at
    /// once; other counts, which may be a little old after a crash, once a second.
    pub fn unsaved(&self) -> Option<RoomState> {
        if self.numbers.is_closed() {
            return None;
        }
        let admission = self.lock();
        let wanted = self.state(&admission, self.numbers.wanted());
        let durable = &admission.durable;
        let urgent = wanted.reserved != durable.reserved
            || wanted.early != durable.early
            || wanted.issued.saturating_sub(durable.issued) > MAX_UNSAVED_TICKETS;
        let due = match (admission.ticked_at, admission.saved_at) {
            (Some(ticked_at), Some(saved_at)) => ticked_at.millis_since(saved_at) >= SAVE_COUNTS_EVERY_MILLIS,
            (ticked_at, None) => ticked_at.is_some(),
            (None, Some(_)) => false,
        };
        (urgent || (due && wanted != *durable)).then_some(wanted)
    }

    /// This state, which came from `unsaved`, is durable.
    pub fn saved(&self, state: &RoomState) {
        let mut admission = self.lock();
        admission.saved_at = admission.ticked_at;
        admission.durable = state.clone();
        self.numbers.reserved_durably(state.reserved);
        if let Some(early) = state.early
            && self.draw.set(Draw::new(&self.seed.0, self.sale, early)).is_ok()
        {
            admission.drawn_lately = true;
        }
    }

    /// The exact state for an orderly stop. No number is given out any more.
    pub fn closing_state(&self) -> RoomState {
        let issued = self.numbers.close();
        self.state(&self.lock(), issued)
    }

    fn state(&self, admission: &Admission, reserved: u64) -> RoomState {
        let admitted = self.admitted.load(Relaxed);
        let open_from = match admission.ticked_at {
            Some(ticked_at) => admission.turns.first_open(ticked_at).unwrap_or(admitted),
            // The new turns of those who were restored have not begun.
            None => admission.durable.open_from,
        };
        RoomState {
            seed: self.seed.0,
            reserved,
            early: admission.frozen,
            admitted,
            open: admission.open,
            open_from,
            issued: self.numbers.issued(),
            uncertain: admission.uncertain.clone(),
        }
    }

    /// The place of a number in the order of the room. Once there, it never changes, so that who watches a ticket
    /// has to compute it only once. None: not drawn yet.
    pub fn place(&self, number: u64) -> Option<u64> {
        self.draw.get().map(|draw| draw.place(number))
    }

    pub fn standing(&self, number: u64, status: &SaleStatus, now: Timestamp) -> Standing {
        self.standing_at(self.place(number), status, now)
    }

    /// Of the ticket that has this place.
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
        let admitted = self.admitted.load(Acquire);
        if place < admitted {
            return Standing { state: self.turn(place, now), ..waiting };
        }
        let position = place - admitted + 1;
        let estimated_wait_seconds = self.pace().map(|pace| (position as f64 / pace).ceil() as u64);
        Standing { position: Some(position), estimated_wait_seconds, ..waiting }
    }

    fn turn(&self, place: u64, now: Timestamp) -> TicketState {
        let admission = self.lock();
        let until = if let Some(ticked_at) = admission.ticked_at {
            let now = if self.is_shared { now.min(ticked_at.plus_millis(UNHEARD_MILLIS)) } else { now };
            admission.turns.until(place, now)
        } else {
            // Just restored: the new turn begins with the first tick.
            (place >= admission.durable.open_from).then(|| now.plus_seconds(self.options.turn_seconds))
        };
        until.map_or(TicketState::Gone(GoneReason::TurnOver), |until| TicketState::Admitted { until })
    }

    /// This ticket's turn has become a pass, so it is no longer pending. To be called after the pass was counted as
    /// live, so that it is counted all the time. Calling it twice changes nothing.
    pub fn pass_taken(&self, number: u64) {
        let Some(place) = self.place(number) else { return };
        let mut admission = self.lock();
        let was_counted = !is_uncertain(&admission.uncertain, number);
        admission.turns.taken(place, was_counted);
    }

    /// This ticket's turn has become a pass already. It is known as long as the turn lasts.
    pub fn has_taken(&self, number: u64) -> bool {
        self.place(number).is_some_and(|place| self.lock().turns.is_taken(place))
    }

    /// Seed and count are told after the opening, once it is durable how many take part.
    pub fn draw(&self) -> DrawView {
        let count = self.draw.get().map(Draw::count);
        DrawView { commitment: commitment(&self.seed.0), seed: count.map(|_| self.seed.0), count }
    }

    pub fn figures(&self) -> RoomFigures {
        RoomFigures {
            tickets: self.numbers.issued(),
            early: self.draw.get().map(Draw::count),
            admitted: self.admitted.load(Relaxed),
            pending: self.lock().turns.pending(),
            admissions_per_second: self.pace(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Admission> {
        self.admission.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// `uncertain` is in order.
fn is_uncertain(uncertain: &[Uncertain], number: u64) -> bool {
    let next = uncertain.partition_point(|numbers| numbers.to <= number);
    uncertain.get(next).is_some_and(|numbers| numbers.from <= number)
}
