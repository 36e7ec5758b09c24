//! The clock that all nodes share, on a real server.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{sync::Arc, time::Instant};

use penstock_domain::Timestamp;
use penstock_ledger::{Clock, redis::SharedClock};
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};

#[tokio::test]
async fn nodes_with_wrong_clocks_agree_on_the_time_of_redis() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
    let off_by = |milliseconds: i64| -> Clock {
        let started = Instant::now();
        Arc::new(move || {
            Timestamp::from_millis(milliseconds).plus_millis(started.elapsed().as_millis() as i64)
        })
    };
    let early = SharedClock::start(&link, off_by(1_000)).await.unwrap();
    let late = SharedClock::start(&link, off_by(4_000_000_000_000)).await.unwrap();
    let told = server.cli(&["TIME"]).unwrap();
    let seconds: i64 = told.lines().next().unwrap().parse().unwrap();
    for clock in [early.clock(), late.clock()] {
        let now = clock().as_millis();
        // A slow machine may take long to compare. A clock that was not corrected is off by years.
        assert!((seconds * 1_000 - 1_000..seconds * 1_000 + 60_000).contains(&now), "{now} at {seconds}");
    }
}
