//! Before the opening, the opening itself, and latecomers.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    thread,
};

use penstock_gate::{Draw, commitment};

use super::*;

#[test]
fn before_the_opening_everybody_waits_without_a_place() {
    let room = new_room(OPTIONS);
    take(&room, 10);
    tick(&room, &status(5), 0, OPENS_AT_MILLIS - 1);
    let standing = room.standing(3, &status(5), at(OPENS_AT_MILLIS - 1));
    assert_eq!(room.place(3), None);
    assert_eq!(room.standing_at(None, &status(5), at(OPENS_AT_MILLIS - 1)), standing);
    let waiting = TicketState::Waiting;
    assert_eq!(
        standing,
        Standing { state: waiting, place: None, position: None, estimated_wait_seconds: None }
    );
    // Having nothing on sale yet must not send people home.
    assert_eq!(room.standing(3, &status(0), at(OPENS_AT_MILLIS - 1)).state, waiting);
    assert_eq!(room.figures().admitted, 0);
}

#[test]
fn the_seed_is_promised_before_the_opening_and_revealed_once_the_opening_is_durable() {
    let room = new_room(OPTIONS);
    take(&room, 10);
    let before = room.draw();
    assert_eq!((before.commitment, before.seed, before.count), (commitment(&[7; 32]), None, None));
    room.tick(&status(5), 0, at(OPENS_AT_MILLIS));
    assert_eq!(room.draw().seed, None, "the opening is not durable yet");
    assert_eq!(room.standing(0, &status(5), at(OPENS_AT_MILLIS)).place, None);
    room.tick(&status(5), 0, at(OPENS_AT_MILLIS + SECOND));
    assert_eq!(room.figures().admitted, 0, "nobody is admitted in an order that a crash could change");
    let opening = save(&room).unwrap();
    assert_eq!(opening.early, Some(10));
    let after = room.draw();
    assert_eq!((after.commitment, after.seed, after.count), (before.commitment, Some([7; 32]), Some(10)));
    assert!(room.tick(&status(5), 0, at(OPENS_AT_MILLIS + SECOND + 1)), "people see their places");
}

#[test]
fn everybody_who_waited_gets_the_place_of_the_draw_and_late_comers_queue_behind() {
    let room = opened_with(1_000, OPTIONS);
    let draw = Draw::new(&[7; 32], sale(), 1_000);
    let now = at(OPENS_AT_MILLIS);
    for number in 0..1_000 {
        assert_eq!(room.standing(number, &status(5), now).place, Some(draw.place(number)));
    }
    let late = take(&room, 500);
    tick(&room, &status(0), 0, OPENS_AT_MILLIS + 100);
    for number in late {
        let standing = room.standing(number, &status(5), now);
        assert_eq!(room.place(number), standing.place);
        assert_eq!(room.standing_at(standing.place, &status(5), now), standing);
        assert_eq!((standing.place, standing.position), (Some(number), Some(number + 1)));
    }
}

#[test]
fn a_sale_without_an_opening_has_no_draw_and_queues_by_arrival() {
    let room = new_room(OPTIONS);
    take(&room, 5);
    tick(&room, &always_open(2), 0, 0);
    assert_eq!(room.draw().count, Some(0));
    tick(&room, &always_open(2), 0, 100);
    let states: Vec<bool> =
        (0..5).map(|number| is_admitted(room.standing(number, &always_open(2), at(100)))).collect();
    assert_eq!(states, [true, true, false, false, false]);
    assert_eq!(room.standing(4, &always_open(2), at(100)).position, Some(3));
}

#[test]
fn a_sale_that_was_closed_before_it_opened_is_never_drawn() {
    let room = new_room(OPTIONS);
    take(&room, 5);
    let mut closed = status(5);
    closed.closed = true;
    tick(&room, &closed, 0, OPENS_AT_MILLIS + SECOND);
    assert_eq!(room.draw().seed, None);
    assert_eq!(
        room.standing(0, &closed, at(OPENS_AT_MILLIS + SECOND)).state,
        TicketState::Gone(GoneReason::Closed)
    );
}

#[test]
fn people_who_come_at_the_moment_of_the_opening_are_either_drawn_or_queued() {
    let room = new_room(OPTIONS);
    take(&room, 100);
    let done = AtomicBool::new(false);
    let mut numbers = thread::scope(|scope| {
        let takers: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    let mut taken = Vec::new();
                    while !done.load(Relaxed) {
                        taken.extend(room.take_number());
                    }
                    taken
                })
            })
            .collect();
        for step in 0..200 {
            room.tick(&status(0), 0, at(OPENS_AT_MILLIS - 10_000 + step * 100));
            save(&room);
        }
        done.store(true, Relaxed);
        takers.into_iter().flat_map(|taker| taker.join().unwrap()).collect::<Vec<u64>>()
    });
    numbers.extend(0..100);
    let issued = numbers.len();
    let early = room.draw().count.unwrap();
    let places: BTreeSet<u64> = numbers
        .iter()
        .map(|number| {
            let place = room.standing(*number, &status(1), at(OPENS_AT_MILLIS)).place.unwrap();
            assert_eq!(*number < early, place < early, "number {number} of {early} has place {place}");
            place
        })
        .collect();
    assert_eq!(places.len(), issued, "nobody shares a number or a place");
    assert_eq!(places.last(), Some(&(issued as u64 - 1)), "no place is left empty");
}

#[test]
fn people_hear_of_a_change_and_of_nothing_else() {
    let room = opened_with(10, OPTIONS);
    let mut millis = OPENS_AT_MILLIS;
    let mut changed = |status: &SaleStatus, wait: i64| {
        millis += wait;
        tick(&room, status, 0, millis)
    };
    assert!(changed(&status(2), 100), "the sale has units, two people are admitted");
    assert!(!changed(&status(2), 100));
    assert!(!changed(&status(2), 100));
    assert!(changed(&status(0), 100), "sold out");
    assert!(changed(&status(2), 100), "units have come back");
    assert!(changed(&status(2), i64::from(TURN_SECONDS) * SECOND), "two turns are over");
}
