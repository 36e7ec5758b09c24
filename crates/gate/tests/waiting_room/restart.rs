//! A crash and an orderly stop: no number twice, the same draw, and nobody is kept out by people who don't
//! exist.

use std::collections::HashSet;

use penstock_gate::late_after_millis;

use super::*;

const OPEN: i64 = OPENS_AT_MILLIS;

/// A pass lasts much longer than a turn.
const LONG_PASSES: RoomOptions = RoomOptions { pass_seconds: 10 * TURN_SECONDS, ..OPTIONS };
const TURN_MILLIS: i64 = TURN_SECONDS as i64 * SECOND;

fn restored(state: RoomState) -> WaitingRoom {
    restored_with(state, OPTIONS)
}

fn restored_with(state: RoomState, options: RoomOptions) -> WaitingRoom {
    let room = WaitingRoom::new(sale(), state, options);
    save(&room);
    room
}

/// The state that is durable now. The room is then abandoned, as in a crash.
fn durable(room: &WaitingRoom, millis: i64, status: &SaleStatus) -> RoomState {
    all_are_there(room);
    room.tick(status, 0, at(millis));
    save(room);
    DISK.take().unwrap()
}

#[test]
fn a_number_is_given_out_only_once_it_is_durably_reserved() {
    let room = new_room(OPTIONS);
    assert_eq!(room.take_number(), None);
    let state = room.unsaved().unwrap();
    assert!(state.reserved >= 1_024);
    assert_eq!(room.take_number(), None, "a requested reservation is not durable");
    assert!(!room.has_numbers());
    room.saved(&state);
    assert!(room.has_numbers());
    let given_out = (0..).map_while(|_: u64| room.take_number()).count() as u64;
    assert_eq!(given_out, state.reserved);
    assert!(!room.has_numbers());
    assert!(room.unsaved().unwrap().reserved >= state.reserved + 1_024);
}

#[test]
fn nothing_is_saved_if_nothing_has_changed_and_a_few_tickets_once_a_second() {
    let room = opened_with(10, OPTIONS);
    assert_eq!(room.unsaved(), None);
    let mut saves = 0;
    for step in 1..=100 {
        take(&room, 1);
        all_are_there(&room);
        room.tick(&status(1_000_000), 0, at(OPEN + step * 100));
        saves += u32::from(save(&room).is_some());
    }
    assert!((9..=11).contains(&saves), "{saves} saves in ten seconds");
    for step in 120..=130 {
        room.tick(&status(1_000_000), 0, at(OPEN + step * 100));
        save(&room);
    }
    assert_eq!(room.unsaved(), None);
}

#[test]
fn a_crash_gives_no_number_twice() {
    let mut seen = HashSet::new();
    let mut disk = RoomState::new([7; 32]);
    for life in 0..20_u64 {
        let room = WaitingRoom::new(sale(), disk.clone(), OPTIONS);
        for step in 0..life * 200 {
            if let Some(number) = room.take_number() {
                assert!(seen.insert(number), "{number} was given out twice");
            } else if let Some(state) = room.unsaved() {
                disk = state;
                // In some runs the crash comes after the disk has saved and before the room hears of it.
                if step % 7 != 3 {
                    room.saved(&disk);
                }
            }
        }
    }
    assert!(seen.len() > 20_000, "only {} numbers were given out", seen.len());
}

#[test]
fn a_crash_keeps_the_draw_and_who_was_admitted() {
    let room = opened_with(500, OPTIONS);
    let state = durable(&room, OPEN + 2 * SECOND, &status(100));
    let places = |room: &WaitingRoom| -> Vec<Option<u64>> {
        (0..600).map(|number| room.standing(number, &status(100), at(OPEN)).place).collect()
    };
    let draw = room.draw();
    let again = restored(state);
    assert_eq!(again.draw(), draw);
    assert_eq!(places(&again), places(&room));
    assert_eq!(again.figures().admitted, 100);
    let first = in_order(&again, 500)[0];
    let later = OPEN + 1_000 * SECOND;
    assert!(is_admitted(again.standing(first, &status(100), at(later))), "a full new turn");
    tick(&again, &status(100), 0, later);
    let until = at(later).plus_seconds(TURN_SECONDS);
    assert_eq!(again.standing(first, &status(100), at(later)).state, TicketState::Admitted { until });
    assert_eq!(again.standing(first, &status(100), until).state, TURN_OVER);
}

