//! A simulated sale with everything that can happen: the room never admits far more people than could still
//! buy.

use penstock_gate::{BUYER, LATE};
use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Happening {
    Arrive(u64),
    /// This many milliseconds pass; then the room ticks.
    Tick(i64),
    /// One of the admitted people takes a pass.
    TakePass(prop::sample::Index),
    /// Somebody with a pass buys.
    Buy(prop::sample::Index),
    Restock(u32),
    Return(u32),
    Pause(bool),
    /// The disk is slow: nothing is saved for a while.
    SlowDisk(bool),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        3 => (0..40_u64).prop_map(Happening::Arrive),
        6 => (1..3_000_i64).prop_map(Happening::Tick),
        6 => any::<prop::sample::Index>().prop_map(Happening::TakePass),
        4 => any::<prop::sample::Index>().prop_map(Happening::Buy),
        1 => (0..20_u32).prop_map(Happening::Restock),
        1 => (0..5_u32).prop_map(Happening::Return),
        1 => any::<bool>().prop_map(Happening::Pause),
        1 => any::<bool>().prop_map(Happening::SlowDisk),
    ]
}

/// A minimal shop around the room.
struct Shop {
    room: WaitingRoom,
    status: SaleStatus,
    millis: i64,
    slow_disk: bool,
    tickets: Vec<u64>,
    /// Number, deadline.
    passes: Vec<(u64, Timestamp)>,
    had_a_pass: std::collections::HashSet<u64>,
    /// When each admitted person was first seen admitted.
    admitted_since: std::collections::BTreeMap<u64, i64>,
}

impl Shop {
    fn new() -> Self {
        let options = RoomOptions { admissions_per_second: 10, ..OPTIONS };
        Self {
            room: new_room(options),
            status: status(15),
            millis: OPENS_AT_MILLIS - 5_000,
            slow_disk: false,
            tickets: Vec::new(),
            passes: Vec::new(),
            had_a_pass: Default::default(),
            admitted_since: Default::default(),
        }
    }

    fn live_passes(&self) -> u64 {
        self.passes.iter().filter(|(_, deadline)| at(self.millis) < *deadline).count() as u64
    }

    /// People who may go on and have not done so yet. Each of them counts on a unit.
    fn admitted_without_pass(&self) -> Vec<u64> {
        let may_go_on = |number: &&u64| {
            let standing = self.room.standing(**number, &self.status, at(self.millis));
            is_admitted(standing) && !self.had_a_pass.contains(*number)
        };
        self.tickets.iter().filter(may_go_on).copied().collect()
    }

    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(people) => {
                for _ in 0..people {
                    self.tickets.extend(self.room.take_number());
                }
            }
            Happening::Tick(millis) => self.tick(millis),
            Happening::TakePass(index) => {
                let admitted = self.admitted_without_pass();
                if !admitted.is_empty() {
                    self.take_pass(*index.get(&admitted));
                }
            }
            Happening::Buy(index) => {
                let now = at(self.millis);
                self.passes.retain(|(_, deadline)| now < *deadline);
                if !self.passes.is_empty() && self.status.available > 0 {
                    let bought = index.index(self.passes.len());
                    self.passes.remove(bought);
                    self.status.available -= 1;
                }
            }
            Happening::Restock(units) | Happening::Return(units) => self.status.available += units,
            Happening::Pause(paused) => self.status.paused = paused,
            Happening::SlowDisk(slow) => self.slow_disk = slow,
        }
    }

    fn take_pass(&mut self, number: u64) {
        self.passes.push((number, at(self.millis).plus_seconds(PASS_SECONDS)));
        self.had_a_pass.insert(number);
        self.room.pass_taken(number);
    }

    fn tick(&mut self, millis: i64) {
        self.millis += millis;
        self.tickets.iter().for_each(|number| self.room.heard(*number, self.room.place(*number)));
        let before = self.room.figures().let_in;
        let without_pass_before = self.admitted_without_pass().len() as u64;
        self.room.tick(&self.status, self.live_passes(), at(self.millis));
        if !self.slow_disk {
            save(&self.room);
        }
        let newly = self.room.figures().let_in - before;
        let going_on = without_pass_before + newly + self.live_passes();
        let can_buy = u64::from(self.status.available);
        // People who do not come in time count for less and less, but never for nothing.
        let most = can_buy * BUYER / LATE;
        assert!(newly == 0 || going_on <= most, "{newly} admitted, {going_on} for {can_buy} units");
        assert!(newly == 0 || (!self.status.paused && self.millis >= OPENS_AT_MILLIS));
        assert!(self.room.figures().admitted <= self.tickets.len() as u64);
        self.watch_turns();
    }

    /// A turn is never cut short.
    fn watch_turns(&mut self) {
        for number in self.tickets.clone() {
            let standing = self.room.standing(number, &self.status, at(self.millis));
            if is_admitted(standing) {
                self.admitted_since.entry(number).or_insert(self.millis);
            } else if standing.state == TURN_OVER
                && let Some(since) = self.admitted_since.get(&number)
            {
                assert!(self.millis - since >= i64::from(TURN_SECONDS) * SECOND - 3_000);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn never_are_more_admitted_than_a_few_for_each_unit(happenings in prop::collection::vec(happening(), 1..120)) {
        let mut shop = Shop::new();
        save(&shop.room);
        for happening in happenings {
            shop.happens(happening);
        }
    }
}

/// The counterpart to the test above: the room is not safe merely by admitting nobody.
#[test]
fn everybody_gets_a_turn_in_the_end_and_all_units_are_sold() {
    let mut shop = Shop::new();
    save(&shop.room);
    shop.happens(Happening::Arrive(90));
    shop.status.available = 20;
    let (mut sold, mut ticks) = (0, 0);
    while sold < 50 {
        ticks += 1;
        assert!(ticks < 2_000, "only {sold} units were sold");
        shop.tick(250);
        // Every third person does not come.
        for number in shop.admitted_without_pass().into_iter().filter(|number| number % 3 != 0) {
            shop.take_pass(number);
        }
        if ticks % 3 == 0 && shop.status.available > 0 && shop.passes.pop().is_some() {
            shop.status.available -= 1;
            sold += 1;
        }
        if shop.status.available == 0 {
            shop.status.available = 20;
        }
    }
}
