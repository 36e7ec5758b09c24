//! People who take a pass and do not order, and people who do.

use penstock_domain::BuyerId;
use penstock_gate::{HeadGate, HeadGateOptions, LivePasses, late_after_millis};

use super::*;

const OPEN: i64 = OPENS_AT_MILLIS;
const PASS_MILLIS: i64 = PASS_SECONDS as i64 * SECOND;
/// Passes per unit that the head gate gives out by default.
const PASS_FACTOR: u32 = 5;

struct Shop {
    room: WaitingRoom,
    order: Vec<u64>,
    units: u32,
    /// When each live pass was taken.
    taken_at: Vec<i64>,
    had_a_pass: Vec<u64>,
    millis: i64,
}

impl Shop {
    fn with(people: u64, units: u32) -> Self {
        let room = opened_with(people, OPTIONS);
        let order = in_order(&room, people);
        Self { room, order, units, taken_at: Vec::new(), had_a_pass: Vec::new(), millis: OPEN }
    }

    /// Everybody whose turn it is takes a pass, and orders this long after that. None: they never order.
    fn passes(&mut self, orders_after: Option<i64>) {
        self.millis += 100;
        let before = self.taken_at.len();
        self.taken_at.retain(|taken_at| orders_after.is_none_or(|after| self.millis - taken_at < after));
        self.units -= (before - self.taken_at.len()) as u32;
        self.taken_at.retain(|taken_at| self.millis - taken_at < PASS_MILLIS);
        for place in 0..self.order.len() {
            let number = self.order[place];
            if self.is_admitted(place) && !self.had_a_pass.contains(&number) {
                self.had_a_pass.push(number);
                self.taken_at.push(self.millis);
                self.room.pass_taken(number);
            }
        }
        let live = self.live_passes();
        all_are_there(&self.room);
        self.room.tick(&status(self.units), live, at(self.millis));
        save(&self.room);
    }

    fn live_passes(&self) -> LivePasses {
        let is_late = |taken_at: &&i64| self.millis - **taken_at >= late_after_millis(PASS_SECONDS);
        let late = self.taken_at.iter().filter(is_late).count() as u64;
        LivePasses { all: self.taken_at.len() as u64, late }
    }

    fn is_admitted(&self, place: usize) -> bool {
        is_admitted(self.room.standing(self.order[place], &status(self.units), at(self.millis)))
    }
}

#[test]
fn people_who_take_a_pass_and_leave_keep_nobody_waiting_until_it_ends() {
    const UNITS: u32 = 10;
    let mut shop = Shop::with(41, UNITS);
    while !shop.is_admitted(40) {
        shop.passes(None);
        let waited = shop.millis - OPEN;
        assert!(waited <= PASS_MILLIS / 2, "{waited} ms with {} live passes", shop.taken_at.len());
    }
}

#[test]
fn there_are_never_more_passes_for_a_unit_than_the_head_gate_gives_out() {
    const UNITS: u32 = 10;
    let mut shop = Shop::with(500, UNITS);
    for _ in 0..600 {
        shop.passes(None);
        let LivePasses { all, late } = shop.live_passes();
        assert!(all - late <= u64::from((PASS_FACTOR + 1) * UNITS), "{all} passes, {late} of them late");
        assert!(all <= 17 * u64::from(UNITS), "{all} passes");
    }
}

/// A crowd takes passes and never orders, and a buyer is behind all of them. When their turn comes, they get
/// a pass. Returns how long that takes, in seconds.
fn seconds_behind_unused_passes(people: u64, units: u32) -> i64 {
    const PASS_SECONDS: u32 = 120;
    let options = RoomOptions { turn_seconds: 60, pass_seconds: PASS_SECONDS, ..OPTIONS };
    let room = opened_with(people + 1, options);
    let order = in_order(&room, people + 1);
    let head =
        HeadGate::new(HeadGateOptions { factor: PASS_FACTOR, pass_seconds: PASS_SECONDS, max_live: 100_000 });
    let (open, mut next, last) = (status(units), 0, people as usize);
    for millis in (OPEN..OPEN + 1_200 * SECOND).step_by(100) {
        let now = at(millis);
        all_are_there(&room);
        room.tick(&open, head.live_passes(now), now);
        save(&room);
        // In the order of their turns. A refused person tries again at the next tick.
        while next <= last && is_admitted(room.standing(order[next], &open, now)) {
            if head.take(&BuyerId::from_stored(&order[next].to_string()), units, now).is_err() {
                break;
            }
            room.pass_taken(order[next]);
            next += 1;
        }
        assert!(
            next > last || is_waiting_or_admitted(&room, order[next], &open, now),
            "a turn ended without a pass"
        );
        if next > last {
            return (millis - OPEN) / SECOND;
        }
    }
    i64::MAX
}

fn is_waiting_or_admitted(room: &WaitingRoom, number: u64, status: &SaleStatus, now: Timestamp) -> bool {
    matches!(room.standing(number, status, now).state, TicketState::Admitted { .. } | TicketState::Waiting)
}

#[test]
fn passes_that_are_never_used_hold_up_a_buyer_for_a_sixteenth_of_a_unit_and_cost_nobody_their_turn() {
    for (people, units, bound) in [(2_000, 48, 380), (40, 1, 580)] {
        let seconds = seconds_behind_unused_passes(people, units);
        eprintln!("behind {people} people for {units} units: {seconds} s");
        assert!(seconds <= bound, "behind {people} people for {units} units: {seconds} s");
    }
}

#[test]
fn if_everybody_with_a_pass_orders_soon_nobody_is_called_for_nothing() {
    let mut shop = Shop::with(300, 0);
    for round in 1..=5 {
        shop.units += 50;
        (0..100).for_each(|_| shop.passes(Some(2 * SECOND)));
        assert_eq!((shop.units, shop.room.figures().let_in), (0, 50 * round));
    }
}
