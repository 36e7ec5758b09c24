//! Clients that hold connections: a newcomer gets the place of one that is idle, stalled or does not read.

use std::{
    io::{Read as _, Write as _},
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use penstock_testkit::{Merchant, OfferTerms, Penstock, buyer_token};

use crate::{BINARY, Greedy, PATIENCE, alone, ended, get, server};

/// A client that does not read counts as such after five seconds.
const MAX_WAIT_FOR_PLACE: Duration = Duration::from_secs(15);

/// How long a newcomer waits for an order while others hold all places, send these requests again and again,
/// and never read. Their connections are ended for the reason `end`.
fn newcomer_beside(requests: &str, end: &str) -> Duration {
    const ALLOWED: usize = 200;
    // Enough time and memory that no connection is cut for other reasons.
    let mut penstock = Penstock::new(BINARY)
        .with("PENSTOCK_HTTP__MAX_CONNECTIONS", ALLOWED)
        .with("PENSTOCK_HTTP__REQUEST_SECONDS", 600)
        .with("PENSTOCK_HTTP__MAX_UNREAD_MEBIBYTES", 256);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000, ..OfferTerms::default() });
    let greedy = Greedy::attack(penstock.address(), ALLOWED + 30, requests.replace("SALE", &sale));
    // Until all places are taken, and their holders have done nothing for long enough.
    thread::sleep(Duration::from_secs(7));
    let mut longest = Duration::ZERO;
    for number in 0..5 {
        let began = Instant::now();
        let name = format!("newcomer-{number}");
        let mut newcomer = penstock.client().with_timeout(PATIENCE).with_token(&buyer_token(&name));
        assert_eq!(newcomer.claim(&sale, 1, &name).unwrap().status, 201);
        longest = longest.max(began.elapsed());
    }
    drop(greedy);
    assert!(ended(&penstock, end) > 0, "no connection made room");
    longest
}

#[test]
fn a_newcomer_gets_the_place_of_a_client_whose_request_stalls() {
    let _alone = alone();
    let waited = newcomer_beside("G", "slow");
    assert!(waited < MAX_WAIT_FOR_PLACE, "a newcomer waited for {waited:?}");
}

#[test]
fn a_newcomer_gets_the_place_of_a_client_that_does_not_read() {
    let _alone = alone();
    let waited = newcomer_beside(&get("/api/v1/sales/SALE").repeat(600), "unread");
    assert!(waited < MAX_WAIT_FOR_PLACE, "a newcomer waited for {waited:?}");
}

#[test]
fn a_newcomer_gets_the_place_of_the_connection_idle_for_longest() {
    const ALLOWED: usize = 200;
    let _alone = alone();
    let mut penstock = server()
        .with("PENSTOCK_HTTP__MAX_CONNECTIONS", ALLOWED)
        // A single list, so that it is known which connection was idle for longest.
        .with("PENSTOCK_HTTP__WORKERS", 1);
    penstock.start().unwrap();
    let sale = Merchant::of(&penstock).publish(OfferTerms { units: 1_000, ..OfferTerms::default() });
    let connect = || TcpStream::connect(penstock.address()).unwrap();
    // Both began before all others. One waits for events, so a request is under way; the other has made a
    // request in the meantime.
    let mut watching = connect();
    let head = "GET /api/v1/admin/live HTTP/1.1\r\nhost: x\r\nauthorization: Bearer admin-token-for-tests-only\r\n\r\n";
    watching.write_all(head.as_bytes()).unwrap();
    watching.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(watching.read(&mut [0; 4096]).unwrap() > 0);
    let mut idle: Vec<TcpStream> = (0..ALLOWED + 30).map(|_| connect()).collect();
    let began = Instant::now();
    let mut newcomer = penstock.client().with_timeout(PATIENCE).with_token(&buyer_token("newcomer"));
    assert_eq!(newcomer.claim(&sale, 1, "newcomer").unwrap().status, 201);
    assert!(began.elapsed() < Duration::from_secs(20), "the newcomer waited for {:?}", began.elapsed());
    let displaced = ended(&penstock, "displaced");
    assert!((31..=60).contains(&displaced), "{displaced} were displaced");
    // The first connections are gone, and the last ones are not.
    for stream in &mut idle[..20] {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        assert!(matches!(stream.read(&mut [0]), Ok(0) | Err(_)), "was not displaced");
    }
    let last = idle.last_mut().unwrap();
    last.write_all(get("/healthz").as_bytes()).unwrap();
    last.set_read_timeout(Some(PATIENCE)).unwrap();
    assert!(last.read(&mut [0; 4096]).unwrap() > 0);
    assert!(watching.read(&mut [0; 4096]).unwrap() > 0, "a client that waits for events is not idle");
}
