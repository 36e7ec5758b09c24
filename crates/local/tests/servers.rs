//! Redis and MariaDB alone: they start, answer, keep their data when they are killed, and start again.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    net::TcpStream,
    path::Path,
    time::{Duration, Instant},
};

use penstock_local::{MariaDb, RedisServer, RedisSettings, accepts};

#[test]
fn redis_keeps_what_it_answered_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let address = redis.address();
    assert_eq!(redis.cli(&["SET", "stock", "200"]).unwrap(), "OK");
    redis.kill().unwrap();
    assert!(!redis.is_running() && !accepts(address));
    assert!(redis.cli(&["PING"]).is_err());
    redis.restart().unwrap();
    assert_eq!(redis.address(), address);
    assert_eq!(redis.cli(&["GET", "stock"]).unwrap(), "200");
    let policy = redis.cli(&["CONFIG", "GET", "maxmemory-policy"]).unwrap();
    assert_eq!(policy, "maxmemory-policy\nnoeviction");
}

#[test]
fn a_replica_follows_its_master_and_both_require_the_password() {
    let folder = tempfile::tempdir().unwrap();
    let settings = RedisSettings { password: Some("a \"secret\"".to_owned()), ..RedisSettings::default() };
    let master = RedisServer::start(&folder.path().join("master"), settings.clone()).unwrap();
    let settings = RedisSettings { replica_of: Some(master.address()), ..settings };
    let mut replica = RedisServer::start(&folder.path().join("replica"), settings).unwrap();
    master.cli(&["SET", "stock", "200"]).unwrap();
    replica.wait_until(|replica| replica.cli(&["GET", "stock"]).unwrap() == "200").unwrap();
    assert_eq!(master.info("connected_slaves").unwrap(), "1");
    assert_eq!(replica.info("role").unwrap(), "slave");
    assert!(redis_without_password(&master).is_err());
}

fn redis_without_password(server: &RedisServer) -> anyhow::Result<String> {
    let port = server.address().port().to_string();
    penstock_local::output(std::process::Command::new("redis-cli").args(["-e", "-p", &port, "GET", "stock"]))
}

#[test]
fn a_paused_redis_answers_when_it_goes_on() {
    use std::io::{ErrorKind, Read, Write};
    let folder = tempfile::tempdir().unwrap();
    let mut redis = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let mut connection = TcpStream::connect(redis.address()).unwrap();
    redis.pause().unwrap();
    connection.write_all(b"PING\r\n").unwrap();
    connection.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let mut answer = [0; 7];
    assert_eq!(connection.read(&mut answer).unwrap_err().kind(), ErrorKind::WouldBlock);
    redis.resume().unwrap();
    connection.set_read_timeout(None).unwrap();
    connection.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+PONG\r\n");
}

#[test]
fn a_server_ends_when_its_value_is_dropped_even_if_it_is_paused() {
    let folder = tempfile::tempdir().unwrap();
    let mut redis = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let process = redis.process_id().unwrap();
    redis.pause().unwrap();
    let started = Instant::now();
    drop(redis);
    assert!(!Path::new(&format!("/proc/{process}")).exists(), "after {:?}", started.elapsed());
}

#[test]
fn an_unknown_setting_is_an_error_that_shows_the_log() {
    let folder = tempfile::tempdir().unwrap();
    let settings = RedisSettings { extra: vec!["no-such-setting 1".to_owned()], ..RedisSettings::default() };
    let error = RedisServer::start(folder.path(), settings).unwrap_err();
    assert!(error.to_string().contains("no-such-setting"), "{error}");
}

#[test]
fn mariadb_keeps_what_it_committed_when_it_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let mut mariadb = MariaDb::start(folder.path()).unwrap();
    let url = mariadb.url();
    assert!(url.starts_with("mysql://") && url.ends_with(&format!("@{}/penstock", mariadb.address())));
    let collation = mariadb.sql("SELECT @@character_set_database, @@collation_database").unwrap();
    assert_eq!(collation, "utf8mb4\tutf8mb4_nopad_bin");
    mariadb.sql("CREATE TABLE stock (units INT); INSERT INTO stock VALUES (200)").unwrap();
    mariadb.kill().unwrap();
    assert!(!accepts(mariadb.address()) && mariadb.sql("SELECT 1").is_err());
    mariadb.start_again().unwrap();
    assert_eq!(mariadb.url(), url);
    assert_eq!(mariadb.sql("SELECT units FROM stock").unwrap(), "200");
    let other = mariadb.create_database("another").unwrap();
    assert!(other.ends_with("/another"), "{other}");
    mariadb.stop().unwrap();
    mariadb.start_again().unwrap();
    assert_eq!(mariadb.sql("SELECT COUNT(*) FROM another.stock").ok(), None, "it is another database");
}
