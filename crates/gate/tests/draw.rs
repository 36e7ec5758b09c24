//! The draw is a permutation, repeats from its seed, and prefers nobody.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use penstock_domain::SaleId;
use penstock_gate::{Draw, commitment};

/// Any seeds will do: the draw has to be uniform for all of them.
fn seed(number: u64) -> [u8; 32] {
    let mut seed = [0; 32];
    seed[..8].copy_from_slice(&number.to_be_bytes());
    seed
}

fn sale() -> SaleId {
    "0123456789abc".parse().unwrap()
}

fn places(draw: &Draw) -> Vec<u64> {
    (0..draw.count()).map(|number| draw.place(number)).collect()
}

fn is_permutation(places: &[u64]) -> bool {
    let mut seen = vec![false; places.len()];
    places.iter().all(|place| {
        let slot = usize::try_from(*place).ok().and_then(|place| seen.get_mut(place));
        slot.is_some_and(|seen| !std::mem::replace(seen, true))
    })
}

#[test]
fn everybody_has_a_place_of_their_own() {
    for count in (0..=300).chain([511, 512, 513, 1_000, 4_095, 4_097, 20_000]) {
        let draw = Draw::new(&seed(count), sale(), count);
        assert!(is_permutation(&places(&draw)), "{count} tickets");
    }
}

#[test]
fn a_place_leads_back_to_its_number() {
    for count in (1..=40).chain([255, 256, 257, 5_000, 1 << 32, (1 << 40) + 1, u64::MAX]) {
        let draw = Draw::new(&seed(1), sale(), count);
        for number in (0..count.min(40)).chain(count.saturating_sub(20)..count) {
            let place = draw.place(number);
            assert!(place < count, "{number} of {count} got place {place}");
            assert_eq!(draw.number_at(place), number, "{number} of {count}");
        }
    }
}

#[test]
fn numbers_from_after_the_opening_keep_their_place() {
    let draw = Draw::new(&seed(1), sale(), 100);
    for number in [100, 101, 5_000, u64::MAX] {
        assert_eq!(draw.place(number), number);
        assert_eq!(draw.number_at(number), number);
    }
}

#[test]
fn the_same_seed_gives_the_same_order_and_nothing_else_does() {
    let order = |seed: &[u8; 32], sale, count| -> Vec<u64> {
        let draw = Draw::new(seed, sale, count);
        (0..500).map(|number| draw.place(number)).collect()
    };
    let first = order(&seed(1), sale(), 1_000);
    assert_eq!(first, order(&seed(1), sale(), 1_000));
    assert_ne!(first, order(&seed(2), sale(), 1_000));
    assert_ne!(first, order(&seed(1), SaleId::from_random(2), 1_000));
    let other_count = order(&seed(1), sale(), 1_001);
    let same = first.iter().zip(&other_count).filter(|(one, other)| one == other).count();
    assert!(same < 10, "{same} of 500 have the same place with one ticket more");
}

/// The limit of the draw that `docs/draw.md` admits: extra tickets choose the count, and the count decides
/// every place.
#[test]
fn somebody_who_knows_the_seed_can_place_a_friend_near_the_front_with_extra_tickets() {
    let (count, friend) = (50_000, 7);
    for seed in (1..=10).map(seed) {
        let place = |extra| Draw::new(&seed, sale(), count + extra).place(friend);
        let best = (0..=600).map(place).min().unwrap();
        assert!(best < count / 100, "{best} is the best of 601 counts");
    }
}

/// `docs/draw.md` shows these values. Changing them breaks every other implementation.
#[test]
fn the_draw_is_the_one_that_is_documented() {
    let seed: [u8; 32] = std::array::from_fn(|index| index as u8);
    let hex: String = commitment(&seed).iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(hex, "630dcd2966c4336691125448bbb25b4ff412a49c732db2c8abc1b8581bd710dd");
    let draw = Draw::new(&seed, sale(), 10);
    assert_eq!(places(&draw), [5, 2, 8, 3, 1, 9, 6, 7, 0, 4]);
    let draw = Draw::new(&seed, sale(), 50_000);
    assert_eq!([0, 1, 1_234, 49_999].map(|number| draw.place(number)), [29171, 22571, 43982, 34051]);
}

