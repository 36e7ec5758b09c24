//! The waiting room as people and the shop see it: fair, never too full, and the same after a restart.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod nodes;
mod opening;
mod passes;
mod presence;
mod restart;
mod simulation;
mod turns;
mod wait;

use std::cell::RefCell;

use penstock_domain::{SaleId, SaleStatus, SaleTerms, Timestamp};
use penstock_gate::{GoneReason, RoomOptions, RoomState, Standing, TicketState, WaitingRoom};

const OPENS_AT_MILLIS: i64 = 60_000;
const TURN_SECONDS: u32 = 30;
const PASS_SECONDS: u32 = 20;
const OPTIONS: RoomOptions = RoomOptions {
    turn_seconds: TURN_SECONDS,
    uptake_seconds: 6,
    pass_seconds: PASS_SECONDS,
    admissions_per_second: 1_000,
};
/// Far more than one tick needs at the pace above.
const SECOND: i64 = 1_000;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn sale() -> SaleId {
    SaleId::from_random(42)
}

/// A sale that opens a minute after the beginning.
fn status(available: u32) -> SaleStatus {
    let terms = SaleTerms {
        sale: sale(),
        units: 1_000_000,
        limit_per_buyer: 1,
        opens_at: Some(at(OPENS_AT_MILLIS)),
        closes_at: None,
        hold_seconds: 60,
    };
    let held = 1_000_000 - available;
    SaleStatus { terms, total: 1_000_000, available, held, paid: 0, paused: false, closed: false, version: 1 }
}

fn always_open(available: u32) -> SaleStatus {
    let mut status = status(available);
    status.terms.opens_at = None;
    status
}

fn new_room(options: RoomOptions) -> WaitingRoom {
    WaitingRoom::new(sale(), RoomState::new([7; 32]), options)
}

thread_local! {
    static DISK: RefCell<Option<RoomState>> = const { RefCell::new(None) };
}

/// Saves like a disk that never fails.
fn save(room: &WaitingRoom) -> Option<RoomState> {
    let state = room.unsaved()?;
    room.saved(&state);
    DISK.set(Some(state.clone()));
    Some(state)
}

/// Everybody who has a ticket is there.
fn all_are_there(room: &WaitingRoom) {
    (0..room.figures().tickets).for_each(|number| room.heard(number, room.place(number)));
}

fn tick(room: &WaitingRoom, status: &SaleStatus, live_passes: u64, millis: i64) -> bool {
    all_are_there(room);
    let changed = room.tick(status, live_passes, at(millis));
    save(room);
    changed
}

fn take(room: &WaitingRoom, people: u64) -> Vec<u64> {
    let take_one = || {
        save(room);
        room.take_number().unwrap()
    };
    (0..people).map(|_| take_one()).collect()
}

/// A room in which `people` waited for the opening, which is now and durable. Nobody is admitted yet.
fn opened_with(people: u64, options: RoomOptions) -> WaitingRoom {
    let room = new_room(options);
    take(&room, people);
    tick(&room, &status(0), 0, OPENS_AT_MILLIS);
    assert_eq!(room.draw().count, Some(people));
    room
}

/// The early numbers in the order of the draw.
fn in_order(room: &WaitingRoom, people: u64) -> Vec<u64> {
    let status = status(1);
    let mut numbers: Vec<u64> = (0..people).collect();
    numbers.sort_by_key(|number| room.standing(*number, &status, at(OPENS_AT_MILLIS)).place);
    numbers
}

fn is_admitted(standing: Standing) -> bool {
    matches!(standing.state, TicketState::Admitted { .. })
}

const TURN_OVER: TicketState = TicketState::Gone(GoneReason::TurnOver);
