//! A Redis master that hangs does not affect sales on other masters.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use penstock_local::RedisKind;
use penstock_testkit::OfferTerms;

use crate::trial::{Trial, buyer, until};

/// How long an order waits for a master that hangs.
const REDIS_TIMEOUT: Duration = Duration::from_secs(8);
/// Far more than an order takes on a busy machine, and far less than the timeout.
const A_QUICK_ANSWER: Duration = Duration::from_secs(3);
const HANGS_FOR: Duration = Duration::from_secs(4);
/// The claims that may be in flight at once for each master …
const IN_FLIGHT: usize = 16;
/// … are all taken by this crowd.
const CROWD: usize = 2 * IN_FLIGHT;

/// One answer: its status, its code if it is a refusal, and how long it took.
type Told = (u16, String, Duration);

/// Places one order after the other at the first node until `enough` is set.
fn order(trial: &Trial, sale: &str, name: &str, enough: &Arc<AtomicBool>) -> JoinHandle<Vec<Told>> {
    let (node, sale, name, enough) = (trial.node(0), sale.to_owned(), name.to_owned(), Arc::clone(enough));
    thread::spawn(move || {
        let mut told = Vec::new();
        while !enough.load(Relaxed) {
            let name = format!("{name}-{}", told.len());
            let asked = Instant::now();
            let answer = buyer(node, &name).with_timeout(4 * REDIS_TIMEOUT).claim(&sale, 1, &name).unwrap();
            told.push((answer.status, answer.code(), asked.elapsed()));
            // A person who is turned away comes back later.
            thread::sleep(Duration::from_millis(if answer.status == 201 { 5 } else { 200 }));
        }
        told
    })
}

#[test]
fn orders_of_other_masters_are_as_quick_as_ever_and_those_of_a_master_that_hangs_are_answered_in_time() {
    let mut trial = Trial::start_with(RedisKind::Cluster, |plan| {
        let timeout = ("PENSTOCK_REDIS__TIMEOUT_MILLISECONDS".into(), REDIS_TIMEOUT.as_millis().to_string());
        plan.variables.push(timeout);
        for bound in ["MIN", "MAX"] {
            plan.variables.push((format!("PENSTOCK_GATE__LIMITS__IN_FLIGHT_{bound}"), IN_FLIGHT.to_string()));
        }
    });
    for node in trial.shop.redis.cluster().unwrap().nodes() {
        // On a busy machine a healthy master may be silent for a second. It must not be replaced for that.
        node.cli(&["CONFIG", "SET", "cluster-node-timeout", "600000"]).unwrap();
    }
    let publish = |trial: &Trial| trial.publish(OfferTerms { units: 10_000, ..OfferTerms::default() });
    let master = |trial: &mut Trial, sale: &str| {
        trial.shop.redis.cluster().unwrap().master_of(&format!("{{{sale}}}:sale")).unwrap()
    };
    let hanging = publish(&trial);
    let hung = master(&mut trial, &hanging);
    let sold = until("two sales of different masters", || {
        let sale = publish(&trial);
        (master(&mut trial, &sale) != hung).then_some(sale)
    });

    let enough = Arc::new(AtomicBool::new(false));
    let buyers: Vec<_> = (0..4).map(|one| order(&trial, &sold, &format!("quick-{one}"), &enough)).collect();
    let crowd: Vec<_> =
        (0..CROWD).map(|one| order(&trial, &hanging, &format!("slow-{one}"), &enough)).collect();
    thread::sleep(Duration::from_secs(1));
    trial.shop.redis.cluster().unwrap().node(hung).unwrap().pause().unwrap();
    thread::sleep(HANGS_FOR);
    enough.store(true, Relaxed);
    let quick: Vec<Told> = buyers.into_iter().flat_map(|buyer| buyer.join().unwrap()).collect();
    let slow: Vec<Told> = crowd.into_iter().flat_map(|buyer| buyer.join().unwrap()).collect();
    trial.shop.redis.cluster().unwrap().node(hung).unwrap().resume().unwrap();

    let longest = |told: &[Told]| told.iter().map(|(.., took)| *took).max().unwrap_or_default();
    eprintln!(
        "{} quick orders, longest {:?}; slow, longest {:?}",
        quick.len(),
        longest(&quick),
        longest(&slow)
    );
    let busy = |told: &[Told]| told.iter().filter(|(_, code, _)| code == "busy").count();
    assert!(busy(&slow) > 0, "the limit of the master that hung was not reached: {slow:?}");
    assert_eq!(busy(&quick), 0, "the master that hung filled the limit of another: {quick:?}");
    assert!(quick.iter().all(|(status, ..)| *status == 201), "{quick:?}");
    assert!(longest(&quick) < A_QUICK_ANSWER, "{:?}", longest(&quick));
    assert!(
        longest(&slow) >= HANGS_FOR / 2,
        "no order waited for the master that hung: {:?}",
        longest(&slow)
    );
    assert!(longest(&slow) < 2 * REDIS_TIMEOUT, "{:?}", longest(&slow));
    let is_counted =
        |(status, code, _): &Told| *status == 201 || ["unavailable", "busy"].contains(&code.as_str());
    assert!(slow.iter().all(is_counted), "{slow:?}");
}