#[test]
fn people_who_could_still_buy_before_a_crash_count_for_one_more_turn() {
    let room = opened_with(500, OPTIONS);
    let again = restored(durable(&room, OPEN + 2 * SECOND, &status(100)));
    let now = OPEN + 3 * SECOND;
    tick(&again, &status(100), 0, now);
    assert_eq!((again.figures().admitted, again.figures().pending), (100, 100), "not more than could buy");
    let order = in_order(&again, 500);
    again.pass_taken(order[0]);
    assert_eq!(again.figures().pending, 99);
    tick(&again, &status(100), 1, now + (i64::from(TURN_SECONDS) + 1) * SECOND);
    tick(&again, &status(100), 1, now + (i64::from(TURN_SECONDS) + 2) * SECOND);
    assert_eq!((again.figures().admitted, again.figures().pending), (199, 99), "their turn is over");
}

#[test]
fn people_who_bought_before_a_crash_do_not_block_the_others() {
    let room = opened_with(500, OPTIONS);
    tick(&room, &status(100), 0, OPEN + SECOND);
    for number in in_order(&room, 500).into_iter().take(100) {
        room.pass_taken(number);
    }
    // All hundred people have ordered, and a hundred units were added.
    let again = restored(durable(&room, OPEN + 3 * SECOND, &status(0)));
    tick(&again, &status(100), 0, OPEN + 4 * SECOND);
    tick(&again, &status(100), 0, OPEN + 11 * SECOND);
    assert_eq!((again.figures().admitted, again.figures().pending), (200, 100));
}

#[test]
fn a_turn_that_was_over_before_a_restart_is_not_renewed() {
    let room = opened_with(500, OPTIONS);
    let order = in_order(&room, 500);
    let state_of = |room: &WaitingRoom, place: usize, millis: i64| {
        room.standing(order[place], &status(100), at(millis)).state
    };
    tick(&room, &status(100), 0, OPEN + SECOND);
    order[..100].iter().for_each(|number| room.pass_taken(*number));
    room.tick(&status(0), 0, at(OPEN + 2 * SECOND));
    let mut now = OPEN + TURN_MILLIS + 2 * SECOND;
    tick(&room, &status(100), 0, now);
    let state = durable(&room, now + SECOND, &status(100));
    assert_eq!((state.admitted, state.open_from), (200, 100));
    // Restarts twice, the second time before the first tick.
    let again = restored(restored(state).closing_state());
    now += 1_000 * SECOND;
    for tick_first in [false, true] {
        if tick_first {
            tick(&again, &status(100), 0, now);
        }
        for place in [0, 99] {
            assert_eq!(state_of(&again, place, now), TURN_OVER, "place {place}");
        }
        let until = at(now + TURN_MILLIS);
        for place in [100, 199] {
            assert_eq!(state_of(&again, place, now), TicketState::Admitted { until }, "place {place}");
        }
    }
    // The new turns end. After that, nobody admitted so far has one.
    tick(&again, &status(100), 100, now + TURN_MILLIS + SECOND);
    let last = again.closing_state();
    assert_eq!((last.admitted, last.open_from), (200, 200));
    let last = restored(last);
    tick(&last, &status(100), 100, now + 1_000 * SECOND);
    assert_eq!(state_of(&last, 199, now + 1_000 * SECOND), TURN_OVER);
}

