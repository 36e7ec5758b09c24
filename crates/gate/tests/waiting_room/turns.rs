//! When people may go on, for how long, and what happens if they don't.

use super::*;

const TURN_MILLIS: i64 = TURN_SECONDS as i64 * SECOND;
const OPEN: i64 = OPENS_AT_MILLIS;

fn admitted_among(room: &WaitingRoom, people: u64, status: &SaleStatus, millis: i64) -> Vec<u64> {
    (0..people).filter(|number| is_admitted(room.standing(*number, status, at(millis)))).collect()
}

#[test]
fn no_more_are_admitted_than_could_still_buy() {
    let room = opened_with(100, OPTIONS);
    tick(&room, &status(10), 3, OPEN + SECOND);
    assert_eq!(admitted_among(&room, 100, &status(10), OPEN + SECOND).len(), 7, "three have a pass already");
    tick(&room, &status(10), 3, OPEN + 2 * SECOND);
    assert_eq!(room.figures().admitted, 7);
    tick(&room, &status(12), 3, OPEN + 3 * SECOND);
    assert_eq!(room.figures().admitted, 9, "two units were added");
    tick(&room, &status(5), 3, OPEN + 4 * SECOND);
    assert_eq!(room.figures().admitted, 9);
}

#[test]
fn people_are_admitted_in_the_order_of_their_places() {
    let room = opened_with(100, OPTIONS);
    tick(&room, &status(10), 0, OPEN + SECOND);
    let mut expected = in_order(&room, 100)[..10].to_vec();
    expected.sort_unstable();
    assert_eq!(admitted_among(&room, 100, &status(10), OPEN + SECOND), expected);
    let next = in_order(&room, 100)[10];
    assert_eq!(room.standing(next, &status(10), at(OPEN + SECOND)).position, Some(1));
}

#[test]
fn a_taken_pass_is_always_counted_and_an_order_makes_no_room() {
    let room = opened_with(100, OPTIONS);
    tick(&room, &status(10), 0, OPEN + SECOND);
    let order = in_order(&room, 100);
    for number in &order[..4] {
        assert!(!room.has_taken(*number));
        room.pass_taken(*number);
        room.pass_taken(*number);
        assert!(room.has_taken(*number));
    }
    assert!(!room.has_taken(order[4]) && !room.has_taken(order[10]), "they have taken nothing");
    // The live passes may have been counted just before these four were taken.
    tick(&room, &status(10), 0, OPEN + 2 * SECOND);
    assert_eq!((room.figures().admitted, room.figures().pending), (10, 6));
    tick(&room, &status(10), 4, OPEN + 3 * SECOND);
    assert_eq!(room.figures().admitted, 10);
    tick(&room, &status(6), 0, OPEN + 4 * SECOND);
    assert_eq!(room.figures().admitted, 10, "four units are sold, four passes used");
}

#[test]
fn people_who_do_not_come_make_room_for_others() {
    let room = opened_with(100, OPTIONS);
    tick(&room, &status(10), 0, OPEN + SECOND);
    let order = in_order(&room, 100);
    let until = OPEN + SECOND + TURN_MILLIS;
    for second in 2..=12 {
        tick(&room, &status(10), 0, OPEN + second * SECOND);
        assert_eq!(room.figures().admitted, 10, "they may be solving a challenge");
    }
    for second in 13..=20 {
        tick(&room, &status(10), 0, OPEN + second * SECOND);
    }
    let admitted = room.figures().admitted;
    assert!((20..=90).contains(&admitted), "{admitted}");
    assert!(is_admitted(room.standing(order[10], &status(10), at(OPEN + 20 * SECOND))));
    for number in &order[..10] {
        let standing = room.standing(*number, &status(10), at(until - 1));
        assert_eq!(standing.state, TicketState::Admitted { until: at(until) }, "no turn is cut short");
        assert_eq!(room.standing(*number, &status(10), at(until)).state, TURN_OVER);
    }
    tick(&room, &status(10), 0, until + SECOND);
    assert_eq!(room.standing(order[0], &status(10), at(until + 60 * SECOND)).state, TURN_OVER);
}

