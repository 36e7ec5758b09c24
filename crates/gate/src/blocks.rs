//! The numbers that one of several nodes may give out: blocks taken from the numbers that all nodes share.
//! The size of the next block depends on how many people ask. This module takes no blocks itself and knows no
//! other node.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};
use penstock_domain::Timestamp;

use crate::demand::Demand;

/// A block is made for the people who come within this time.
const AHEAD_SECONDS: f64 = 1.0;
/// The most numbers in a block, beyond those for people already waiting.
const MAX_AHEAD: u64 = 50_000;
/// A block also has at most this plus a quarter of the numbers given out. Unused numbers stand between people
/// in the draw.
const FEW_AHEAD: u64 = 4;
/// The shortest time over which the demand is measured.
const MIN_WINDOW_MILLIS: i64 = 50;

#[derive(Debug, Default)]
pub struct Blocks(Mutex<BlockQueue>);

#[derive(Debug, Default)]
struct BlockQueue {
    blocks: VecDeque<Block>,
    is_closed: bool,
    given_out: u64,
    /// Requests since the demand was last measured.
    asked: u64,
    measured_at: Option<Timestamp>,
    demand: Demand,
}

#[derive(Debug)]
struct Block {
    next: u64,
    to: u64,
    good_until: Timestamp,
}

impl Blocks {
    /// None: the node has no number left.
    pub fn take(&self, now: Timestamp) -> Option<u64> {
        let mut state = self.at(now);
        state.asked += 1;
        state.next()
    }

    /// For a person who asked before and had to wait.
    pub fn take_late(&self, now: Timestamp) -> Option<u64> {
        self.at(now).next()
    }

    /// The size of the next block, for `waiting` people who wait for it.
    pub fn wanted(&self, waiting: u64, now: Timestamp) -> u64 {
        let mut state = self.at(now);
        state.measure(now);
        let ahead = state.demand.within(AHEAD_SECONDS);
        let given_out = state.given_out + waiting;
        waiting + ahead.min(MAX_AHEAD).min(FEW_AHEAD + given_out / 4)
    }

    /// Adds the numbers `from..to`, to be given out until `good_until`.
    pub fn put(&self, from: u64, to: u64, good_until: Timestamp) {
        let mut state = self.0.lock();
        if !state.is_closed {
            state.blocks.push_back(Block { next: from, to, good_until });
        }
    }

    /// Stops giving out numbers.
    pub fn close(&self) {
        let mut state = self.0.lock();
        state.is_closed = true;
        state.blocks.clear();
    }

    /// The blocks that are good now. An ended block stays ended, even if the clock steps back.
    fn at(&self, now: Timestamp) -> MutexGuard<'_, BlockQueue> {
        let mut state = self.0.lock();
        state.blocks.retain(|block| now < block.good_until);
        state
    }
}

impl BlockQueue {
    fn next(&mut self) -> Option<u64> {
        let block = self.blocks.front_mut()?;
        self.given_out += 1;
        let number = block.next;
        block.next += 1;
        if block.next >= block.to {
            self.blocks.pop_front();
        }
        Some(number)
    }

    fn measure(&mut self, now: Timestamp) {
        let Some(measured_at) = self.measured_at else {
            self.measured_at = Some(now);
            return;
        };
        let millis = now.millis_since(measured_at);
        if (0..MIN_WINDOW_MILLIS).contains(&millis) {
            return;
        }
        let seconds = millis.max(MIN_WINDOW_MILLIS) as f64 / 1_000.0;
        self.demand.measure(std::mem::take(&mut self.asked), seconds);
        self.measured_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(1_800_000_000_000 + millis)
    }

    #[test]
    fn numbers_come_from_the_oldest_block_until_there_are_none() {
        let blocks = Blocks::default();
        assert_eq!(blocks.take(at(0)), None);
        blocks.put(5, 7, at(1_000));
        blocks.put(20, 21, at(1_000));
        assert_eq!([0; 4].map(|_| blocks.take(at(0))), [Some(5), Some(6), Some(20), None]);
    }

    #[test]
    fn a_block_that_is_over_gives_out_nothing() {
        let blocks = Blocks::default();
        blocks.put(0, 10, at(1_000));
        assert_eq!(blocks.take(at(999)), Some(0));
        assert_eq!(blocks.take(at(1_000)), None);
        assert_eq!(blocks.take(at(0)), None, "the clock was set back");
    }

    #[test]
    fn a_node_that_stops_gives_out_nothing_even_of_a_block_that_comes_late() {
        let blocks = Blocks::default();
        blocks.put(0, 10, at(1_000));
        blocks.close();
        blocks.put(30, 40, at(1_000));
        assert_eq!(blocks.take(at(0)), None);
    }

    #[test]
    fn a_quiet_node_asks_for_waiting_people_and_a_busy_one_for_the_next_ones_too() {
        let blocks = Blocks::default();
        assert_eq!(blocks.wanted(1, at(0)), 1);
        // One person every two seconds.
        for second in [2, 4, 6] {
            assert_eq!(blocks.take(at(second * 1_000)), None);
            assert_eq!(blocks.wanted(1, at(second * 1_000)), 1);
        }
        // A thousand people in a tenth of a second. Thousands more are on their way, but few have come so
        // far.
        assert!((0..1_000).all(|_| blocks.take(at(6_100)).is_none()));
        assert_eq!(blocks.wanted(1_000, at(6_100)), 1_000 + 4 + 250);
        blocks.put(0, 40_000, at(10_000));
        assert!((0..40_000).all(|_| blocks.take_late(at(6_100)).is_some()));
        let wanted = blocks.wanted(1_000, at(6_100));
        assert!((1_000 + 9_000..=1_000 + 10_254).contains(&wanted), "{wanted}");
        // A minute later everything is quiet again.
        assert!(blocks.wanted(1, at(66_100)) <= 1 + 10);
        assert_eq!(blocks.wanted(1, at(126_100)), 1);
    }
}
