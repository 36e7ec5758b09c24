//! A node dies, sleeps or loses Redis under load. The others go on selling, and it comes back by itself.

use std::{
    fs,
    net::SocketAddr,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use penstock_local::{Cut, CutProxy, RedisKind};
use penstock_testkit::{Auditor, Client, OfferTerms, Random, seed_of_the_day};

use crate::{
    fault::{Fault, a_moment},
    trial::{Trial, buyer, patiently, until},
};

const NODES: u64 = 3;
const PAUSE: Duration = Duration::from_secs(10);
/// How many people press the button at the opening, again and again until the node wakes up.
const RUSH: usize = 64;
const FROZEN: Duration = Duration::from_secs(8);
/// How long an order takes on a slow machine if it goes to the frozen node first. Nine in ten do not.
const A_SLOW_ORDER: Duration = Duration::from_millis(2_500);
/// How many claims are sent while a node has no Redis.
const CLAIMS_WHILE_CUT: usize = 7;
/// The promise is a second; a debug build on a loaded machine may need a little more.
const REFUSED_WITHIN: Duration = Duration::from_millis(1_500);

#[test]
fn nobody_notices_a_killed_node() {
    let mut random = Random::new(seed_of_the_day("kill a node"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    let victim = random.below(NODES) as usize;
    thread::sleep(a_moment(&mut random));
    fault.begins();
    fault.trial.shop.node(victim).unwrap().kill().unwrap();
    fault.crowd.until_more_are_sold(200);
    fault.ends();
    fault.trial.shop.node(victim).unwrap().start().unwrap();
    fault.crowd.until_more_are_sold(100);
    let report = fault.finish();
    eprintln!("node {victim} killed: {report}");
}

#[test]
fn a_node_that_sleeps_for_ten_seconds_delays_nobody_for_long() {
    let mut random = Random::new(seed_of_the_day("pause a node"));
    let mut fault = Fault::prepare(Trial::start(RedisKind::Single), &mut random);
    let victim = random.below(NODES) as usize;
    thread::sleep(a_moment(&mut random));
    fault.begins();
    fault.trial.shop.node(victim).unwrap().pause().unwrap();
    thread::sleep(PAUSE);
    fault.trial.shop.node(victim).unwrap().resume().unwrap();
    fault.ends();
    fault.crowd.until_more_are_sold(100);
    let report = fault.finish();
    eprintln!("node {victim} asleep for {PAUSE:?}: {report}");
}

#[test]
fn a_node_that_freezes_before_the_opening_does_not_stop_the_others() {
    let mut random = Random::new(seed_of_the_day("freeze a node before the opening"));
    let mut trial = Trial::start(RedisKind::Single);
    let sale = trial.publish(OfferTerms { units: 1_000_000, ..OfferTerms::default() });
    let victim = random.below(NODES) as usize;
    let healthy: Vec<usize> = (0..NODES as usize).filter(|node| *node != victim).collect();
    let claims = |trial: &Trial| -> Vec<f64> {
        healthy.iter().map(|node| trial.figure(*node, "penstock_ledger_commands_total")).collect()
    };
    let before = claims(&trial);
    trial.shop.node(victim).unwrap().pause().unwrap();
    let (front, opening, frozen_at) = (trial.front(), Barrier::new(RUSH), Instant::now());
    let (mut auditor, mut took) = (Auditor::default(), Vec::new());
    thread::scope(|scope| {
        let buyers: Vec<_> = (0..RUSH)
            .map(|number| {
                let (opening, sale) = (&opening, sale.as_str());
                scope.spawn(move || {
                    opening.wait();
                    press_again_and_again(front, sale, number, frozen_at + FROZEN)
                })
            })
            .collect();
        for buyer in buyers {
            let (seen, times) = buyer.join().unwrap();
            auditor.merge(seen);
            took.extend(times);
        }
    });
    trial.shop.node(victim).unwrap().resume().unwrap();
    let log = fs::read_to_string(trial.folder().join("nginx/logs/error.log")).unwrap();
    assert!(!log.contains("no live upstreams"), "{log}");
    for (node, (now, before)) in healthy.iter().zip(claims(&trial).into_iter().zip(before)) {
        assert!(now > before, "node {node} sold nothing, although it was healthy");
    }
    took.sort_unstable();
    let at = |part: usize| took[took.len() * part / 100];
    let promised = trial.audit(&auditor);
    eprintln!(
        "node {victim} frozen: {promised} orders, half within {:?}, 90 % within {:?}, all within {:?}",
        at(50),
        at(90),
        took[took.len() - 1]
    );
    assert!(at(90) < A_SLOW_ORDER, "one order in ten takes longer than {:?}", at(90));
}

/// Buys one after the other until `end`. Returns what was promised, and how long each promise took.
fn press_again_and_again(
    front: SocketAddr,
    sale: &str,
    number: usize,
    end: Instant,
) -> (Auditor, Vec<Duration>) {
    let (mut auditor, mut took) = (Auditor::default(), Vec::new());
    while Instant::now() < end {
        let name = format!("buyer-{number}-{}", took.len());
        auditor.sends(sale, &name, 1, &name);
        let began = Instant::now();
        let answer = patiently("a verdict", || buyer(front, &name).with_timeout(PAUSE).claim(sale, 1, &name));
        took.push(began.elapsed());
        assert_eq!(answer.status, 201, "{}", answer.text());
        auditor.saw(sale, &name, &answer);
    }
    (auditor, took)
}

#[test]
fn a_node_cut_off_from_redis_refuses_within_a_second_and_the_others_go_on_selling() {
    let mut random = Random::new(seed_of_the_day("cut a node off"));
    let mut trial = Trial::start(RedisKind::Single);
    let victim = random.below(NODES) as usize;
    let mut way = CutProxy::start(trial.shop.redis.addresses()[0]).unwrap();
    let node = trial.shop.node(victim).unwrap();
    node.stop().unwrap();
    node.set("PENSTOCK_REDIS__SERVERS", &way.address().to_string());
    node.start().unwrap();
    let mut fault = Fault::prepare(trial, &mut random);
    for cut in [Cut::Silence, Cut::Reset] {
        thread::sleep(a_moment(&mut random));
        let names: Vec<String> = (0..CLAIMS_WHILE_CUT).map(|number| format!("{cut:?}-{number}")).collect();
        fault.begins();
        way.cut(cut).unwrap();
        let (median, slowest) = refusals(&mut fault, victim, &names);
        assert_eq!(readiness(&fault, victim), 503, "a node that can't sell says so");
        fault.crowd.until_more_are_sold(50);
        fault.ends();
        way.mend().unwrap();
        let mended = Instant::now();
        let back = ask_again(&mut fault, victim, &names) - mended;
        until("the node says that it sells", || (readiness(&fault, victim) == 200).then_some(()));
        eprintln!(
            "node {victim} cut off ({cut:?}): 503 after {median:?} (slowest {slowest:?}), sells again {back:?} after"
        );
        assert!(slowest < REFUSED_WITHIN, "{cut:?}: a claim is refused only after {slowest:?}");
    }
    fault.crowd.until_more_are_sold(100);
    let report = fault.finish();
    eprintln!("node {victim} cut off twice: {report}");
}

fn readiness(fault: &Fault, node: usize) -> u16 {
    Client::new(fault.trial.node(node)).get("/readyz").unwrap().status
}

/// Claims at the cut node get 503. Returns the median time and the longest.
fn refusals(fault: &mut Fault, victim: usize, names: &[String]) -> (Duration, Duration) {
    let node = fault.trial.node(victim);
    let mut took: Vec<Duration> = Vec::new();
    for name in names {
        let began = Instant::now();
        fault.own.sends(&fault.sale, name, 1, name);
        let answer = buyer(node, name).claim(&fault.sale, 1, name).unwrap();
        took.push(began.elapsed());
        assert_eq!(answer.status, 503, "{}", answer.text());
        assert!(answer.header("retry-after").is_some(), "{answer:?}");
        fault.own.saw(&fault.sale, name, &answer);
    }
    took.sort_unstable();
    (took[took.len() / 2], took[took.len() - 1])
}

/// Everybody who was refused asks the same node again with the same key and gets an order. Returns when the
/// first one got it.
fn ask_again(fault: &mut Fault, victim: usize, names: &[String]) -> Instant {
    let node = fault.trial.node(victim);
    let mut first = None;
    for name in names {
        let answer = until("the node sells again", || {
            let answer = buyer(node, name).claim(&fault.sale, 1, name).ok()?;
            (answer.status != 503).then_some(answer)
        });
        assert_eq!(answer.status, 201, "{}", answer.text());
        first.get_or_insert_with(Instant::now);
        fault.own.saw(&fault.sale, name, &answer);
    }
    first.unwrap()
}