#[test]
fn nobody_is_admitted_while_the_sale_is_paused_sold_out_or_closed() {
    let mut paused = status(10);
    paused.paused = true;
    let mut closed = status(10);
    closed.closed = true;
    for status in [paused, closed, status(0)] {
        let room = opened_with(100, OPTIONS);
        for second in 1..20 {
            tick(&room, &status, 0, OPEN + second * SECOND);
        }
        assert_eq!(room.figures().admitted, 0, "{status:?}");
    }
}

#[test]
fn sold_out_sends_everybody_home_and_returned_units_bring_them_back() {
    let room = opened_with(100, OPTIONS);
    tick(&room, &status(10), 0, OPEN + SECOND);
    let order = in_order(&room, 100);
    let states = |status: &SaleStatus| {
        [order[0], order[50]].map(|number| room.standing(number, status, at(OPEN + 2 * SECOND)).state)
    };
    let sold_out = TicketState::Gone(GoneReason::SoldOut);
    assert_eq!(states(&status(0)), [sold_out; 2]);
    let until = at(OPEN + SECOND + TURN_MILLIS);
    assert_eq!(states(&status(1)), [TicketState::Admitted { until }, TicketState::Waiting]);
    let mut closed = status(1);
    closed.terms.closes_at = Some(at(OPEN + 2 * SECOND));
    assert_eq!(states(&closed), [TicketState::Gone(GoneReason::Closed); 2]);
}

#[test]
fn the_pace_is_never_exceeded() {
    for admissions_per_second in [1, 7, 50, 2_000] {
        let options = RoomOptions { admissions_per_second, ..OPTIONS };
        let room = opened_with(10_000, options);
        let (pace, mut before) = (u64::from(admissions_per_second), 0);
        // At once a quarter of a second's worth, and at least one person.
        let burst = (pace * 250).max(1_000);
        for step in 1..=40 {
            tick(&room, &status(1_000_000), 0, OPEN + step * 100);
            let admitted = room.figures().admitted;
            let allowed = (burst + pace * 100 * step as u64) / 1_000;
            assert!(admitted <= allowed, "{admitted} after {step} ticks at {pace} a second");
            before = admitted;
        }
        let due = 4 * pace;
        assert!(before >= due, "only {before} of {due} in four seconds");
    }
}

#[test]
fn only_people_with_a_ticket_are_admitted() {
    let room = opened_with(3, OPTIONS);
    for second in 1..5 {
        tick(&room, &status(1_000), 0, OPEN + second * SECOND);
    }
    assert_eq!(room.figures().admitted, 3);
    let late = take(&room, 1)[0];
    tick(&room, &status(1_000), 0, OPEN + 6 * SECOND);
    assert!(is_admitted(room.standing(late, &status(1_000), at(OPEN + 6 * SECOND))));
}

#[test]
fn setting_the_clock_back_does_not_stop_the_room() {
    let room = opened_with(100, OPTIONS);
    let hour = 3_600 * SECOND;
    tick(&room, &status(10), 0, OPEN + hour);
    assert_eq!(room.figures().admitted, 10);
    tick(&room, &status(10), 0, OPEN + SECOND);
    tick(&room, &status(10), 0, OPEN + SECOND + TURN_MILLIS + SECOND);
    tick(&room, &status(10), 0, OPEN + SECOND + TURN_MILLIS + SECOND + 100);
    assert!(room.figures().admitted >= 20);
}

#[test]
fn a_pause_does_not_shorten_anybodys_turn() {
    let room = opened_with(100, OPTIONS);
    tick(&room, &status(10), 0, OPEN + SECOND);
    let first = in_order(&room, 100)[0];
    let paused = SaleStatus { paused: true, ..status(10) };
    let mut millis = OPEN + SECOND;
    for _ in 0..2 * TURN_MILLIS / 100 {
        millis += 100;
        tick(&room, &paused, 0, millis);
    }
    let until = at(millis).plus_seconds(TURN_SECONDS);
    assert_eq!(room.standing(first, &status(10), at(millis)).state, TicketState::Admitted { until });
    tick(&room, &status(10), 0, millis + TURN_MILLIS);
    assert_eq!(room.standing(first, &status(10), at(millis + TURN_MILLIS)).state, TURN_OVER);
}
