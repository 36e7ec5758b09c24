//! Learns from earlier turns how many of the people called take up their turn, and how soon. An open turn
//! that others would have taken up by now hardly stands for a buyer. It knows only counts and times.

use penstock_domain::Timestamp;
use serde::{Deserialize, Serialize};

/// What a turn stands for is counted in these parts of a buyer.
pub const BUYER: u64 = 16;
/// The least that a new turn counts for, however few take theirs up. Nobody is called while eight of them are
/// open per unit.
pub const LEAST_FRESH: u64 = 2;
/// What a late turn counts for, if the person is there. Nobody is called while sixteen of them are open per
/// unit.
pub const LATE: u64 = 1;

/// This many of the most recent people carry half of the weight.
const REMEMBERED_PEOPLE: f64 = 64.0;
/// Knowledge older than this is dropped.
const FORGOTTEN_AFTER_MILLIS: i64 = 300_000;
/// At first everybody is expected to come, as if this many people had come after the presumed time.
const PRESUMED_PEOPLE: f64 = 4.0;
/// A turn is late after twice the time in which nine of ten were taken up, but not earlier than this.
const MIN_FRESH_MILLIS: i64 = 3_000;
/// The upper bounds of the groups by time taken, which get wider. Longer times go into one more group.
const DELAYS_MILLIS: [i64; 15] = [
    500, 1_000, 1_500, 2_000, 3_000, 4_000, 6_000, 8_000, 12_000, 16_000, 24_000, 32_000, 48_000, 64_000,
    96_000,
];

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Uptake {
    /// People whose turn was judged, and how many of them had taken it up by then.
    called: f64,
    taken: f64,
    delays: [f64; DELAYS_MILLIS.len() + 1],
    judged_at: Option<Timestamp>,
}

impl Uptake {
    /// A turn was taken up this long after it began.
    pub(crate) fn taken_after(&mut self, millis: i64) {
        let group = DELAYS_MILLIS.partition_point(|most| *most < millis);
        for (place, people) in self.delays.iter_mut().enumerate() {
            *people = *people * kept_after(1.0) + f64::from(u8::from(place == group));
        }
    }

    /// `called` people were called long enough ago, and `taken` of them have taken up their turn.
    pub(crate) fn judge(&mut self, called: u64, taken: u64, now: Timestamp) {
        self.forget_old(now);
        let kept = kept_after(called as f64);
        self.called = self.called * kept + called as f64;
        self.taken = self.taken * kept + taken.min(called) as f64;
        self.judged_at = Some(now);
    }

    /// Somebody took up their turn after being judged to stay away.
    pub(crate) fn came_late(&mut self) {
        self.taken = (self.taken + 1.0).min(self.called);
    }

    pub(crate) fn forget_old(&mut self, now: Timestamp) {
        if self.judged_at.is_some_and(|judged_at| now.millis_since(judged_at) > FORGOTTEN_AFTER_MILLIS) {
            *self = Self::default();
        }
    }

    /// What a new turn counts for, in parts of `BUYER`.
    pub(crate) fn fresh(&self) -> u64 {
        let share = (self.taken + PRESUMED_PEOPLE) / (self.called + PRESUMED_PEOPLE);
        ((share * BUYER as f64).ceil() as u64).clamp(LEAST_FRESH, BUYER)
    }

    /// How long a turn counts as new. Until anybody has taken one up, that is presumed to take
    /// `presumed_millis`.
    pub(crate) fn fresh_millis(&self, presumed_millis: i64) -> i64 {
        let presumed = DELAYS_MILLIS.partition_point(|most| *most < presumed_millis);
        let people = |(group, people): (usize, &f64)| {
            if group == presumed { people + PRESUMED_PEOPLE } else { *people }
        };
        let enough = 0.9 * (self.delays.iter().sum::<f64>() + PRESUMED_PEOPLE);
        let mut so_far = 0.0;
        let nine_of_ten = self.delays.iter().enumerate().map(people).position(|people| {
            so_far += people;
            so_far >= enough
        });
        let most = nine_of_ten.and_then(|group| DELAYS_MILLIS.get(group));
        most.map_or(i64::MAX, |millis| (2 * millis).max(MIN_FRESH_MILLIS))
    }
}

fn kept_after(people: f64) -> f64 {
    0.5_f64.powf(people / REMEMBERED_PEOPLE)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRESUMED_MILLIS: i64 = 6_000;
    const NOW: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    #[test]
    fn at_first_everybody_is_expected_to_come() {
        let uptake = Uptake::default();
        assert_eq!((uptake.fresh(), uptake.fresh_millis(PRESUMED_MILLIS)), (BUYER, 2 * PRESUMED_MILLIS));
    }

    #[test]
    fn people_who_come_count_in_full_and_others_for_less_and_less() {
        let mut uptake = Uptake::default();
        uptake.judge(100, 99, NOW);
        assert_eq!(uptake.fresh(), BUYER);
        uptake.judge(100, 50, NOW);
        assert!((8..13).contains(&uptake.fresh()), "{}", uptake.fresh());
        uptake.judge(48, 0, NOW);
        uptake.judge(300, 0, NOW);
        assert_eq!(uptake.fresh(), LEAST_FRESH, "never less, however many stay away");
        uptake.judge(300, 300, NOW);
        assert_eq!(uptake.fresh(), BUYER, "they are back");
    }

    #[test]
    fn people_who_come_late_count_as_having_come() {
        let mut uptake = Uptake::default();
        uptake.judge(100, 0, NOW);
        assert_eq!(uptake.fresh(), LEAST_FRESH);
        (0..300).for_each(|_| uptake.came_late());
        assert_eq!(uptake.fresh(), BUYER);
        uptake.judge(100, 100, NOW);
        assert_eq!(uptake.fresh(), BUYER, "never more have come than were called");
    }

    #[test]
    fn old_knowledge_is_dropped() {
        let mut uptake = Uptake::default();
        uptake.judge(300, 0, NOW);
        uptake.forget_old(NOW.plus_millis(FORGOTTEN_AFTER_MILLIS));
        assert_eq!(uptake.fresh(), LEAST_FRESH);
        uptake.forget_old(NOW.plus_millis(FORGOTTEN_AFTER_MILLIS + 1));
        assert_eq!(uptake, Uptake::default());
    }

    #[test]
    fn a_turn_is_late_when_nearly_all_others_were_taken_up_by_then() {
        let mut uptake = Uptake::default();
        (0..60).for_each(|_| uptake.taken_after(300));
        assert_eq!(uptake.fresh_millis(PRESUMED_MILLIS), MIN_FRESH_MILLIS);
        (0..60).for_each(|_| uptake.taken_after(20_000));
        assert_eq!(uptake.fresh_millis(PRESUMED_MILLIS), 48_000);
        (0..300).for_each(|_| uptake.taken_after(500_000));
        assert_eq!(uptake.fresh_millis(PRESUMED_MILLIS), i64::MAX);
    }
}
