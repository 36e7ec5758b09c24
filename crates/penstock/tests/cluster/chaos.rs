//! Everything fails in any order, sometimes two things at once, and nothing is oversold, lost or duplicated.
//! `PENSTOCK_CHAOS_ROUNDS` sets the number of rounds.

use std::{thread, time::Duration};

use penstock_local::{RedisKind, RedisServer, ShopRedis};
use penstock_testkit::{Random, seed_of_the_day};

use crate::{
    fault::Fault,
    trial::{Trial, until},
};

const ROUNDS: u32 = 5;
/// Short, so that holds run out while things are broken.
const HOLD_SECONDS: u32 = 5;
const SOLD_BETWEEN: usize = 40;

/// What can fail and is repaired afterwards.
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

    /// Servers come back before the processes that need them to start.
    fn comes_back_first(self) -> bool {
        matches!(self.process().0, "database" | "redis")
    }
}

/// A cluster in which things fail.
struct Chaos {
    fault: Fault,
    /// The server of a Redis Cluster that has failed.
    master: usize,
}

impl Chaos {
    fn begin(&mut self, what: Failing) -> anyhow::Result<()> {
        if matches!(what, Failing::RedisDies | Failing::RedisSleeps) {
            let (redis, key) = (&self.fault.trial.shop.redis, format!("{{{}}}:sale", self.fault.sale));
            if let ShopRedis::Cluster(cluster) = redis {
                self.master = until("a master has the sale", || cluster.master_of(&key).ok());
            }
        }
        let shop = &mut self.fault.trial.shop;
        match what {
            Failing::NodeDies(number) => shop.node(number)?.kill(),
            Failing::NodeSleeps(number) => shop.node(number)?.pause(),
            Failing::WorkerDies(number) => shop.settler(number)?.kill(),
            Failing::WorkerSleeps(number) => shop.settler(number)?.pause(),
            Failing::DatabaseDies => shop.mariadb.kill(),
            Failing::DatabaseSleeps => shop.mariadb.pause(),
            Failing::RedisDies => self.redis()?.kill(),
            Failing::RedisSleeps => self.redis()?.pause(),
        }
    }

    fn end(&mut self, what: Failing) -> anyhow::Result<()> {
        let shop = &mut self.fault.trial.shop;
        match what {
            Failing::NodeDies(number) => shop.node(number)?.start(),
            Failing::NodeSleeps(number) => shop.node(number)?.resume(),
            Failing::WorkerDies(number) => shop.settler(number)?.start(),
            Failing::WorkerSleeps(number) => shop.settler(number)?.resume(),
            Failing::DatabaseDies => shop.mariadb.start_again(),
            Failing::DatabaseSleeps => shop.mariadb.resume(),
            Failing::RedisDies => self.redis()?.restart(),
            Failing::RedisSleeps => self.redis()?.resume(),
        }
    }

    fn redis(&mut self) -> anyhow::Result<&mut RedisServer> {
        match &mut self.fault.trial.shop.redis {
            ShopRedis::Cluster(cluster) => cluster.node(self.master),
            other => other.single(),
        }
    }

    fn round(&mut self, round: u32, random: &mut Random) {
        let mut failing = vec![Failing::pick(random)];
        let second = Failing::pick(random);
        if random.percent(60) && second.process() != failing[0].process() {
            failing.push(second);
        }
        self.fault.begins();
        for what in &failing {
            self.begin(*what).unwrap();
            thread::sleep(Duration::from_millis(random.below(400)));
        }
        thread::sleep(Duration::from_millis(200 + random.below(4_000)));
        failing.sort_by_key(|what| !what.comes_back_first());
        for what in &failing {
            self.end(*what).unwrap_or_else(|error| panic!("round {round}, {what:?}: {error:#}"));
        }
        let sold = self.fault.ends();
        let back = self.fault.crowd.until_more_are_sold(SOLD_BETWEEN);
        eprintln!("round {round}: {failing:?}, {sold} sold meanwhile, {SOLD_BETWEEN} more {back:?} after");
    }
}

fn live_through(redis: RedisKind, rounds: u32) {
    let mut random = Random::new(seed_of_the_day("chaos"));
    let rounds = std::env::var("PENSTOCK_CHAOS_ROUNDS").map_or(rounds, |text| text.parse().unwrap());
    let fault = Fault::prepare_with(Trial::start(redis), HOLD_SECONDS, &mut random);
    let mut chaos = Chaos { fault, master: 0 };
    for round in 0..rounds {
        chaos.round(round, &mut random);
    }
    eprintln!("{rounds} rounds of chaos: {}", chaos.fault.finish());
}

#[test]
fn no_order_of_failures_oversells_loses_or_duplicates_anything() {
    live_through(RedisKind::Single, ROUNDS);
}

#[test]
fn no_order_of_failures_on_a_redis_cluster_oversells_loses_or_duplicates_anything() {
    live_through(RedisKind::Cluster, ROUNDS);
}
