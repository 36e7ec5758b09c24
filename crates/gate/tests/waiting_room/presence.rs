//! People who left cost nothing: people who are there are called in order as soon as there is a unit for
//! them, and never far more of them than could buy.

use std::collections::BTreeMap;

use penstock_gate::{BUYER, GENERATION_MILLIS, LATE, LEAST_FRESH};

use super::*;

const OPEN: i64 = OPENS_AT_MILLIS;
const TICK: i64 = 100;
/// How often a waiting person asks.
const ASKS_EVERY: i64 = 3_000;
/// The most open turns per unit.
const MOST_TURNS: u64 = BUYER / LATE;
/// The most of them that began recently.
const MOST_FRESH_TURNS: u64 = BUYER / LEAST_FRESH;

/// A person who waits, and their behaviour when their turn comes.
#[derive(Clone, Copy)]
struct Person {
    is_there: bool,
    /// How long after the call they take a pass and buy at once. None: they keep asking and never buy.
    buys_after: Option<i64>,
    called_at: Option<i64>,
    has_bought: bool,
}

const GONE: Person = Person { is_there: false, buys_after: Some(1_000), called_at: None, has_bought: false };
const PRESENT: Person = Person { is_there: true, ..GONE };
const BOT: Person = Person { buys_after: None, ..PRESENT };

struct World {
    room: WaitingRoom,
    status: SaleStatus,
    millis: i64,
    people: BTreeMap<u64, Person>,
    /// The place of each number.
    places: Vec<Option<u64>>,
    /// The longest time a unit was free while a buyer waited.
    longest_wait: i64,
    waited_since: Option<i64>,
    most_open: u64,
}

impl World {
    /// Everybody waited for the opening, which is long ago. Everything was sold, and most people have left
    /// since.
    fn sold_out(people: Vec<Person>) -> Self {
        Self::sold_out_with(people, OPTIONS)
    }

    fn sold_out_with(people: Vec<Person>, options: RoomOptions) -> Self {
        let room = opened_with(people.len() as u64, options);
        let places = (0..people.len() as u64).map(|number| room.place(number)).collect();
        let people = people.into_iter().enumerate().map(|(number, person)| (number as u64, person)).collect();
        let mut world = Self {
            room,
            status: status(0),
            millis: OPEN,
            people,
            places,
            longest_wait: 0,
            waited_since: None,
            most_open: 0,
        };
        world.passes(3 * GENERATION_MILLIS);
        assert_eq!(world.room.figures().admitted, 0);
        world
    }

    fn passes(&mut self, millis: i64) {
        let end = self.millis + millis;
        while self.millis < end {
            self.millis += TICK;
            self.tick();
        }
    }

    fn tick(&mut self) {
        let now = at(self.millis);
        let waiting = self.people.iter_mut().filter(|(_, person)| person.is_there && !person.has_bought);
        let (mut waits, mut open) = (false, 0);
        for (number, person) in waiting {
            let place = self.places[*number as usize];
            let phase = *number as i64 * 7_919 % ASKS_EVERY / TICK;
            if self.millis / TICK % (ASKS_EVERY / TICK) == phase {
                self.room.heard(*number, place);
            }
            if is_admitted(self.room.standing_at(place, &self.status, now)) {
                open += 1;
                let called_at = *person.called_at.get_or_insert(self.millis);
                if person.buys_after.is_some_and(|after| self.millis - called_at >= after) {
                    self.room.pass_taken(*number);
                    person.has_bought = self.status.available > 0;
                    self.status.available = self.status.available.saturating_sub(1);
                }
            } else if person.called_at.is_none() && person.buys_after.is_some() {
                waits = true;
            }
        }
        self.most_open = self.most_open.max(open);
        // Is a unit free, beyond those for people with an open turn?
        let is_free = waits && u64::from(self.status.available) > open;
        self.waited_since = if is_free { self.waited_since.or(Some(self.millis)) } else { None };
        self.longest_wait = self.longest_wait.max(self.waited_since.map_or(0, |since| self.millis - since));
        self.room.tick(&self.status, 0, now);
        save(&self.room);
    }

    fn bought(&self) -> usize {
        self.people.values().filter(|person| person.has_bought).count()
    }

    fn called(&self) -> usize {
        self.people.values().filter(|person| person.called_at.is_some()).count()
    }
}

/// Some people are there, spread over all places.
fn some_there(people: usize, there: usize) -> Vec<Person> {
    let every = people / there;
    (0..people).map(|number| if number % every == every / 2 { PRESENT } else { GONE }).collect()
}

