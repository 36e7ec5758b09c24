//! The peers really run: a second each, to see that they do what their figures claim, not how fast.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use penstock_bench::{
    host,
    load::{self, BuyerTape, LoadOptions, TapeCall, bearers, orders_path},
    peers::{
        mariadb::{HotRowForm, PeerMariaDb},
        nginx::{ConstantAnswer, PeerNginx, answer_size},
        redis::PeerRedis,
    },
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn mariadb_sells_from_a_hot_row_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let mariadb = PeerMariaDb::install(folder.path()).unwrap();
    for form in [HotRowForm::Procedure, HotRowForm::Statements] {
        // It checks by itself that the units gone are the orders made.
        let hot_row = mariadb.hot_row(form, None, SECOND, SECOND).unwrap();
        assert!(hot_row.orders_per_second > 0.0, "{hot_row:?}");
    }
}

#[test]
fn redis_decides_claims_by_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let redis = PeerRedis::install(folder.path()).unwrap();
    // The second run has a fresh folder and a core of its own for the client. It checks by itself that the
    // units gone are the buyers and the orders, and that nearly all claims were accepted.
    let last_core = host::cores().unwrap().last().copied();
    for (clients, core) in [(8, None), (50, last_core)] {
        let claims = redis.claim(clients, core, SECOND).unwrap();
        assert!(claims.accepted_per_second > 0.0 && claims.p50 > Duration::ZERO, "{claims:?}");
    }
}

#[test]
fn nginx_answers_every_order_with_the_wanted_size() {
    let folder = tempfile::tempdir().unwrap();
    let core = host::cores().unwrap()[0];
    let address = "127.0.0.1:1".parse().unwrap();
    let identity = &bearers(b"secret");
    let buyers = BuyerTape { address, identity, first_buyer: 0, buyers: u64::MAX, count: 1000 };
    let tape = buyers.build(&TapeCall::order(&orders_path("sale"))).unwrap();
    let request = tape.request(0).unwrap();
    let constant = ConstantAnswer { status: 409, content_type: "application/problem+json", total_bytes: 333 };
    let nginx = PeerNginx::start(folder.path(), core, request, constant).unwrap();
    assert_eq!(answer_size(nginx.address, request).unwrap(), 333);
    let outcome = load::run(&LoadOptions::new(nginx.address, 8), tape.once()).unwrap();
    assert_eq!((outcome.total.status(409), outcome.total.errors), (1000, 0));
    let worker = nginx.worker;
    assert!(host::cpu_seconds(worker).unwrap() >= 0.0);
    drop(nginx);
    assert!(host::cpu_seconds(worker).is_err(), "nginx's worker is still running");
}
