//! Everything fails in any order, sometimes two things at once, and nothing is oversold, lost or there twice.
//! `PENSTOCK_CHAOS_ROUNDS` asks for more rounds.

use std::{thread, time::Duration};

use penstock_local::RedisKind;
use penstock_testkit::{Random, seed_of_the_day};

use crate::{fault::Fault, trial::Trial};

const ROUNDS: u32 = 6;
/// Short, so that holds run out while things are broken.
const HOLD_SECONDS: u32 = 5;
const SOLD_BETWEEN: usize = 40;

/// What can fail, and is whole again when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failing {
    NodeDies(usize),
    NodeSleeps(usize),
    WorkerDies(usize),
    WorkerSleeps(usize),
    DatabaseDies,
    DatabaseSleeps,
    RedisDies,
    RedisSleeps,
}

impl Failing {
    fn pick(random: &mut Random) -> Self {
        match random.below(8) {
            0 => Self::NodeDies(random.below(3) as usize),
            1 => Self::NodeSleeps(random.below(3) as usize),
            2 => Self::WorkerDies(random.below(2) as usize),
            3 => Self::WorkerSleeps(random.below(2) as usize),
            4 => Self::DatabaseDies,
            5 => Self::DatabaseSleeps,
            6 => Self::RedisDies,
            _ => Self::RedisSleeps,
        }
    }

    /// Two things that fail at once must not be the same process.
    fn process(self) -> (&'static str, usize) {
        match self {
            Self::NodeDies(number) | Self::NodeSleeps(number) => ("node", number),
            Self::WorkerDies(number) | Self::WorkerSleeps(number) => ("worker", number),
            Self::DatabaseDies | Self::DatabaseSleeps => ("database", 0),
            Self::RedisDies | Self::RedisSleeps => ("redis", 0),
        }
    }

    fn begin(self, trial: &mut Trial) -> anyhow::Result<()> {
        let shop = &mut trial.shop;
        match self {
            Self::NodeDies(number) => shop.node(number)?.kill(),
            Self::NodeSleeps(number) => shop.node(number)?.pause(),
            Self::WorkerDies(number) => shop.settler(number)?.kill(),
            Self::WorkerSleeps(number) => shop.settler(number)?.pause(),
            Self::DatabaseDies => shop.mariadb.kill(),
            Self::DatabaseSleeps => shop.mariadb.pause(),
            Self::RedisDies => shop.redis.single()?.kill(),
            Self::RedisSleeps => shop.redis.single()?.pause(),
        }
    }

    fn end(self, trial: &mut Trial) -> anyhow::Result<()> {
        let shop = &mut trial.shop;
        match self {
            Self::NodeDies(number) => shop.node(number)?.start(),
            Self::NodeSleeps(number) => shop.node(number)?.resume(),
            Self::WorkerDies(number) => shop.settler(number)?.start(),
            Self::WorkerSleeps(number) => shop.settler(number)?.resume(),
            Self::DatabaseDies => shop.mariadb.start_again(),
            Self::DatabaseSleeps => shop.mariadb.resume(),
            Self::RedisDies => shop.redis.single()?.restart(),
            Self::RedisSleeps => shop.redis.single()?.resume(),
        }
    }

    /// Servers come back before those who need them to start.
    fn comes_back_first(self) -> bool {
        matches!(self.process().0, "database" | "redis")
    }
}

#[test]
fn whatever_fails_and_in_whatever_order_nothing_is_oversold_lost_or_duplicated() {
    let mut random = Random::new(seed_of_the_day("chaos"));
    let rounds = std::env::var("PENSTOCK_CHAOS_ROUNDS").map_or(ROUNDS, |text| text.parse().unwrap());
    let mut fault = Fault::prepare_with(Trial::start(RedisKind::Single), HOLD_SECONDS, &mut random);
    for round in 0..rounds {
        let mut failing = vec![Failing::pick(&mut random)];
        let second = Failing::pick(&mut random);
        if random.percent(60) && second.process() != failing[0].process() {
            failing.push(second);
        }
        fault.begins();
        for what in &failing {
            what.begin(&mut fault.trial).unwrap();
            thread::sleep(Duration::from_millis(random.below(400)));
        }
        thread::sleep(Duration::from_millis(200 + random.below(4_000)));
        failing.sort_by_key(|what| !what.comes_back_first());
        for what in &failing {
            what.end(&mut fault.trial).unwrap_or_else(|error| panic!("round {round}, {what:?}: {error:#}"));
        }
        let sold = fault.ends();
        let back = fault.crowd.until_more_are_sold(SOLD_BETWEEN);
        eprintln!("round {round}: {failing:?}, {sold} sold meanwhile, {SOLD_BETWEEN} more {back:?} after");
    }
    eprintln!("{rounds} rounds of chaos: {}", fault.finish());
}