/// The value that chi-square exceeds once in a million trials (approximation of Wilson and Hilferty).
fn one_in_a_million(degrees: usize) -> f64 {
    let degrees = degrees as f64;
    let normal = 4.753_424;
    degrees * (1.0 - 2.0 / (9.0 * degrees) + normal * (2.0 / (9.0 * degrees)).sqrt()).powi(3)
}

fn chi_square(observed: &[u64]) -> f64 {
    let expected = observed.iter().sum::<u64>() as f64 / observed.len() as f64;
    observed.iter().map(|count| (*count as f64 - expected).powi(2) / expected).sum()
}

fn assert_uniform(observed: &[u64], what: &str) {
    let (value, limit) = (chi_square(observed), one_in_a_million(observed.len() - 1));
    assert!(value < limit, "{what}: chi-square {value:.1}, at most {limit:.1}");
}

#[test]
fn a_biased_draw_would_be_noticed() {
    // The exact values are 44.81 and 180.79; the approximation is slightly above.
    assert!((44.8..46.0).contains(&one_in_a_million(9)), "{}", one_in_a_million(9));
    assert!((180.7..181.2).contains(&one_in_a_million(99)), "{}", one_in_a_million(99));
    let slightly: Vec<u64> = (0..20).map(|place| 1_000 + if place == 0 { 300 } else { 0 }).collect();
    assert!(chi_square(&slightly) > one_in_a_million(19));
}

#[test]
fn over_many_seeds_every_place_is_as_likely_for_every_number() {
    for count in [2, 3, 5, 7, 10, 16, 20, 33, 64, 100] {
        let mut numbers = vec![0, 1, count / 2, count - 1];
        numbers.dedup();
        let mut observed = vec![vec![0_u64; count as usize]; numbers.len()];
        for trial in 0..count * 100 {
            let draw = Draw::new(&seed(trial), sale(), count);
            for (number, observed) in numbers.iter().zip(&mut observed) {
                observed[draw.place(*number) as usize] += 1;
            }
        }
        for (number, observed) in numbers.iter().zip(&observed) {
            assert_uniform(observed, &format!("number {number} of {count}"));
        }
    }
}

/// Each order is as likely, not only each place: friends who come together are not drawn together.
#[test]
fn over_many_seeds_every_order_of_a_few_is_as_likely() {
    for count in [3, 4, 5] {
        let orders: u64 = (1..=count).product();
        let mut observed = std::collections::BTreeMap::new();
        for trial in 0..orders * 60 {
            *observed.entry(places(&Draw::new(&seed(trial), sale(), count))).or_insert(0) += 1;
        }
        let observed: Vec<u64> = observed.into_values().collect();
        assert_eq!(observed.len() as u64, orders, "some order of {count} never came");
        assert_uniform(&observed, &format!("orders of {count}"));
    }
}

#[test]
fn coming_first_is_neither_an_advantage_nor_a_disadvantage() {
    let count = 120_000;
    let draw = Draw::new(&seed(7), sale(), count);
    // The earliest, the latest, and every hundredth person.
    let groups: [(&str, Vec<u64>); 3] = [
        ("the earliest 1 %", (0..count / 100).collect()),
        ("the latest 1 %", (count - count / 100..count).collect()),
        ("every hundredth", (0..count).step_by(100).collect()),
    ];
    for (name, numbers) in groups {
        let mut observed = [0_u64; 50];
        for number in numbers {
            observed[(draw.place(number) * 50 / count) as usize] += 1;
        }
        assert_uniform(&observed, name);
    }
}
