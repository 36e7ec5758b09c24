//! A settlement worker, MariaDB or Redis dies under load. Orders go on where they can, wait where they can't, and nothing
//! that was answered is lost.

use std::{
    thread,
    time::{Duration, Instant},
};

use penstock_local::RedisKind;
use penstock_testkit::{Random, seed_of_the_day};

use crate::{
    fault::{Fault, a_moment},
    trial::{Trial, until},
};

const DATABASE_AWAY: Duration = Duration::from_secs(20);
/// Five seconds are what is promised; a slow machine fails no test.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15);
const REDIS_AWAY: Duration = Duration::from_secs(2);

/// Who settles the sale, and how far he is.
fn settlement(trial: &Trial, sale: &str) -> Option<(String, u64)> {
    let question = format!("SELECT owner, position FROM settlement_cursors WHERE stream = '{sale}'");
    let row = trial.shop.mariadb.sql(&question).unwrap();
    let (owner, position) = row.split_once('\t')?;
    Some((owner.to_owned(), position.parse().unwrap()))
}

/// The number of the worker that settles the sale: its name has its process in it.
fn settler_of(trial: &mut Trial, sale: &str) -> (usize, String) {
    let owner = until("somebody settles the sale", || {
        let (owner, position) = settlement(trial, sale)?;
        (!owner.is_empty() && position > 0).then_some(owner)
    });
    let process = owner.rsplit('-').nth(1).unwrap().parse().unwrap();
    let is_owner = |number: &usize| trial.shop.settler(*number).unwrap().process_id() == Some(process);
    let number = (0..2).find(is_owner).unwrap_or_else(|| panic!("no worker is {owner}"));
    (number, owner)
}

#[test]
fn a_killed_settlement_worker_is_replaced_by_another() {
    let mut random = Random::new(seed_of_the_day("kill a settlement worker"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    thread::sleep(a_moment(&mut random));
    let (victim, owner) = settler_of(&mut fault.trial, &fault.sale);
    fault.begins();
    fault.trial.shop.settler(victim).unwrap().kill().unwrap();
    let killed = Instant::now();
    let (_, position) = settlement(&fault.trial, &fault.sale).unwrap();
    let successor = until("another worker goes on", || {
        let (successor, moved) = settlement(&fault.trial, &fault.sale)?;
        (successor != owner && moved > position).then_some(successor)
    });
    let taken_over = killed.elapsed();
    assert!(fault.ends() > 0, "nobody bought meanwhile");
    assert!(taken_over < TAKEN_OVER_WITHIN, "taken over only after {taken_over:?}");
    fault.crowd.until_more_are_sold(50);
    let report = fault.finish();
    eprintln!("{owner} killed, {successor} settles after {taken_over:?}: {report}");
}

#[test]
fn orders_go_on_while_the_database_is_away_and_settle_when_it_is_back() {
    let mut random = Random::new(seed_of_the_day("stop MariaDB"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    thread::sleep(a_moment(&mut random));
    fault.trial.shop.mariadb.stop().unwrap();
    fault.begins();
    thread::sleep(DATABASE_AWAY);
    let during = fault.ends();
    fault.trial.shop.mariadb.start_again().unwrap();
    assert!(during > 0, "nobody could buy while the database was away");
    let (back, sold) = (Instant::now(), fault.trial.ledger_position(&fault.sale));
    until("what was decided meanwhile is settled", || {
        let (_, settled) = settlement(&fault.trial, &fault.sale)?;
        (settled >= sold).then_some(())
    });
    let settled = back.elapsed();
    fault.crowd.until_more_are_sold(50);
    let report = fault.finish();
    eprintln!("MariaDB away for {DATABASE_AWAY:?}, settled {settled:?} after: {report}");
}

#[test]
fn a_single_redis_that_is_killed_and_started_again_has_lost_nothing() {
    let mut random = Random::new(seed_of_the_day("restart Redis"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    thread::sleep(a_moment(&mut random));
    fault.begins();
    fault.trial.shop.redis.single().unwrap().kill().unwrap();
    thread::sleep(REDIS_AWAY);
    fault.trial.shop.redis.single().unwrap().restart().unwrap();
    let back = fault.crowd.until_more_are_sold(1);
    fault.ends();
    fault.crowd.until_more_are_sold(100);
    let report = fault.finish();
    eprintln!("Redis killed and back after {REDIS_AWAY:?}, sells {back:?} after: {report}");
}

#[test]
fn a_replica_takes_over_from_a_killed_master_and_sells_on() {
    let mut random = Random::new(seed_of_the_day("kill a Redis master"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Cluster), &mut random);
    thread::sleep(a_moment(&mut random));
    let key = format!("{{{}}}:sale", fault.sale);
    let redis = fault.trial.shop.redis.cluster().unwrap();
    let former = redis.master_of(&key).unwrap();
    redis.node(former).unwrap().kill().unwrap();
    let killed = Instant::now();
    let successor = redis.wait_for_failover(&key, former).unwrap();
    let failed_over = killed.elapsed();
    // Its supervisor starts it again; it follows the new master, which answers nothing that no replica has confirmed.
    redis.node(former).unwrap().restart().unwrap();
    fault.begins();
    fault.crowd.until_more_are_sold(1);
    let sells = killed.elapsed();
    fault.crowd.until_more_are_sold(100);
    fault.ends();
    assert_ne!(fault.trial.shop.redis.cluster().unwrap().master_of(&key).unwrap(), former);
    let report = fault.finish();
    eprintln!(
        "Redis master {former} killed, {successor} took over after {failed_over:?}, sold again after {sells:?}: {report}"
    );
}
