//! What people are told about their waiting time.

use super::*;

const OPEN: i64 = OPENS_AT_MILLIS;

/// The estimate for the last person in line.
fn estimate(room: &WaitingRoom, last: u64, millis: i64) -> Option<u64> {
    room.standing(last, &status(1_000_000), at(millis)).estimated_wait_seconds
}

#[test]
fn an_estimate_is_given_only_if_the_pace_is_known() {
    let options = RoomOptions { admissions_per_second: 20, ..OPTIONS };
    let room = opened_with(0, options);
    let last = *take(&room, 5_000).last().unwrap();
    assert_eq!(estimate(&room, last, OPEN), None);
    for step in 1..10 {
        tick(&room, &status(1_000_000), 0, OPEN + step * 100);
        assert_eq!(estimate(&room, last, OPEN + step * 100), None, "less than a second was seen");
    }
    for step in 10..30 {
        tick(&room, &status(1_000_000), 0, OPEN + step * 100);
    }
    assert!(estimate(&room, last, OPEN + 3_000).is_some());
    assert!(room.figures().admissions_per_second.is_some());
    let mut paused = status(1_000_000);
    paused.paused = true;
    for step in 30..150 {
        tick(&room, &paused, 0, OPEN + step * 100);
    }
    assert_eq!(estimate(&room, last, OPEN + 15_000), None, "nobody was admitted lately");
    assert_eq!(room.figures().admissions_per_second, None);
}

#[test]
fn in_a_steady_flow_the_estimate_is_right_within_a_fifth() {
    for admissions_per_second in [2, 15, 300] {
        let room = opened_with(0, RoomOptions { admissions_per_second, ..OPTIONS });
        let people = u64::from(admissions_per_second) * 60;
        let last = *take(&room, people).last().unwrap();
        let mut estimates = Vec::new();
        let mut step = 0;
        while !is_admitted(room.standing(last, &status(1_000_000), at(OPEN + step * 100))) {
            step += 1;
            tick(&room, &status(1_000_000), 0, OPEN + step * 100);
            estimates.push((step, estimate(&room, last, OPEN + step * 100)));
            assert!(step < 10_000, "their turn never comes");
        }
        // In the first seconds the flow is not steady yet, and the last are too short to judge in whole
        // seconds.
        let judged = estimates.iter().filter(|(at_step, _)| *at_step > 30 && step - at_step > 50);
        assert!(judged.clone().count() > 400);
        for (at_step, estimate) in judged {
            let (real, estimate) = ((step - at_step) as f64 / 10.0, estimate.unwrap() as f64);
            assert!(
                (estimate - real).abs() <= real * 0.2 + 1.0,
                "estimated {estimate} seconds and took {real} at {admissions_per_second} a second"
            );
        }
    }
}

#[test]
fn an_hour_without_anybody_does_not_spoil_the_estimate() {
    let room = opened_with(0, RoomOptions { admissions_per_second: 100, ..OPTIONS });
    for second in 0..600 {
        tick(&room, &status(1_000_000), 0, OPEN + second * SECOND);
    }
    let last = *take(&room, 10_000).last().unwrap();
    for step in 0..20 {
        tick(&room, &status(1_000_000), 0, OPEN + 600 * SECOND + step * 100);
    }
    let estimate = estimate(&room, last, OPEN + 602 * SECOND).unwrap();
    assert!((80..=120).contains(&estimate), "{estimate} seconds for 9,800 people at 100 a second");
}