#[test]
fn a_unit_that_comes_back_goes_to_somebody_who_is_there_and_not_to_two_thousand_who_left() {
    let mut world = World::sold_out(some_there(2_000, 10));
    assert_eq!(world.room.figures().waiting, 10, "people who left don't count");
    // Units come back one by one, as unpaid holds end.
    for units in [1, 3, 1, 2, 3] {
        world.status.available += units;
        world.passes(8 * SECOND);
    }
    assert_eq!(world.bought(), 10);
    assert!(world.longest_wait <= 2 * SECOND, "a unit was there for {} ms", world.longest_wait);
    assert_eq!(world.room.figures().waiting, 0);
}

#[test]
fn with_48_units_on_the_shelf_all_who_are_there_are_called_at_once() {
    let mut world = World::sold_out(some_there(2_000, 10));
    world.status.available = 48;
    world.passes(SECOND);
    assert_eq!(world.called(), 10);
}

#[test]
fn if_half_or_all_buy_everything_is_sold_and_nobody_too_many_is_called() {
    for there in [1_000, 2_000] {
        let mut world = World::sold_out(some_there(2_000, there));
        for _ in 0..20 {
            world.status.available += 20;
            world.passes(5 * SECOND);
        }
        assert_eq!((world.bought(), world.called()), (400, 400), "{there} of 2,000");
        assert!(world.longest_wait <= 2 * SECOND, "a unit was there for {} ms", world.longest_wait);
        assert!(world.most_open <= 20, "{} had a turn for 20 units", world.most_open);
    }
}

/// Everybody has a picture to read first, and is expected to take time for it.
#[test]
fn people_who_need_long_for_a_captcha_are_not_mistaken_for_people_who_stay_away() {
    let slow = Person { buys_after: Some(15 * SECOND), ..PRESENT };
    let options = RoomOptions { uptake_seconds: 20, ..OPTIONS };
    let mut world = World::sold_out_with(vec![slow; 2_000], options);
    for round in 1..=3 {
        world.status.available += 100;
        world.passes(20 * SECOND);
        assert_eq!((world.bought(), world.called()), (100 * round, 100 * round));
    }
}

#[test]
fn a_position_counts_the_people_in_front_who_are_there() {
    let world = World::sold_out(some_there(200, 20));
    let open = SaleStatus { available: 1, ..world.status };
    let order = in_order(&world.room, 200);
    let waiting = order.iter().filter(|number| world.people[*number].is_there);
    for (before, number) in waiting.enumerate() {
        let position = world.room.standing(*number, &open, at(world.millis)).position;
        assert_eq!(position, Some(before as u64 + 1));
    }
}

/// A script asks for thousands of tickets again and again and never uses them, and a buyer is behind all of
/// them.
#[test]
fn tickets_that_are_asked_for_and_never_used_do_not_stop_the_line() {
    const BOTS: u64 = 1_000;
    const UNITS: u64 = 20;
    let mut world = World::sold_out(vec![BOT; BOTS as usize + 1]);
    let last = *in_order(&world.room, BOTS + 1).last().unwrap();
    world.people.insert(last, PRESENT);
    world.status.available = UNITS as u32;
    let began = world.millis;
    while world.bought() == 0 {
        world.passes(SECOND);
        assert!(world.most_open <= MOST_TURNS * UNITS, "{} open turns for {UNITS} units", world.most_open);
        assert!(world.millis - began < 600 * SECOND, "{:?}", world.room.figures());
    }
    // It took 25 minutes when each turn of 30 seconds called one person per unit.
    let seconds = (world.millis - began) / SECOND;
    assert!(seconds <= 150, "the buyer waited {seconds} seconds");
}

/// The figures of ADR 9: how long a buyer waits behind two thousand such tickets, in seconds.
#[test]
fn a_buyer_behind_two_thousand_tickets_that_are_never_used_waits_for_minutes_and_not_forever() {
    for (uptake_seconds, told_seconds) in [(6, 170_i64), (20, 300)] {
        let options = RoomOptions { turn_seconds: 60, uptake_seconds, ..OPTIONS };
        let mut world = World::sold_out_with(vec![BOT; 2_001], options);
        let last = *in_order(&world.room, 2_001).last().unwrap();
        world.people.insert(last, PRESENT);
        world.status.available = 48;
        let began = world.millis;
        while world.bought() == 0 && world.millis - began < 600 * SECOND {
            world.passes(SECOND);
        }
        let seconds = (world.millis - began) / SECOND;
        assert!(seconds.abs_diff(told_seconds) <= 10, "{seconds} s, and the ADR says {told_seconds}");
    }
}

#[test]
fn buyers_behind_a_crowd_that_never_buys_are_not_called_without_bound() {
    const UNITS: u64 = 10;
    let mut world = World::sold_out(vec![BOT; 2_000]);
    world.status.available = UNITS as u32;
    world.passes(120 * SECOND);
    // From now on everybody buys. The people called recently and now are few per unit.
    let before = world.called() as u64;
    world.people.values_mut().for_each(|person| person.buys_after = Some(SECOND));
    world.passes(10 * SECOND);
    assert_eq!(world.bought() as u64, UNITS);
    let after = world.called() as u64 - before;
    assert!(after <= MOST_FRESH_TURNS * UNITS, "{after} more for {UNITS} units");
    assert!(world.most_open <= MOST_TURNS * UNITS);
}

