//! The latch under every interleaving of writers and readers, and under every order in which memory may show
//! them each other's writes. Empty without `--cfg loom`; `make test` runs it with that.

#![cfg(loom)]
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use loom::{sync::Arc, thread};
use penstock_domain::{KeyDigest, SaleId, SaleStatus, SaleTerms, Timestamp};
use penstock_gate::{Latch, QuickRefusal};

const NOW: Timestamp = Timestamp::from_millis(150);
const SOLD_OUT: Option<QuickRefusal> = Some(QuickRefusal::SoldOut);
/// The number of keys in the first layer under loom.
const KEYS_IN_FIRST_LAYER: usize = 32;

type News = Vec<(SaleStatus, Vec<KeyDigest>)>;

fn status(version: u64, available: u32) -> SaleStatus {
    let terms = SaleTerms {
        sale: SaleId::from_random(1),
        units: 10,
        limit_per_buyer: 1,
        opens_at: None,
        closes_at: None,
        hold_seconds: 60,
    };
    let held = 10 - available;
    SaleStatus { terms, total: 10, available, held, paid: 0, paused: false, closed: false, version }
}

fn key(text: &str) -> KeyDigest {
    KeyDigest::of(text.as_bytes()).unwrap()
}

/// A latch with one unit left hears news. Each list comes from a thread of its own, while another thread
/// asks.
fn explore(known: &[KeyDigest], news: &[News], ask: fn(&Latch), afterwards: fn(&Latch)) {
    let mut model = loom::model::Builder::new();
    model.max_branches = 10_000;
    let (known, news) = (known.to_vec(), news.to_vec());
    model.check(move || {
        let latch = Arc::new(Latch::new(status(1, 1), &known));
        let bring = |news: News| {
            let latch = latch.clone();
            thread::spawn(move || news.iter().for_each(|(status, keys)| latch.update(*status, keys)))
        };
        let bringers: Vec<_> = news.iter().cloned().map(bring).collect();
        ask(&latch);
        for bringer in bringers {
            bringer.join().unwrap();
        }
        afterwards(&latch);
    });
}

#[test]
fn a_reader_who_sees_the_latch_set_sees_the_key_accepted_with_the_last_unit() {
    explore(
        &[],
        &[vec![(status(2, 0), vec![key("a")])]],
        |latch| assert_eq!(latch.refuses(key("a"), NOW), None),
        |latch| {
            assert_eq!(latch.refuses(key("a"), NOW), None);
            assert_eq!(latch.refuses(key("foreign"), NOW), SOLD_OUT);
        },
    );
}

#[test]
fn a_reader_who_sees_the_latch_set_sees_every_key_accepted_before() {
    explore(
        &[],
        &[vec![(status(2, 1), vec![key("a")]), (status(3, 0), vec![key("b")])]],
        |latch| {
            assert_eq!(latch.refuses(key("a"), NOW), None);
            assert_eq!(latch.refuses(key("b"), NOW), None);
        },
        |latch| assert_eq!(latch.refuses(key("foreign"), NOW), SOLD_OUT),
    );
}

#[test]
fn a_key_that_needs_a_new_layer_is_seen_like_any_other() {
    let known: Vec<KeyDigest> =
        (0..KEYS_IN_FIRST_LAYER).map(|number| key(&format!("key-{number}"))).collect();
    explore(
        &known,
        &[vec![(status(2, 0), vec![key("a")])]],
        |latch| {
            assert_eq!(latch.refuses(key("a"), NOW), None);
            assert_eq!(latch.refuses(key("key-7"), NOW), None);
        },
        |latch| assert_eq!(latch.refuses(key("foreign"), NOW), SOLD_OUT),
    );
}

#[test]
fn a_reader_who_sees_the_latch_set_sees_a_status_at_least_as_new() {
    explore(
        &[],
        &[vec![(status(2, 0), vec![])]],
        |latch| {
            if latch.refuses(key("foreign"), NOW).is_some() {
                assert_eq!(latch.status().version, 2);
            }
        },
        |latch| assert_eq!(latch.status().version, 2),
    );
}

#[test]
fn old_news_never_lifts_the_latch_and_its_keys_still_count() {
    explore(
        &[],
        &[vec![(status(3, 0), vec![key("b")])], vec![(status(2, 1), vec![key("late")])]],
        |latch| {
            let first = latch.refuses(key("foreign"), NOW);
            let second = latch.refuses(key("foreign"), NOW);
            assert!(first.is_none() || second == SOLD_OUT, "{first:?}, then {second:?}");
        },
        |latch| {
            assert_eq!(latch.status().version, 3);
            assert_eq!(latch.refuses(key("foreign"), NOW), SOLD_OUT);
            assert_eq!(latch.refuses(key("late"), NOW), None);
            assert_eq!(latch.refuses(key("b"), NOW), None);
        },
    );
}

#[test]
fn returned_units_lift_the_latch_for_good_despite_late_news() {
    explore(
        &[],
        &[vec![(status(2, 0), vec![])], vec![(status(3, 1), vec![])]],
        |latch| {
            let looks = [(); 3].map(|()| latch.refuses(key("foreign"), NOW).is_some());
            assert_ne!(looks, [true, false, true], "old news set the latch again");
        },
        |latch| {
            assert_eq!(latch.status().version, 3);
            assert_eq!(latch.refuses(key("foreign"), NOW), None);
        },
    );
}

#[test]
fn after_all_news_has_come_the_newest_counts() {
    explore(
        &[],
        &[
            vec![(status(2, 0), vec![key("a")]), (status(5, 0), vec![])],
            vec![(status(3, 1), vec![]), (status(4, 1), vec![key("b")])],
        ],
        |_| {},
        |latch| {
            assert_eq!(latch.status().version, 5);
            assert_eq!(latch.refuses(key("foreign"), NOW), SOLD_OUT);
            assert_eq!(latch.refuses(key("a"), NOW), None);
            assert_eq!(latch.refuses(key("b"), NOW), None);
        },
    );
}

/// The reader has a thread of its own, and the model's thread brings the news. The other way round, loom does
/// not try a single mixture.
#[test]
fn a_status_is_read_as_it_was_written() {
    let mut model = loom::model::Builder::new();
    model.max_branches = 10_000;
    model.check(|| {
        let latch = Arc::new(Latch::new(status(1, 1), &[]));
        let asker = thread::spawn({
            let latch = latch.clone();
            move || latch.status()
        });
        latch.update(status(2, 4), &[]);
        let read = asker.join().unwrap();
        assert!([status(1, 1), status(2, 4)].contains(&read), "{read:?}");
    });
}
