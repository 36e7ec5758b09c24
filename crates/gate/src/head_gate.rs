//! The head gate of one sale. It limits live passes to a multiple of the units left, so that everybody with a
//! pass has a fair chance. A pass that is unused after an eighth of its time is late: it is still good, but
//! no longer counts against the limit. The gate counts; it does not know what a pass looks like, or whose
//! turn it is.

use std::{
    collections::{BTreeSet, HashMap},
    hash::{BuildHasher as _, RandomState},
};

use parking_lot::{Mutex, MutexGuard};
use penstock_domain::{BuyerId, Timestamp};

use crate::pass_share::{LivePasses, late_pass_millis};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeadGateOptions {
    /// The most live passes per available unit. Late ones don't count.
    pub factor: u32,
    /// How long a pass is good.
    pub pass_seconds: u32,
    /// The most live passes kept in memory.
    pub max_live: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeadGateRefusal {
    #[error("there are enough live passes for the units that are left")]
    Exhausted,
    #[error("no more live passes can be remembered")]
    Full,
}

#[derive(Debug)]
pub struct HeadGate {
    options: HeadGateOptions,
    /// Stores 64 bits per buyer, hashed with a secret key, instead of their name.
    hasher: RandomState,
    passes: Mutex<Passes>,
}

#[derive(Debug, Default)]
struct Passes {
    /// The deadline of each live pass by buyer. A used or expired pass is removed.
    live: HashMap<u64, Timestamp>,
    /// The same passes, next deadline first. They may have been added in any order, because a clock may step
    /// back.
    fresh: BTreeSet<(Timestamp, u64)>,
    late: BTreeSet<(Timestamp, u64)>,
    issued: u64,
}

impl HeadGate {
    pub fn new(options: HeadGateOptions) -> Self {
        Self { options, hasher: RandomState::new(), passes: Mutex::default() }
    }

    /// Whether `take` would give this buyer a pass now. A cheap look before the costly checks.
    pub fn has_room_for(&self, buyer: &BuyerId, available: u32, now: Timestamp) -> bool {
        let passes = self.passes_at(now);
        passes.live.contains_key(&self.hasher.hash_one(buyer)) || self.room(&passes, available).is_ok()
    }

    /// Whether this buyer has a pass that is neither used nor expired.
    pub fn has_live(&self, buyer: &BuyerId, now: Timestamp) -> bool {
        self.passes_at(now).live.contains_key(&self.hasher.hash_one(buyer))
    }

    /// The deadline of this buyer's pass: the one they have, or a new one if there is room for it.
    pub fn take(
        &self,
        buyer: &BuyerId,
        available: u32,
        now: Timestamp,
    ) -> Result<Timestamp, HeadGateRefusal> {
        let mut passes = self.passes_at(now);
        let buyer = self.hasher.hash_one(buyer);
        if let Some(deadline) = passes.live.get(&buyer) {
            return Ok(*deadline);
        }
        self.room(&passes, available)?;
        let deadline = now.plus_seconds(self.options.pass_seconds);
        // A pass of no duration is never live, and nothing would remove it.
        if now < deadline {
            passes.live.insert(buyer, deadline);
            passes.fresh.insert((deadline, buyer));
        }
        passes.issued += 1;
        Ok(deadline)
    }

    /// An order with this buyer's pass was accepted, so the pass no longer stands for a person who may still
    /// come. False: they have none here, because it has expired, is from before a restart, or was already
    /// reported.
    pub fn used(&self, buyer: &BuyerId, now: Timestamp) -> bool {
        let mut passes = self.passes_at(now);
        let buyer = self.hasher.hash_one(buyer);
        let Some(deadline) = passes.live.remove(&buyer) else { return false };
        let pass = (deadline, buyer);
        passes.fresh.remove(&pass) || passes.late.remove(&pass)
    }

    /// Issued, not used and not expired.
    pub fn live(&self, now: Timestamp) -> u64 {
        self.passes_at(now).live.len() as u64
    }

    /// The live passes, and how many of them are late.
    pub fn live_passes(&self, now: Timestamp) -> LivePasses {
        let passes = self.passes_at(now);
        LivePasses { all: passes.live.len() as u64, late: passes.late.len() as u64 }
    }

    /// All passes ever issued.
    pub fn issued(&self) -> u64 {
        self.passes.lock().issued
    }

    fn room(&self, passes: &Passes, available: u32) -> Result<(), HeadGateRefusal> {
        if passes.fresh.len() as u64 >= u64::from(self.options.factor) * u64::from(available) {
            Err(HeadGateRefusal::Exhausted)
        } else if passes.live.len() >= self.options.max_live {
            Err(HeadGateRefusal::Full)
        } else {
            Ok(())
        }
    }

    /// The passes that are live now. An expired or late pass stays so, even if the clock steps back.
    fn passes_at(&self, now: Timestamp) -> MutexGuard<'_, Passes> {
        let mut passes = self.passes.lock();
        passes.age(now, now.plus_millis(late_pass_millis(self.options.pass_seconds)));
        passes
    }
}

