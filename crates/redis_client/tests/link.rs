//! The way to Redis, on real servers: what runs once, what is noticed in time, and what recovers by itself.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::time::{Duration, Instant};

use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Heard, Link, LinkError, RedisOptions, Script};
use redis::{Value, cmd, pipe};

const KEY: &str = "{sale}:sale";

fn server(folder: &tempfile::TempDir, settings: RedisSettings) -> RedisServer {
    RedisServer::start(folder.path(), settings).unwrap()
}

fn options(server: &RedisServer) -> RedisOptions {
    RedisOptions::single(server.address().to_string())
}

async fn get(link: &Link, key: &str) -> Result<Option<String>, LinkError> {
    let mut get = cmd("GET");
    get.arg(key);
    link.call(key, get).await
}

/// Repeats a call until the server is back. The link finds it without help.
async fn until_it_works(link: &Link, key: &str) {
    let limit = Instant::now() + Duration::from_secs(30);
    while let Err(error) = get(link, key).await {
        assert!(Instant::now() < limit, "{error}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn each_command_has_its_own_value_or_failure() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, RedisSettings::default());
    let link = Link::connect(options(&server)).await.unwrap();
    let mut commands = pipe();
    commands.cmd("SET").arg(KEY).arg("text").cmd("INCR").arg(KEY).cmd("GET").arg(KEY);
    let values = link.run(KEY, commands, true).await.unwrap();
    let [set, increased, got] = &values[..] else { panic!("{values:?}") };
    assert_eq!(*set, Value::Okay);
    assert!(matches!(increased, Value::ServerError(_)), "{increased:?}");
    assert_eq!(*got, Value::BulkString(b"text".to_vec()));
    assert_eq!(link.run(KEY, pipe(), true).await.unwrap(), []);
}

#[tokio::test]
async fn a_missing_script_is_loaded_and_only_its_calls_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let server = server(&folder, RedisSettings::default());
    let link = Link::connect(options(&server)).await.unwrap();
    let script = Script::new("return redis.call('INCRBY', KEYS[1], ARGV[1])");
    let unknown = link.call::<i64>(KEY, script.call().arg(1).arg(KEY).arg(1).clone()).await.unwrap_err();
    assert!(matches!(unknown, LinkError::Refused { .. }), "{unknown:?}");
    link.learn(&script);
    let mut commands = pipe();
    commands.cmd("INCR").arg("{sale}:plain");
    commands.add_command(script.call().arg(1).arg(KEY).arg(10).clone());
    let values = link.run(KEY, commands, false).await.unwrap();
    assert_eq!(values, [Value::Int(1), Value::Int(10)]);
    server.cli(&["SCRIPT", "FLUSH"]).unwrap();
    let again = link.call::<i64>(KEY, script.call().arg(1).arg(KEY).arg(10).clone()).await.unwrap();
    assert_eq!(again, 20);
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = server(&folder, RedisSettings::default());
    let link = Link::connect(options(&server)).await.unwrap();
    server.cli(&["SET", KEY, "kept"]).unwrap();
    server.kill().unwrap();
    let error = get(&link, KEY).await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { .. } | LinkError::Lost { .. }), "{error:?}");
    server.restart().unwrap();
    until_it_works(&link, KEY).await;
    assert_eq!(get(&link, KEY).await.unwrap().as_deref(), Some("kept"));
}

#[tokio::test]
async fn a_silent_server_is_given_up_in_time_and_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = server(&folder, RedisSettings::default());
    let link = Link::connect(options(&server)).await.unwrap();
    server.pause().unwrap();
    let error = get(&link, KEY).await.unwrap_err();
    assert!(matches!(error, LinkError::Lost { .. }), "{error:?}");
    let error = get(&link, KEY).await.unwrap_err();
    assert!(matches!(error, LinkError::Unreachable { .. }), "{error:?}");
    server.resume().unwrap();
    until_it_works(&link, KEY).await;
}

#[tokio::test]
async fn an_unconfirmed_write_is_an_error() {
    let folders = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let server = server(&folders.0, RedisSettings::default());
    let waiting = RedisOptions { wait_replicas: 1, wait_milliseconds: 100, ..options(&server) };
    let link = Link::connect(waiting.clone()).await.unwrap();
    let mut write = pipe();
    write.cmd("SET").arg(KEY).arg("x");
    let error = link.run(KEY, write.clone(), true).await.unwrap_err();
    assert_eq!(error, LinkError::Unconfirmed { confirmed: 0, wanted: 1 });
    link.run(KEY, write.clone(), false).await.unwrap();

    let settings = RedisSettings { replica_of: Some(server.address()), ..RedisSettings::default() };
    let mut replica = self::server(&folders.1, settings);
    let limit = Instant::now() + Duration::from_secs(30);
    while let Err(error) = link.run(KEY, write.clone(), true).await {
        assert!(Instant::now() < limit, "{error}");
    }
    replica.pause().unwrap();
    let error = link.run(KEY, write, true).await.unwrap_err();
    assert_eq!(error, LinkError::Unconfirmed { confirmed: 0, wanted: 1 });

    let too_long = RedisOptions { wait_milliseconds: 700, ..waiting };
    assert!(matches!(Link::connect(too_long).await, Err(LinkError::Misconfigured(_))));
}