#[test]
fn when_everybody_comes_back_at_once_only_as_many_are_called_as_could_buy() {
    let mut world = World::sold_out(some_there(2_000, 2));
    world.status.available = 2;
    world.passes(5 * SECOND);
    assert_eq!(world.bought(), 2);
    let passed_over = world.room.figures().admitted;
    assert!(passed_over > 1_000, "somebody far behind was called: {passed_over}");
    // News of the returned units reaches everybody in the same second.
    world.people.values_mut().for_each(|person| person.is_there = true);
    world
        .people
        .values_mut()
        .filter(|person| person.called_at.is_none())
        .for_each(|person| person.buys_after = Some(500));
    world.status.available = 48;
    let before = world.called();
    world.passes(2 * ASKS_EVERY);
    assert_eq!((world.bought(), world.called() - before), (50, 48));
    assert!(world.most_open <= 48);
}

#[test]
fn a_person_who_was_away_for_a_moment_is_called_before_people_behind_them() {
    let mut world = World::sold_out(vec![GONE; 100]);
    let order = in_order(&world.room, 100);
    world.people.insert(order[90], PRESENT);
    world.people.insert(order[95], PRESENT);
    world.status.available = 1;
    world.passes(4 * SECOND);
    assert!(world.people[&order[90]].has_bought);
    // Their phone was locked. Two people are back, and so is a unit.
    world.people.insert(order[40], PRESENT);
    world.people.insert(order[20], PRESENT);
    world.passes(ASKS_EVERY);
    let asked = SaleStatus { available: 1, ..world.status };
    let position = |number: u64| world.room.standing(number, &asked, at(world.millis)).position;
    assert_eq!([order[20], order[40], order[95]].map(position), [Some(1), Some(2), Some(3)]);
    for expected in [order[20], order[40], order[95]] {
        world.status.available = 1;
        world.passes(2 * SECOND);
        assert!(world.people[&expected].has_bought, "the first in line buys first");
    }
}

#[test]
fn a_person_away_for_longer_than_a_turn_needs_a_new_ticket() {
    let mut world = World::sold_out(vec![GONE; 100]);
    let order = in_order(&world.room, 100);
    world.people.insert(order[90], PRESENT);
    world.status.available = 5;
    world.passes(4 * SECOND);
    let state = |world: &World| world.room.standing(order[10], &world.status, at(world.millis)).state;
    assert_eq!(state(&world), TicketState::Waiting);
    world.passes(i64::from(TURN_SECONDS) * SECOND);
    assert_eq!(state(&world), TURN_OVER);
}

#[test]
fn after_a_restart_people_who_are_back_first_take_nothing_from_people_who_come_a_moment_later() {
    let mut world = World::sold_out(some_there(2_000, 10));
    world.status.available = 1;
    world.passes(2 * SECOND);
    let (called, passed_over) = (world.called(), world.room.figures().admitted);
    world.room = WaitingRoom::new(sale(), world.room.closing_state(), OPTIONS);
    save(&world.room);
    assert_eq!((called, world.room.figures().admitted), (1, passed_over));
    world.status.available = 4;
    world.passes(5 * SECOND);
    assert_eq!(world.called(), 1, "nobody knows yet who is there");
    world.passes(7 * SECOND);
    assert_eq!(world.bought(), 5);
    let order = in_order(&world.room, 2_000);
    let there = order.iter().filter(|number| world.people[*number].is_there);
    let bought: Vec<bool> = there.map(|number| world.people[number].has_bought).collect();
    assert_eq!(bought.iter().take_while(|bought| **bought).count(), 5, "{bought:?}");
}

/// A tab in the background: the browser lets it look once a minute, and not always on time. The unit comes
/// back at any moment between two looks. The person came long ago, or has just taken a ticket.
#[test]
fn somebody_who_looks_once_a_minute_has_time_to_use_their_turn() {
    const LOOKS_EVERY: i64 = 60 * SECOND + 300;
    let options = RoomOptions { turn_seconds: 60, ..OPTIONS };
    for since_look in (0..60).map(|step| step * SECOND + 50) {
        let room = opened_with(3, options);
        let number = in_order(&room, 3)[1];
        let (unit_at, mut looks) = (OPEN + 2 * LOOKS_EVERY + since_look, 0);
        for tick in 1.. {
            let millis = OPEN + tick * TICK;
            let now = at(millis);
            let status = status(u32::from(millis >= unit_at));
            if tick * TICK / LOOKS_EVERY > (tick - 1) * TICK / LOOKS_EVERY {
                looks += 1;
                room.heard(number, room.place(number));
                match room.standing(number, &status, now).state {
                    TicketState::Admitted { until } => {
                        let millis_left = until.millis_since(now);
                        assert!(
                            millis_left >= 20 * SECOND,
                            "{millis_left} left, unit {since_look} after a look"
                        );
                        break;
                    }
                    state => assert!(state == TicketState::Waiting || status.available == 0, "{state:?}"),
                }
            }
            assert!(looks < 6, "never called");
            room.tick(&status, 0, now);
            save(&room);
        }
    }
}

