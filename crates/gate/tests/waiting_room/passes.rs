//! People who take a pass and do not order, and people who do.

use penstock_gate::{LivePasses, late_after_millis};

use super::*;

const OPEN: i64 = OPENS_AT_MILLIS;
const PASS_MILLIS: i64 = PASS_SECONDS as i64 * SECOND;

struct Shop {
    room: WaitingRoom,
    order: Vec<u64>,
    units: u32,
    /// By when each live pass was taken.
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

    /// Everybody whose turn it is takes a pass. This is how long after that they order; None: never.
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
        let late_after = late_after_millis(PASS_SECONDS);
        let is_late = |taken_at: &&i64| self.millis - **taken_at >= late_after;
        let late = self.taken_at.iter().filter(is_late).count() as u64;
        let live = LivePasses { all: self.taken_at.len() as u64, late };
        all_are_there(&self.room);
        self.room.tick(&status(self.units), live, at(self.millis));
        save(&self.room);
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
        assert!(shop.taken_at.len() as u32 <= 5 * UNITS + 5, "{} passes", shop.taken_at.len());
    }
}

#[test]
fn if_all_who_take_a_pass_order_soon_nobody_is_called_in_vain() {
    let mut shop = Shop::with(300, 0);
    for round in 1..=5 {
        shop.units += 50;
        (0..100).for_each(|_| shop.passes(Some(2 * SECOND)));
        assert_eq!((shop.units, shop.room.figures().let_in), (0, 50 * round));
    }
}