#[tokio::test]
async fn a_server_that_could_lose_orders_is_refused_unless_allowed() {
    let folders = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let safe = server(&folders[0], RedisSettings::default());
    Link::connect(options(&safe)).await.unwrap().check_durability().await.unwrap();

    let settings = RedisSettings {
        appendfsync: "everysec",
        extra: vec!["maxmemory-policy allkeys-lru".into()],
        ..RedisSettings::default()
    };
    let careless = server(&folders[1], settings);
    let link = Link::connect(options(&careless)).await.unwrap();
    let Err(LinkError::Unsafe(text)) = link.check_durability().await else { panic!("it was not refused") };
    let address = careless.address();
    assert!(text.contains(&format!("Redis {address} has appendfsync = everysec")), "{text}");
    assert!(text.contains("Set appendfsync always."), "{text}");
    assert!(text.contains("maxmemory-policy = allkeys-lru"), "{text}");
    assert!(!text.contains("appendonly ="), "{text}");
    let allowed = RedisOptions { allow_unsafe: true, ..options(&careless) };
    Link::connect(allowed).await.unwrap().check_durability().await.unwrap();

    let settings =
        RedisSettings { appendonly: false, replica_of: Some(safe.address()), ..RedisSettings::default() };
    let replica = server(&folders[2], settings);
    let link = Link::connect(options(&safe)).await.unwrap();
    let Err(LinkError::Unsafe(text)) = link.check_durability().await else { panic!("it was not refused") };
    assert!(text.contains(&format!("Redis {} has appendonly = no", replica.address())), "{text}");
    // A replica may become master with the settings it has.
    for (setting, value) in [
        ("appendfsync", "everysec"),
        ("maxmemory-policy", "allkeys-lru"),
        ("no-appendfsync-on-rewrite", "yes"),
    ] {
        replica.cli(&["CONFIG", "SET", setting, value]).unwrap();
        let Err(LinkError::Unsafe(text)) = link.check_durability().await else { panic!("{setting}") };
        assert!(text.contains(&format!("Redis {} has {setting} = {value}", replica.address())), "{text}");
    }

    careless.cli(&["ACL", "SETUSER", "default", "-config"]).unwrap();
    let link = Link::connect(options(&careless)).await.unwrap();
    let Err(LinkError::Unsafe(text)) = link.check_durability().await else { panic!("it was not refused") };
    assert!(text.contains("Allow CONFIG GET"), "{text}");
}

#[tokio::test]
async fn a_protected_server_needs_the_right_password() {
    let folder = tempfile::tempdir().unwrap();
    let server =
        server(&folder, RedisSettings { password: Some("horse".into()), ..RedisSettings::default() });
    let refused = Link::connect(options(&server)).await.unwrap_err();
    assert!(matches!(refused, LinkError::Refused { .. }), "{refused:?}");
    let wrong = RedisOptions { password: Some("donkey".into()), ..options(&server) };
    let refused = Link::connect(wrong).await.unwrap_err();
    assert!(!format!("{refused:?} {refused}").contains("donkey"));
    let known = RedisOptions { password: Some("horse".into()), ..options(&server) };
    assert!(!format!("{known:?}").contains("horse"));
    Link::connect(known).await.unwrap();
}

#[tokio::test]
async fn a_follower_hears_again_after_a_restart_of_its_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = server(&folder, RedisSettings::default());
    let link = Link::connect(options(&server)).await.unwrap();
    let mut following = link.follow(&["penstock:news"]);
    assert_eq!(following.next().await, Heard::Joined);
    server.cli(&["PUBLISH", "penstock:news", "one"]).unwrap();
    assert_eq!(following.next().await, Heard::Message(("penstock:news".into(), b"one".to_vec())));
    server.kill().unwrap();
    server.restart().unwrap();
    assert_eq!(following.next().await, Heard::Joined);
    server.cli(&["PUBLISH", "penstock:news", "two"]).unwrap();
    assert_eq!(following.next().await, Heard::Message(("penstock:news".into(), b"two".to_vec())));
    server.pause().unwrap();
    let resumed = tokio::time::sleep(Duration::from_secs(3));
    tokio::select! {
        heard = following.next() => panic!("{heard:?} from a silent server"),
        () = resumed => server.resume().unwrap(),
    }
    assert_eq!(following.next().await, Heard::Joined);
}