#[test]
fn a_pass_from_before_a_restart_counts_in_full_until_it_must_be_late_and_a_little_until_it_ends() {
    let room = opened_with(500, LONG_PASSES);
    tick(&room, &status(100), 0, OPEN + SECOND);
    let order = in_order(&room, 500);
    order[..100].iter().for_each(|number| room.pass_taken(*number));
    room.tick(&status(100), 100, at(OPEN + 2 * SECOND));
    let again = restored_with(room.closing_state(), LONG_PASSES);
    let now = OPEN + 3 * SECOND;
    let late_at = now + late_after_millis(LONG_PASSES.pass_seconds);
    for millis in [now, now + 6 * SECOND, now + TURN_MILLIS, late_at - 1] {
        tick(&again, &status(100), 0, millis);
        assert_eq!((again.figures().admitted, again.figures().pending), (100, 0), "not more than could buy");
    }
    let state = again.standing(order[0], &status(100), at(now + TURN_MILLIS)).state;
    assert_eq!(state, TURN_OVER, "the turn itself lasts no longer than any other");
    tick(&again, &status(100), 0, late_at);
    // A sixteenth of a hundred units is reserved for the people who have had a pass all along.
    assert_eq!((again.figures().admitted, again.figures().pending), (194, 94));
    order[100..194].iter().for_each(|number| again.pass_taken(*number));
    // These people have bought.
    let passes_end = now + 10 * TURN_MILLIS;
    tick(&again, &status(6), 0, passes_end - 1);
    assert_eq!(again.figures().admitted, 194, "6 units");
    tick(&again, &status(6), 0, passes_end);
    assert_eq!((again.figures().admitted, again.figures().pending), (200, 6));
}

/// A hundred units and fifty live passes at the restart. Then all fifty order.
#[test]
fn a_used_pass_from_before_a_restart_no_longer_counts() {
    let room = opened_with(500, LONG_PASSES);
    tick(&room, &status(50), 0, OPEN + SECOND);
    in_order(&room, 500)[..50].iter().for_each(|number| room.pass_taken(*number));
    room.tick(&status(50), 50, at(OPEN + 2 * SECOND));
    let again = restored_with(room.closing_state(), LONG_PASSES);
    let now = OPEN + 3 * SECOND;
    tick(&again, &status(100), 0, now);
    let good_until = at(OPEN + 2 * SECOND).plus_seconds(LONG_PASSES.pass_seconds);
    (0..50).for_each(|_| again.old_pass_used(good_until));
    again.old_pass_used(at(now + 1).plus_seconds(LONG_PASSES.pass_seconds));
    for second in 1..=10 {
        tick(&again, &status(50), 0, now + second * SECOND);
    }
    assert_eq!((again.figures().admitted, again.figures().pending), (100, 50), "one for each unit");
}

#[test]
fn a_second_restart_does_not_extend_how_long_a_pass_counts() {
    let room = opened_with(500, LONG_PASSES);
    tick(&room, &status(100), 0, OPEN + SECOND);
    in_order(&room, 500)[..100].iter().for_each(|number| room.pass_taken(*number));
    room.tick(&status(100), 100, at(OPEN + 2 * SECOND));
    let mut now = OPEN + 3 * SECOND;
    let late_at = now + late_after_millis(LONG_PASSES.pass_seconds);
    let mut again = restored_with(room.closing_state(), LONG_PASSES);
    for _ in 0..4 {
        tick(&again, &status(100), 0, now);
        now += TURN_MILLIS / 4;
        again = restored_with(again.closing_state(), LONG_PASSES);
    }
    for millis in [now, now + 6 * SECOND, late_at - 1] {
        tick(&again, &status(100), 0, millis);
        assert_eq!(again.figures().admitted, 100);
    }
    tick(&again, &status(100), 0, late_at);
    assert_eq!(again.figures().admitted, 194);
}

#[test]
fn passes_from_before_many_restarts_all_count() {
    // No pass is late before the test is over.
    let long_passes = RoomOptions { pass_seconds: 80 * TURN_SECONDS, ..OPTIONS };
    let mut room = opened_with(500, long_passes);
    let mut now = OPEN + SECOND;
    for restart in 1..=20 {
        tick(&room, &status(5 * restart), 0, now);
        let called: Vec<u64> = in_order(&room, 500)[..5 * restart as usize].to_vec();
        called.iter().for_each(|number| room.pass_taken(*number));
        now += SECOND;
        room.tick(&status(5 * restart), 5, at(now));
        now += SECOND;
        room = restored_with(room.closing_state(), long_passes);
        for _ in 0..8 {
            now += SECOND;
            tick(&room, &status(5 * restart), 0, now);
        }
        assert_eq!(room.figures().let_in, 5 * u64::from(restart));
    }
}

