//! Several Redis servers together: a replica takes over from a lost master, and a master that comes back
//! follows.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::net::SocketAddr;

use penstock_local::{RedisCluster, RedisSentinel, RedisServer};

fn wait_until_follows(server: &mut RedisServer, master: SocketAddr) {
    let port = master.port().to_string();
    let says =
        |server: &RedisServer, field: &str, value: &str| server.info(field).is_ok_and(|found| found == value);
    let follows =
        |server: &RedisServer| says(server, "master_port", &port) && says(server, "master_link_status", "up");
    server.wait_until(follows).unwrap();
}

#[test]
fn sentinels_promote_a_replica_when_the_master_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = RedisSentinel::start(folder.path(), 1).unwrap();
    assert_eq!((redis.addresses().len(), redis.master_name()), (3, "penstock"));
    assert_eq!(redis.master(), Some(0));
    redis.servers()[0].cli(&["SET", "stock", "200"]).unwrap();
    let has_it = |replica: &RedisServer| replica.cli(&["GET", "stock"]).unwrap() == "200";
    redis.server(1).unwrap().wait_until(has_it).unwrap();
    redis.server(0).unwrap().kill().unwrap();
    assert_eq!(redis.wait_for_failover(0).unwrap(), 1);
    assert_eq!(redis.servers()[1].cli(&["INCR", "stock"]).unwrap(), "201");
    redis.server(0).unwrap().restart().unwrap();
    let master = redis.servers()[1].address();
    wait_until_follows(redis.server(0).unwrap(), master);
    assert_eq!(redis.servers()[0].cli(&["GET", "stock"]).unwrap(), "201");
}

#[test]
fn a_cluster_gives_the_slots_of_a_killed_master_to_its_replica() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = RedisCluster::start(folder.path(), 3, 3).unwrap();
    assert_eq!(redis.addresses().len(), 6);
    let key = "{stock}:units";
    let former = redis.master_of(key).unwrap();
    assert_eq!(redis.master_of("{stock}:sale").unwrap(), former);
    assert!(former < 3);
    redis.nodes()[former].cli(&["SET", key, "200"]).unwrap();
    let has_it = |replica: &RedisServer| replica.cli(&["DBSIZE"]).unwrap() == "1";
    redis.node(former + 3).unwrap().wait_until(has_it).unwrap();
    redis.node(former).unwrap().kill().unwrap();
    let master = redis.wait_for_failover(key, former).unwrap();
    assert_eq!(master, former + 3, "its replica");
    assert_eq!(redis.nodes()[master].cli(&["INCR", key]).unwrap(), "201");
    redis.node(former).unwrap().restart().unwrap();
    let address = redis.nodes()[master].address();
    wait_until_follows(redis.node(former).unwrap(), address);
    assert_eq!(redis.master_of(key).unwrap(), master);
}