impl Passes {
    /// Passes with a deadline up to `late_until` become late.
    fn age(&mut self, now: Timestamp, late_until: Timestamp) {
        while let Some((deadline, buyer)) = self.fresh.first().copied()
            && deadline <= late_until
        {
            self.fresh.pop_first();
            self.late.insert((deadline, buyer));
        }
        while let Some((deadline, buyer)) = self.late.first().copied()
            && deadline <= now
        {
            self.late.pop_first();
            self.live.remove(&buyer);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::BTreeMap,
        sync::{
            Barrier,
            atomic::{AtomicU32, Ordering::SeqCst},
        },
        thread,
    };

    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::pass_share::late_after_millis;

    const PASS_SECONDS: u32 = 10;
    const START: Timestamp = Timestamp::from_millis(1_800_000_000_000);

    fn gate(factor: u32, max_live: usize) -> HeadGate {
        HeadGate::new(HeadGateOptions { factor, pass_seconds: PASS_SECONDS, max_live })
    }

    fn buyer(number: usize) -> BuyerId {
        BuyerId::from_stored(&format!("buyer {number}"))
    }

    #[test]
    fn there_are_never_more_live_passes_than_the_factor_allows() {
        let gate = gate(2, 100);
        for number in 0..6 {
            assert!(gate.has_room_for(&buyer(number), 3, START));
            assert!(gate.take(&buyer(number), 3, START).is_ok());
        }
        assert!(!gate.has_room_for(&buyer(6), 3, START));
        assert_eq!(gate.take(&buyer(6), 3, START), Err(HeadGateRefusal::Exhausted));
        assert_eq!((gate.live(START), gate.issued()), (6, 6));
    }

    #[test]
    fn a_buyer_who_asks_again_gets_the_same_deadline_even_if_nothing_is_left() {
        let gate = gate(1, 100);
        let deadline = gate.take(&buyer(0), 1, START).unwrap();
        let later = START.plus_seconds(1);
        assert!(gate.has_room_for(&buyer(0), 0, later));
        assert_eq!(gate.take(&buyer(0), 0, later), Ok(deadline));
        assert_eq!((gate.live(later), gate.issued()), (1, 1));
    }

    #[test]
    fn restocked_and_returned_units_make_room() {
        let gate = gate(1, 100);
        assert_eq!(gate.take(&buyer(0), 0, START), Err(HeadGateRefusal::Exhausted));
        assert!(gate.take(&buyer(0), 1, START).is_ok());
        assert_eq!(gate.take(&buyer(1), 1, START), Err(HeadGateRefusal::Exhausted));
        assert!(gate.take(&buyer(1), 2, START).is_ok());
    }

    #[test]
    fn a_pass_that_nobody_uses_makes_room_when_it_is_late_and_is_good_until_its_deadline() {
        let gate = gate(1, 100);
        let deadline = gate.take(&buyer(0), 1, START).unwrap();
        assert_eq!(deadline, START.plus_seconds(PASS_SECONDS));
        let late_at = START.plus_millis(late_after_millis(PASS_SECONDS));
        assert!(!gate.has_room_for(&buyer(1), 1, late_at.plus_millis(-1)));
        assert!(gate.take(&buyer(1), 1, late_at).is_ok());
        let before_its_end = deadline.plus_millis(-1);
        assert_eq!(gate.take(&buyer(0), 1, before_its_end), Ok(deadline), "it is still the same pass");
        assert_eq!((gate.live(before_its_end), gate.live(deadline)), (2, 1));
    }

    /// In a sale without a waiting room, bots take passes again and again and never order.
    #[test]
    fn passes_that_nobody_uses_hold_up_others_for_an_eighth_of_their_time_and_not_for_all_of_it() {
        const UNITS: u32 = 48;
        let gate = gate(5, 1_000);
        let (mut waited, mut longest_millis) = (0, 0);
        for millis in (0..10 * i64::from(PASS_SECONDS) * 1_000).step_by(50) {
            let now = START.plus_millis(millis);
            for bot in 0..240 {
                let _ = gate.take(&buyer(bot), UNITS, now);
            }
            waited = if gate.has_room_for(&buyer(9_999), UNITS, now) { 0 } else { waited + 50 };
            longest_millis = longest_millis.max(waited);
        }
        assert!(longest_millis <= late_after_millis(PASS_SECONDS) + 50, "{longest_millis} ms");
    }

    #[test]
    fn a_pass_left_unused_is_late() {
        let gate = gate(1, 100);
        gate.take(&buyer(0), 5, START).unwrap();
        gate.take(&buyer(1), 5, START).unwrap();
        gate.take(&buyer(2), 5, START.plus_millis(1)).unwrap();
        let late_at = START.plus_millis(late_after_millis(PASS_SECONDS));
        assert_eq!(gate.live_passes(late_at.plus_millis(-1)), 3.into());
        assert_eq!(gate.live_passes(late_at), LivePasses { all: 3, late: 2 });
        gate.used(&buyer(0), late_at);
        assert_eq!(gate.live_passes(late_at), LivePasses { all: 2, late: 1 });
    }

    #[test]
    fn a_used_pass_is_no_longer_live_and_using_it_twice_changes_nothing() {
        let gate = gate(1, 100);
        gate.take(&buyer(0), 2, START).unwrap();
        gate.take(&buyer(1), 2, START).unwrap();
        assert!(gate.used(&buyer(0), START));
        assert!(!gate.used(&buyer(0), START));
        assert!(!gate.used(&buyer(7), START));
        assert_eq!((gate.live(START), gate.issued()), (1, 2));
    }

    #[test]
    fn a_buyer_whose_pass_was_used_takes_room_for_the_next_one() {
        let gate = gate(1, 100);
        gate.take(&buyer(0), 1, START).unwrap();
        gate.used(&buyer(0), START);
        let later = START.plus_seconds(1);
        assert_eq!(gate.take(&buyer(0), 1, later), Ok(later.plus_seconds(PASS_SECONDS)));
        assert_eq!(gate.take(&buyer(1), 1, later), Err(HeadGateRefusal::Exhausted));
        // The deadline of the first pass must not end the second one.
        let first_deadline = START.plus_seconds(PASS_SECONDS);
        assert_eq!(gate.live(first_deadline), 1);
    }

    #[test]
    fn memory_is_bounded_for_any_number_of_units() {
        let gate = gate(1, 3);
        for number in 0..3 {
            assert!(gate.take(&buyer(number), u32::MAX, START).is_ok());
        }
        assert!(!gate.has_room_for(&buyer(3), u32::MAX, START));
        assert_eq!(gate.take(&buyer(3), u32::MAX, START), Err(HeadGateRefusal::Full));
        assert!(gate.take(&buyer(0), u32::MAX, START).is_ok());
        gate.used(&buyer(0), START);
        assert!(gate.take(&buyer(3), u32::MAX, START).is_ok());
        let passes = gate.passes.lock();
        assert_eq!((passes.live.len(), passes.fresh.len() + passes.late.len()), (3, 3));
    }

    #[test]
    fn passes_given_after_the_clock_stepped_back_return_at_their_own_deadline() {
        let gate = gate(1, 100);
        let earlier = START.plus_millis(-3_600_000);
        gate.take(&buyer(0), 2, START).unwrap();
        let deadline = gate.take(&buyer(1), 2, earlier).unwrap();
        assert_eq!(deadline, earlier.plus_seconds(PASS_SECONDS));
        assert_eq!(gate.live(deadline), 1);
        assert_eq!(gate.live(START), 1);
        assert_eq!(gate.live(START.plus_seconds(PASS_SECONDS)), 0);
    }

    #[test]
    fn many_requests_at_once_never_get_more_passes_than_the_factor_allows() {
        const THREADS: usize = 64;
        let gate = gate(3, 1_000);
        let (granted, barrier) = (AtomicU32::new(0), Barrier::new(THREADS));
        thread::scope(|scope| {
            for thread in 0..THREADS {
                let (gate, granted, barrier) = (&gate, &granted, &barrier);
                scope.spawn(move || {
                    barrier.wait();
                    for number in 0..20 {
                        if gate.take(&buyer(thread * 20 + number), 100, START).is_ok() {
                            granted.fetch_add(1, SeqCst);
                        }
                        assert!(gate.live(START) <= 300);
                    }
                });
            }
        });
        assert_eq!(granted.into_inner(), 300);
        assert_eq!((gate.live(START), gate.issued()), (300, 300));
    }

    #[derive(Clone, Debug)]
    enum Step {
        Take(usize),
        Look(usize),
        Use(usize),
        /// A restock, a sale or a return.
        Available(u32),
        /// Sometimes the clock steps back.
        Wait(i64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            8 => (0..12usize).prop_map(Step::Take),
            2 => (0..12usize).prop_map(Step::Look),
            4 => (0..12usize).prop_map(Step::Use),
            2 => (0..5u32).prop_map(Step::Available),
            4 => (0..6_000i64).prop_map(Step::Wait),
            1 => (-9_000..0i64).prop_map(Step::Wait),
        ]
    }

    struct ModelPass {
        deadline: Timestamp,
        late: bool,
        over: bool,
    }

    /// Every pass ever issued, searched from the start for each question.
    #[derive(Default)]
    struct Model {
        passes: BTreeMap<usize, Vec<ModelPass>>,
        issued: u64,
    }

    impl Model {
        fn age(&mut self, now: Timestamp) {
            for pass in self.passes.values_mut().flatten() {
                pass.late |= pass.deadline.millis_since(now) <= late_pass_millis(PASS_SECONDS);
                pass.over |= pass.deadline <= now;
            }
        }

        fn live(&self) -> impl Iterator<Item = &ModelPass> {
            self.passes.values().flatten().filter(|pass| !pass.over)
        }

        fn of(&self, buyer: usize) -> Option<Timestamp> {
            let passes = self.passes.get(&buyer).into_iter().flatten();
            passes.filter(|pass| !pass.over).map(|pass| pass.deadline).next()
        }

        fn counts(&self) -> LivePasses {
            let late = self.live().filter(|pass| pass.late).count() as u64;
            LivePasses { all: self.live().count() as u64, late }
        }

        fn has_room(&self, most_fresh: u64, most_live: u64) -> bool {
            let LivePasses { all, late } = self.counts();
            all - late < most_fresh && all < most_live
        }

        fn take(&mut self, buyer: usize, has_room: bool, now: Timestamp) -> Option<Timestamp> {
            if let Some(deadline) = self.of(buyer) {
                return Some(deadline);
            }
            let deadline = now.plus_seconds(PASS_SECONDS);
            has_room.then(|| {
                self.passes.entry(buyer).or_default().push(ModelPass { deadline, late: false, over: false });
                self.issued += 1;
                deadline
            })
        }
    }

    proptest! {
        #[test]
        fn the_head_gate_does_what_a_naive_one_does(steps in vec(step(), 1..120), factor in 1..4u32) {
            const MAX_LIVE: usize = 7;
            let (gate, mut model) = (gate(factor, MAX_LIVE), Model::default());
            let (mut now, mut available) = (START, 3);
            for step in steps {
                model.age(now);
                let has_room = model.has_room(u64::from(factor * available), MAX_LIVE as u64);
                match step {
                    Step::Take(number) => {
                        let taken = gate.take(&buyer(number), available, now);
                        prop_assert_eq!(taken.ok(), model.take(number, has_room, now));
                    }
                    Step::Look(number) => {
                        let expected = model.of(number).is_some() || has_room;
                        prop_assert_eq!(gate.has_room_for(&buyer(number), available, now), expected);
                    }
                    Step::Use(number) => {
                        gate.used(&buyer(number), now);
                        model.passes.entry(number).or_default().iter_mut().for_each(|pass| pass.over = true);
                    }
                    Step::Available(units) => available = units,
                    Step::Wait(millis) => now = now.plus_millis(millis),
                }
                model.age(now);
                prop_assert_eq!((gate.live_passes(now), gate.issued()), (model.counts(), model.issued));
            }
        }
    }
}