/// `leavers` leave `after` this long since their call, and each of four buyers behind them buys. Returns how
/// long that takes, in seconds.
fn seconds_behind(leavers: usize, after: i64, options: RoomOptions) -> i64 {
    const UNITS: usize = 4;
    const LONGEST_SECONDS: i64 = 600;
    let mut world = World::sold_out_with(vec![GONE; leavers + UNITS], options);
    let order = in_order(&world.room, (leavers + UNITS) as u64);
    world.people.extend(order[..leavers].iter().map(|number| (*number, BOT)));
    world.people.extend(order[leavers..].iter().map(|number| (*number, PRESENT)));
    world.passes(ASKS_EVERY);
    world.status.available = UNITS as u32;
    let began = world.millis;
    while world.bought() < UNITS && world.millis - began < LONGEST_SECONDS * SECOND {
        world.passes(TICK);
        let now = world.millis;
        let leaves = |person: &&mut Person| {
            person.buys_after.is_none() && person.called_at.is_some_and(|called_at| now - called_at >= after)
        };
        world.people.values_mut().filter(leaves).for_each(|person| person.is_there = false);
    }
    (world.millis - began) / SECOND
}

/// Their turns last longer, and still nobody waits for them.
#[test]
fn people_who_leave_when_they_are_called_cost_the_others_nothing_later() {
    let seconds = seconds_behind(60, 0, OPTIONS);
    assert!(seconds <= 60, "{seconds} s");
}

/// A turn counts in full for 48 seconds here, but not the turn of somebody who has left.
#[test]
fn people_who_leave_when_they_are_called_are_distinguished_from_people_who_read_a_picture() {
    let options = RoomOptions { turn_seconds: 60, uptake_seconds: 20, ..OPTIONS };
    for after in [0, 6, 15] {
        let seconds = seconds_behind(4, after * SECOND, options);
        assert!(seconds <= after + 33, "behind four who left after {after} s: {seconds} s");
    }
    let seconds = seconds_behind(60, 0, options);
    assert!(seconds <= 170, "behind sixty who left at once: {seconds} s");
}

#[test]
fn people_who_leave_when_they_are_called_keep_nobody_waiting_for_half_a_long_turn() {
    // Calls within a 512th of a turn would make one run.
    let options = RoomOptions { turn_seconds: 3_000, ..OPTIONS };
    let seconds = seconds_behind(150, 0, options);
    assert!(seconds <= 150, "{seconds} s");
}

/// Where neighbours share a bit, the people of a run are counted with some of their neighbours.
#[test]
fn a_room_of_a_billion_counts_about_the_people_who_wait() {
    const TICKETS: u64 = 1 << 30;
    const SHARING: u64 = 64;
    let state = RoomState { reserved: TICKETS, early: Some(0), ..RoomState::new([7; 32]) };
    // Calls within a 512th of a turn would make one run.
    let options = RoomOptions { turn_seconds: 3_000, ..OPTIONS };
    let room = WaitingRoom::new(sale(), state, options);
    let mut millis = OPEN;
    let mut pass = |seconds: i64, available: u32, people: &[u64]| {
        let status = status(available);
        for _ in 0..seconds {
            millis += SECOND;
            people.iter().for_each(|number| room.heard(*number, Some(*number)));
            room.tick(&status, 0, at(millis));
            save(&room);
            let waiting = room.figures().waiting;
            let position = room.standing_at(Some(TICKETS - 1), &status, at(millis)).position;
            assert!(waiting <= 5 * SHARING, "{waiting} are waiting");
            assert!(position.is_none_or(|position| position <= 5 * SHARING), "{position:?}");
        }
    };
    let everybody: Vec<u64> = (0..4 * SHARING).chain([TICKETS - 1]).collect();
    pass(7, 0, &everybody);
    // Two runs that meet where neighbours share a bit.
    pass(7, 101, &everybody);
    pass(1, 202, &everybody);
    // Every second group of neighbours leaves, and is gone before its turns are looked at.
    let rest: Vec<u64> = everybody.into_iter().filter(|number| number / SHARING % 2 == 1).collect();
    pass(40, 1, &rest);
    assert_eq!(room.figures().let_in, 202);
}
