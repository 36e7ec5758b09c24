//! A million people wait and take no memory. This test is a binary of its own, because it counts every
//! allocation.

#![allow(clippy::unwrap_used, reason = "a test may panic")]
#![allow(unsafe_code, reason = "an allocator that counts has to be an allocator")]

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicIsize, Ordering::Relaxed},
};

use penstock_domain::{BuyerId, SaleId, SaleStatus, SaleTerms, Timestamp};
use penstock_gate::{KeyRing, RoomOptions, RoomState, WaitingRoom, issue_ticket};

const PEOPLE: u64 = 1_000_000;
/// Bits for the people who are there, at most three times 128 KiB, and up to 16 open turns for each of a
/// thousand units.
const MAX_GROWTH_BYTES: isize = 1024 * 1024;

struct Counting;

static ALLOCATED: AtomicIsize = AtomicIsize::new(0);

// SAFETY: every call is passed unchanged to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATED.fetch_add(layout.size() as isize, Relaxed);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        ALLOCATED.fetch_sub(layout.size() as isize, Relaxed);
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_800_000_000_000 + millis)
}

fn status() -> SaleStatus {
    let terms = SaleTerms {
        sale: SaleId::from_random(1),
        units: 1_000,
        limit_per_buyer: 1,
        opens_at: Some(at(0)),
        closes_at: None,
        hold_seconds: 60,
    };
    SaleStatus {
        terms,
        total: 1_000,
        available: 1_000,
        held: 0,
        paid: 0,
        paused: false,
        closed: false,
        version: 1,
    }
}

fn save(room: &WaitingRoom) {
    if let Some(state) = room.unsaved() {
        room.saved(&state);
    }
}

#[test]
fn a_million_people_take_no_memory_and_have_a_million_places() {
    let (sale, status) = (status().terms.sale, status());
    let keys = KeyRing::new(&[1; 32], None);
    let buyer = BuyerId::of_subject("one of a million").unwrap();
    let mut seen = vec![0_u64; (PEOPLE as usize).div_ceil(64)];
    let before = ALLOCATED.load(Relaxed);
    let options =
        RoomOptions { turn_seconds: 120, uptake_seconds: 6, pass_seconds: 300, admissions_per_second: 100 };
    let room = WaitingRoom::new(sale, RoomState::new([7; 32]), options);
    let mut characters = 0;
    for person in 0..PEOPLE {
        if person % 1_000 == 0 {
            room.tick(&status, 0, at(person as i64 / 100 - 20_000));
            save(&room);
        }
        let number = room.take_number().unwrap();
        room.heard(number, room.place(number));
        characters += issue_ticket(&keys, sale, &buyer, number).len();
    }
    for step in 0..1_000 {
        // Now and then somebody asks, another person each time.
        (0..1_000).for_each(|person| {
            let number = step as u64 * 1_000 + person;
            room.heard(number, room.place(number));
        });
        room.tick(&status, 0, at(step * 100));
        save(&room);
    }
    for number in 0..PEOPLE {
        let place = room.standing(number, &status, at(100_000)).place.unwrap();
        let (word, mask) = ((place / 64) as usize, 1 << (place % 64));
        assert_eq!(seen[word] & mask, 0, "place {place} was given twice");
        seen[word] |= mask;
    }
    let growth = ALLOCATED.load(Relaxed) - before;
    assert_eq!(seen.iter().map(|word| u64::from(word.count_ones())).sum::<u64>(), PEOPLE);
    assert!(growth < MAX_GROWTH_BYTES, "{growth} bytes for {PEOPLE} people");
    let let_in = room.figures().let_in;
    assert!((1_000..=16_000).contains(&let_in), "the room was in use: {let_in}");
    assert!(characters > PEOPLE as usize * 40, "the tickets were made");
}
