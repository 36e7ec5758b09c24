//! The peers really run: a second each, to see that they do what their figures claim, not how fast.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use penstock_rush::{
    host,
    load::{self, Options, OrderTape},
    peers::{
        mariadb::{Form, MariaDb},
        nginx::{Constant, Nginx, answer_size},
        redis::Redis,
    },
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn mariadb_sells_from_a_hot_row_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::install(folder.path()).unwrap();
    for form in [Form::Procedure, Form::Statements] {
        // It checks by itself that the units gone are the orders made.
        let hot_row = mariadb.hot_row(form, None, SECOND, SECOND).unwrap();
        assert!(hot_row.orders_per_second > 0.0, "{hot_row:?}");
    }
}

#[test]
fn redis_decides_claims_by_a_script() {
    let folder = tempfile::tempdir().unwrap();
    let redis = Redis::install(folder.path()).unwrap();
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
    let tape =
        OrderTape { address, sale: "sale", secret: b"secret", first_buyer: 0, count: 1000 }.build().unwrap();
    let request = tape.request(0).unwrap();
    let constant = Constant { status: 409, content_type: "application/problem+json", total_bytes: 333 };
    let nginx = Nginx::start(folder.path(), core, request, constant).unwrap();
    assert_eq!(answer_size(nginx.address, request).unwrap(), 333);
    let outcome = load::run(&Options::new(nginx.address, 8), tape.readers(1, false), |_| {}).unwrap();
    assert_eq!((outcome.total.status(409), outcome.total.errors), (1000, 0));
    let worker = nginx.worker;
    assert!(host::cpu_seconds(worker).unwrap() >= 0.0);
    drop(nginx);
    assert!(host::cpu_seconds(worker).is_err(), "nginx's worker is still running");
}