#[test]
fn a_pass_outlives_a_restart_even_if_no_turn_does() {
    let room = opened_with(500, LONG_PASSES);
    tick(&room, &status(100), 0, OPEN + SECOND);
    in_order(&room, 500)[..100].iter().for_each(|number| room.pass_taken(*number));
    room.tick(&status(100), 100, at(OPEN + TURN_MILLIS + 2 * SECOND));
    let state = room.closing_state();
    assert_eq!((state.admitted, state.open, state.live_passes, state.open_from), (100, 0, 100, 100));
    let again = restored_with(state, LONG_PASSES);
    let now = OPEN + TURN_MILLIS + 3 * SECOND;
    for second in 0..8 {
        tick(&again, &status(100), 0, now + second * SECOND);
        assert_eq!(again.figures().admitted, 100);
    }
    tick(&again, &status(130), 0, now + 8 * SECOND);
    assert_eq!(again.figures().admitted, 130, "added units are for the next people");
}

#[test]
fn an_opening_that_was_not_durable_is_repeated() {
    let room = new_room(OPTIONS);
    take(&room, 10);
    let state = durable(&room, OPEN - SECOND, &status(5));
    room.tick(&status(5), 0, at(OPEN));
    assert_eq!(room.unsaved().unwrap().early, Some(10));
    let again = restored(state.clone());
    assert_eq!(again.draw().seed, None);
    tick(&again, &status(5), 0, OPEN + SECOND);
    assert_eq!(again.draw().count, Some(state.reserved), "everybody who may have a ticket takes part");
}

/// A number given out just before the crash, when it was no longer sure to survive.
#[test]
fn a_person_with_an_uncertain_number_can_take_one_pass() {
    let room = new_room(OPTIONS);
    let state = durable(&room, OPEN - SECOND, &status(10));
    let last = take(&room, 100)[99];
    let again = restored(state);
    for step in 0..=90 {
        again.heard(last, again.place(last));
        again.tick(&status(10), 0, at(OPEN + step * 100));
        save(&again);
    }
    assert!(is_admitted(again.standing(last, &status(10), at(OPEN + 9 * SECOND))));
    assert!(!again.has_taken(last));
    again.pass_taken(last);
    assert!(again.has_taken(last));
}

/// Ten units at a time, a hundred people, and a crash that skips a thousand numbers.
#[test]
fn numbers_that_a_crash_skipped_keep_nobody_waiting() {
    let room = new_room(OPTIONS);
    let people = take(&room, 100);
    let state = durable(&room, OPEN - SECOND, &status(10));
    assert!(state.reserved > 1_000);
    let again = restored(state);
    let mut millis = OPEN;
    let mut pass = |ticks: i64| {
        for _ in 0..ticks {
            millis += 100;
            people.iter().for_each(|number| again.heard(*number, again.place(*number)));
            again.tick(&status(10), 0, at(millis));
            save(&again);
        }
        millis
    };
    pass(70);
    for wave in 1..=10 {
        let now = pass(1);
        let called: Vec<u64> = people
            .iter()
            .copied()
            .filter(|number| again.standing(*number, &status(10), at(now)).position.is_none())
            .collect();
        assert_eq!((called.len(), again.figures().pending), (wave * 10, 10), "ten real people each time");
        called.iter().for_each(|number| again.pass_taken(*number));
        pass(1);
    }
}

#[test]
fn an_orderly_stop_skips_nothing_and_gives_out_nothing_more() {
    let room = opened_with(500, OPTIONS);
    tick(&room, &status(100), 0, OPEN + SECOND);
    let late = take(&room, 7);
    let state = room.closing_state();
    assert_eq!((state.reserved, state.early, state.admitted), (507, Some(500), 100));
    assert_eq!(room.take_number(), None);
    assert_eq!(room.unsaved(), None, "an older request must not follow the exact state");
    let again = restored(state);
    assert_eq!(take(&again, 1), [late.last().unwrap() + 1]);
}

#[test]
fn a_room_says_nothing_of_its_seed_in_the_log() {
    let state = RoomState::new([171; 32]);
    let text = format!("{:?} {state:?}", WaitingRoom::new(sale(), state.clone(), OPTIONS));
    assert!(!text.contains("171") && !text.contains("ab, ab") && text.contains("reserved"), "{text}");
}
