//! A settlement worker dies or sleeps, or MariaDB can't be reached, under load. Orders go on, and everything
//! is settled once.

use std::{
    thread,
    time::{Duration, Instant},
};

use penstock_local::RedisKind;
use penstock_testkit::{Random, seed_of_the_day};

use crate::{
    fault::{Fault, a_moment},
    trial::{Trial, buyer, until},
};

const DATABASE_AWAY: Duration = Duration::from_secs(20);
/// The promise is five seconds; a slow machine must not fail the test.
const TAKEN_OVER_WITHIN: Duration = Duration::from_secs(15);

/// The worker that settles the sale, and how far it is.
fn settlement(trial: &Trial, sale: &str) -> Option<(String, u64)> {
    let question = format!("SELECT owner, position FROM settlement_cursors WHERE stream = '{sale}'");
    let row = trial.shop.mariadb.sql(&question).unwrap();
    let (owner, position) = row.split_once('\t')?;
    Some((owner.to_owned(), position.parse().unwrap()))
}

/// The number of the worker that settles the sale, found by the process id in its name.
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

/// Waits until a worker other than `former` has settled more; returns its name.
fn until_taken_over(trial: &Trial, sale: &str, former: &str) -> String {
    let (_, position) = settlement(trial, sale).unwrap();
    until("another worker goes on", || {
        let (successor, moved) = settlement(trial, sale)?;
        (successor != former && moved > position).then_some(successor)
    })
}

#[test]
fn a_killed_settlement_worker_is_replaced_by_another() {
    let mut random = Random::new(seed_of_the_day("kill a settlement worker"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    // The worker that took over is killed next.
    for _ in 0..2 {
        thread::sleep(a_moment(&mut random));
        let (victim, owner) = settler_of(&mut fault.trial, &fault.sale);
        fault.begins();
        fault.trial.shop.settler(victim).unwrap().kill().unwrap();
        let killed = Instant::now();
        let successor = until_taken_over(&fault.trial, &fault.sale, &owner);
        let taken_over = killed.elapsed();
        eprintln!("{owner} killed, {successor} settles after {taken_over:?}");
        assert!(fault.ends() > 0, "nobody bought meanwhile");
        assert!(taken_over < TAKEN_OVER_WITHIN, "taken over only after {taken_over:?}");
        fault.trial.shop.settler(victim).unwrap().start().unwrap();
    }
    eprintln!("two settlement workers killed: {}", fault.finish());
}

#[test]
fn a_settlement_worker_that_slept_settles_nothing_twice() {
    let mut random = Random::new(seed_of_the_day("pause a settlement worker"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    thread::sleep(a_moment(&mut random));
    let (victim, owner) = settler_of(&mut fault.trial, &fault.sale);
    fault.begins();
    fault.trial.shop.settler(victim).unwrap().pause().unwrap();
    let successor = until_taken_over(&fault.trial, &fault.sale, &owner);
    fault.ends();
    fault.trial.shop.settler(victim).unwrap().resume().unwrap();
    fault.crowd.until_more_are_sold(100);
    eprintln!("{owner} asleep, {successor} went on: {}", fault.finish());
}

#[test]
fn orders_go_on_without_the_database_and_settle_when_it_is_back() {
    let mut random = Random::new(seed_of_the_day("stop MariaDB"));
    let trial = Trial::start_with(RedisKind::Single, |plan| {
        // A node whose secret is in the database can't start without the database.
        plan.variables
            .push(("PENSTOCK_SECRET".to_owned(), "a-secret-that-all-nodes-are-started-with".to_owned()));
    });
    let mut fault = Fault::prepare(trial, &mut random);
    thread::sleep(a_moment(&mut random));
    fault.trial.shop.mariadb.stop().unwrap();
    fault.begins();
    let stopped = Instant::now();
    a_node_starts_without_it(&mut fault, random.below(3) as usize);
    thread::sleep(DATABASE_AWAY.saturating_sub(stopped.elapsed()));
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

/// A node that is killed now starts again and sells without the database.
fn a_node_starts_without_it(fault: &mut Fault, victim: usize) {
    let node = fault.trial.shop.node(victim).unwrap();
    node.kill().unwrap();
    node.start().unwrap();
    let name = "early";
    fault.own.sends(&fault.sale, name, 1, name);
    let answer = until("a node that started without the database sells", || {
        let answer = buyer(fault.trial.node(victim), name).claim(&fault.sale, 1, name).ok()?;
        (answer.status == 201).then_some(answer)
    });
    fault.own.saw(&fault.sale, name, &answer);
}
