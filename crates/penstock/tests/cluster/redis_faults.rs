//! Redis dies, sleeps or loses its data under load. Orders wait until it is back or replaced, and nothing
//! that was answered is lost.

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use penstock_local::RedisKind;
use penstock_testkit::{Random, seed_of_the_day};

use crate::{
    crowd::Crowd,
    fault::{Fault, a_moment, rename_the_item},
    trial::Trial,
};

const REDIS_AWAY: Duration = Duration::from_secs(2);

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
fn a_redis_that_restarts_without_the_database_waits_for_it() {
    let mut random = Random::new(seed_of_the_day("restart Redis without MariaDB"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    thread::sleep(a_moment(&mut random));
    fault.trial.shop.mariadb.kill().unwrap();
    fault.trial.shop.redis.single().unwrap().kill().unwrap();
    fault.trial.shop.redis.single().unwrap().restart().unwrap();
    // Decisions answered before the kill have been settled by then.
    thread::sleep(Duration::from_millis(500));
    fault.begins();
    thread::sleep(REDIS_AWAY);
    assert_eq!(fault.ends(), 0, "it sold without knowing what is settled");
    fault.trial.shop.mariadb.start_again().unwrap();
    let back = fault.crowd.until_more_are_sold(1);
    fault.crowd.until_more_are_sold(100);
    let report = fault.finish();
    eprintln!("Redis restarted without MariaDB, sells {back:?} after that is back: {report}");
}

#[test]
fn a_wiped_redis_is_filled_again_from_the_records() {
    let mut random = Random::new(seed_of_the_day("wipe Redis"));
    let Fault { mut trial, crowd, sale, .. } = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    let before = crowd.go_home();
    let promised = trial.audit(&before);
    let stock = trial.ledger(&sale);
    let redis = trial.shop.redis.single().unwrap();
    redis.kill().unwrap();
    fs::remove_dir_all(redis.folder().join("appendonlydir")).unwrap();
    redis.restart().unwrap();
    let wiped = Instant::now();
    let crowd = Crowd::gather(trial.front(), &sale, &mut random);
    crowd.until_more_are_sold(1);
    let back = wiped.elapsed();
    crowd.until_more_are_sold(100);
    let mut after = crowd.go_home();
    assert!(trial.ledger(&sale)[1] < stock[1], "units came out of nowhere");
    assert_eq!(trial.ledger(&sale)[0], stock[0]);
    after.merge(before);
    trial.until_nodes_agree(&sale);
    rename_the_item(&trial, &sale);
    assert!(trial.audit(&after) > promised);
    // The first process to miss the sale brings it back: a node or a settlement worker.
    let by_nodes: f64 = (0..3).map(|node| trial.figure(node, "penstock_ledger_reconciled_total")).sum();
    let by_workers = (0..2).any(|worker| {
        let log = fs::read_to_string(trial.shop.settler(worker).unwrap().log()).unwrap();
        log.contains("the sale was brought back from the records")
    });
    assert!(by_nodes > 0.0 || by_workers, "nothing reported that a sale was brought back");
    eprintln!("Redis wiped after {promised} orders, sells {back:?} after");
}

#[test]
fn a_replica_takes_over_from_a_killed_master_and_goes_on_selling() {
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
    // Its supervisor restarts it. It follows the new master, which answers only what a replica has confirmed.
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

#[test]
fn a_master_that_wakes_up_after_its_replacement_has_sold_nothing_twice() {
    let mut random = Random::new(seed_of_the_day("pause a Redis master"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Cluster), &mut random);
    thread::sleep(a_moment(&mut random));
    let key = format!("{{{}}}:sale", fault.sale);
    let redis = fault.trial.shop.redis.cluster().unwrap();
    let former = redis.master_of(&key).unwrap();
    redis.node(former).unwrap().pause().unwrap();
    let successor = redis.wait_for_failover(&key, former).unwrap();
    // No replica confirms the new master's decisions until the former master follows it.
    redis.node(former).unwrap().resume().unwrap();
    fault.begins();
    let back = fault.crowd.until_more_are_sold(1);
    fault.crowd.until_more_are_sold(100);
    fault.ends();
    let report = fault.finish();
    eprintln!("Redis master {former} slept, {successor} sells {back:?} after it woke up: {report}");
}

#[test]
fn sentinels_replace_a_killed_master_and_the_sale_goes_on() {
    let mut random = Random::new(seed_of_the_day("kill a master that Sentinels watch"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Sentinel), &mut random);
    thread::sleep(a_moment(&mut random));
    let redis = fault.trial.shop.redis.sentinel().unwrap();
    let former = redis.master().unwrap();
    redis.server(former).unwrap().kill().unwrap();
    let killed = Instant::now();
    let successor = redis.wait_for_failover(former).unwrap();
    redis.server(former).unwrap().restart().unwrap();
    fault.begins();
    fault.crowd.until_more_are_sold(1);
    let sells = killed.elapsed();
    fault.crowd.until_more_are_sold(100);
    fault.ends();
    let report = fault.finish();
    eprintln!("Redis master {former} killed, {successor} took over, sold again after {sells:?}: {report}");
}
