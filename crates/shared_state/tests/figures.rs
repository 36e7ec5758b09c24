//! Shared figures on a real Redis: an entry that is not refreshed is seen to age, and is then forgotten.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::Duration;

use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};
use penstock_shared_state::RedisFigures;
use penstock_shop::ports::{SharedFigures as _, Shown};
use tempfile::TempDir;
use tokio::time::sleep;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(600);
const SHORT: Duration = Duration::from_millis(50);

struct Stage {
    server: RedisServer,
    _folder: TempDir,
}

impl Stage {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        Self { server, _folder: folder }
    }

    async fn figures(&self) -> RedisFigures {
        let options = RedisOptions::single(self.server.address().to_string());
        RedisFigures::new(Link::connect(options).await.unwrap(), "shop:")
    }
}

fn find<'a>(shown: &'a [Shown], name: &str) -> Option<&'a Shown> {
    shown.iter().find(|shown| shown.name == name)
}

#[tokio::test]
async fn every_node_sees_the_latest_figures_of_every_node() {
    let stage = Stage::new();
    let (here, there) = (stage.figures().await, stage.figures().await);
    assert_eq!(here.all().await.unwrap(), []);
    here.put("a", b"old".to_vec(), LONG).await.unwrap();
    here.put("a", vec![0, 255, 10], LONG).await.unwrap();
    there.put("b", b"{}".to_vec(), LONG).await.unwrap();
    let shown = there.all().await.unwrap();
    assert_eq!(shown.len(), 2);
    assert_eq!(find(&shown, "a").unwrap().figures, [0, 255, 10]);
    assert_eq!(find(&shown, "b").unwrap().figures, b"{}");
    let age = find(&shown, "a").unwrap().age;
    sleep(SHORT).await;
    let later = there.all().await.unwrap();
    assert!(find(&later, "a").unwrap().age >= age + SHORT / 2, "the entry of a silent node grows old");
}

#[tokio::test]
async fn an_entry_that_is_not_refreshed_is_forgotten_with_others_or_alone() {
    let stage = Stage::new();
    let figures = stage.figures().await;
    figures.put("gone", b"x".to_vec(), SHORT).await.unwrap();
    sleep(SHORT * 2).await;
    figures.put("here", b"y".to_vec(), SHORT).await.unwrap();
    let shown = figures.all().await.unwrap();
    assert!(find(&shown, "gone").is_none(), "{shown:?}");
    sleep(SHORT * 2).await;
    assert_eq!(figures.all().await.unwrap(), []);
    assert_eq!(stage.server.cli(&["KEYS", "*"]).unwrap().trim(), "", "nothing is left behind");
}

#[tokio::test]
async fn an_unreachable_redis_is_an_error() {
    let mut stage = Stage::new();
    let figures = stage.figures().await;
    stage.server.kill().unwrap();
    assert!(figures.put("a", Vec::new(), LONG).await.is_err());
    assert!(figures.all().await.is_err());
}
