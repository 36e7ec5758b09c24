//! The way to Redis when masters die and slots move: the next call finds the new master without help.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use penstock_local::{RedisCluster, RedisSentinel};
use penstock_redis_client::{Heard, Link, LinkError, RedisMode, RedisOptions, Script};
use redis::{Value, cmd, pipe};

const KEY: &str = "{sale}:sale";

fn texts(addresses: Vec<SocketAddr>) -> Vec<String> {
    addresses.iter().map(SocketAddr::to_string).collect()
}

fn options(mode: RedisMode) -> RedisOptions {
    RedisOptions { mode, wait_replicas: 1, wait_milliseconds: 400, ..RedisOptions::default() }
}

fn sentinel_options(sentinels: &RedisSentinel) -> RedisOptions {
    let (addresses, master) = (texts(sentinels.addresses()), sentinels.master_name().into());
    options(RedisMode::Sentinel { addresses, master })
}

fn cluster_options(cluster: &RedisCluster) -> RedisOptions {
    options(RedisMode::Cluster { addresses: texts(cluster.addresses()) })
}

/// Retries counting up from `before` until it works, and returns the new count. Each call that failed after
/// it was sent may have counted once; no other may.
async fn count_up(link: &Link, key: &str, confirm: bool, before: i64) -> i64 {
    let limit = Instant::now() + Duration::from_secs(60);
    let mut in_doubt = 0;
    loop {
        let mut pipeline = pipe();
        pipeline.cmd("INCR").arg(key);
        match link.run(key, pipeline, confirm).await {
            Ok(values) => {
                let [Value::Int(count)] = values[..] else { panic!("{values:?}") };
                let possible = before + 1..=before + 1 + in_doubt;
                assert!(possible.contains(&count), "{key} is {count}, which is not in {possible:?}");
                return count;
            }
            Err(error) => {
                assert!(Instant::now() < limit, "{error}");
                let was_sent = matches!(error, LinkError::Lost { .. } | LinkError::Unconfirmed { .. });
                in_doubt += i64::from(was_sent);
            }
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn a_master_that_sentinels_have_chosen_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let mut sentinels = RedisSentinel::start(folder.path(), 2).unwrap();
    let link = Link::connect(sentinel_options(&sentinels)).await.unwrap();
    link.check_durability().await.unwrap();
    let mut following = link.follow(&["news"]);
    assert_eq!(following.next().await, Heard::Joined);
    let count = count_up(&link, KEY, true, 0).await;
    let former = sentinels.master().unwrap();
    sentinels.server(former).unwrap().kill().unwrap();
    let failed = link.call::<i64>(KEY, cmd("GET").arg(KEY).clone()).await.unwrap_err();
    assert!(matches!(failed, LinkError::Unreachable { .. } | LinkError::Lost { .. }), "{failed:?}");
    sentinels.wait_for_failover(former).unwrap();
    count_up(&link, KEY, true, count).await;
    assert_eq!(following.next().await, Heard::Joined);
    link.call::<i64>(KEY, cmd("PUBLISH").arg("news").arg("x").clone()).await.unwrap();
    assert_eq!(following.next().await, Heard::Message(("news".into(), b"x".to_vec())));
}

#[tokio::test]
async fn each_key_goes_to_its_master_and_a_dead_one_stops_no_other() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = RedisCluster::start(folder.path(), 3, 3).unwrap();
    let link = Link::connect(cluster_options(&cluster)).await.unwrap();
    link.check_durability().await.unwrap();
    let script = Script::new("return redis.call('INCR', KEYS[1])");
    link.learn(&script);
    let keys: Vec<String> = (0..30).map(|number| format!("{{sale{number}}}:sale")).collect();
    let masters: Vec<usize> = keys.iter().map(|key| cluster.master_of(key).unwrap()).collect();
    let mut counts = Vec::new();
    for key in &keys {
        assert_eq!(link.call::<i64>(key, script.call().arg(1).arg(key).clone()).await.unwrap(), 1);
        // Its replica has it, too.
        counts.push(count_up(&link, key, true, 1).await);
    }
    let former = masters[0];
    let keys_at = |is_former: bool| {
        (0..keys.len()).filter(|place| (masters[*place] == former) == is_former).collect::<Vec<_>>()
    };
    cluster.node(former).unwrap().kill().unwrap();
    for place in keys_at(false) {
        count_up(&link, &keys[place], true, counts[place]).await;
    }
    cluster.wait_for_failover(&keys[0], former).unwrap();
    // The new master has no replica, so none of its writes are confirmed.
    for place in keys_at(true) {
        let key = &keys[place];
        count_up(&link, key, false, counts[place]).await;
        let unconfirmed = {
            let mut pipeline = pipe();
            pipeline.cmd("INCR").arg(key);
            link.run(key, pipeline, true).await.unwrap_err()
        };
        assert_eq!(unconfirmed, LinkError::Unconfirmed { confirmed: 0, wanted: 1 });
    }
    cluster.node(former).unwrap().restart().unwrap();
    let count = link.call::<i64>(&keys[0], cmd("GET").arg(&keys[0]).clone()).await.unwrap();
    count_up(&link, &keys[0], true, count).await;
}

#[tokio::test]
async fn a_moving_slot_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RedisCluster::start(folder.path(), 3, 0).unwrap();
    let options = RedisOptions { wait_replicas: 0, ..cluster_options(&cluster) };
    let link = Link::connect(options).await.unwrap();
    let (old, new) = ("{sale}:old", "{sale}:new");
    let (mut old_count, mut new_count) = (count_up(&link, old, false, 0).await, 0);
    let from = cluster.master_of(old).unwrap();
    let to = (from + 1) % 3;
    let slot = cluster.nodes()[0].cli(&["CLUSTER", "KEYSLOT", old]).unwrap();
    let id = |node: usize| cluster.nodes()[node].cli(&["CLUSTER", "MYID"]).unwrap();
    cluster.nodes()[to].cli(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &id(from)]).unwrap();
    cluster.nodes()[from].cli(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &id(to)]).unwrap();
    // The old server answers for keys that it still has, the new one for the others.
    old_count = count_up(&link, old, false, old_count).await;
    new_count = count_up(&link, new, false, new_count).await;
    let port = cluster.nodes()[to].address().port().to_string();
    cluster.nodes()[from].cli(&["MIGRATE", "127.0.0.1", &port, old, "0", "5000"]).unwrap();
    old_count = count_up(&link, old, false, old_count).await;
    for node in [to, from, (from + 2) % 3] {
        cluster.nodes()[node].cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id(to)]).unwrap();
    }
    count_up(&link, old, false, old_count).await;
    count_up(&link, new, false, new_count).await;
}

#[tokio::test]
async fn a_follower_in_a_cluster_changes_servers_when_one_dies() {
    let folder = tempfile::tempdir().unwrap();
    let mut cluster = RedisCluster::start(folder.path(), 3, 3).unwrap();
    let link = Link::connect(cluster_options(&cluster)).await.unwrap();
    let mut following = link.follow(&["news"]);
    assert_eq!(following.next().await, Heard::Joined);
    let listened = (0..6).find(|node| {
        let channels = cluster.nodes()[*node].cli(&["PUBSUB", "CHANNELS"]);
        channels.is_ok_and(|channels| channels.contains("news"))
    });
    let listened = listened.unwrap();
    cluster.node(listened).unwrap().kill().unwrap();
    assert_eq!(following.next().await, Heard::Joined);
    let other = (0..6).find(|node| *node != listened).unwrap();
    // A message crosses the cluster once its nodes have noticed the dead one.
    cluster.nodes()[other].cli(&["PUBLISH", "news", "x"]).unwrap();
    assert_eq!(following.next().await, Heard::Message(("news".into(), b"x".to_vec())));
}
