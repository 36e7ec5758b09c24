//! The peers really run: a second of each, to see that they do what their figures say, not how fast.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::Duration;

use penstock_rush::{
    host,
    load::{self, Options, OrderTape},
    peers::{
        mariadb::{Form, MariaDb},
        nginx::{Nginx, answer_size},
    },
};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn mariadb_sells_from_a_hot_row_in_both_forms() {
    let folder = tempfile::tempdir().unwrap();
    let mariadb = MariaDb::install(folder.path()).unwrap();
    for form in [Form::Procedure, Form::Statements] {
        // It checks itself that the units gone are the orders made.
        let hot_row = mariadb.hot_row(form, SECOND, SECOND).unwrap();
        assert!(hot_row.orders_per_second > 0.0, "{hot_row:?}");
    }
}

#[test]
fn nginx_refuses_every_order_with_an_answer_of_the_wanted_size() {
    let folder = tempfile::tempdir().unwrap();
    let core = host::cores().unwrap()[0];
    let address = "127.0.0.1:1".parse().unwrap();
    let tape =
        OrderTape { address, sale: "sale", secret: b"secret", first_buyer: 0, count: 1000 }.build().unwrap();
    let request = tape.request(0).unwrap();
    let nginx = Nginx::start(folder.path(), core, request, 333).unwrap();
    assert_eq!(answer_size(nginx.address, request).unwrap(), 333);
    let outcome = load::run(&Options::new(nginx.address, 8), tape.readers(1, false), |_| {}).unwrap();
    assert_eq!((outcome.total.status(409), outcome.total.errors), (1000, 0));
    let worker = nginx.worker;
    assert!(host::cpu_seconds(worker).unwrap() >= 0.0);
    drop(nginx);
    assert!(host::cpu_seconds(worker).is_err(), "nginx's worker outlives it");
}
