//! What a node looks at before it begins.

use std::process::Stdio;

use penstock_local::{RedisKind, free_address};

use crate::trial::{Trial, bare_command};

#[test]
fn a_redis_that_could_forget_is_refused_unless_that_is_allowed() {
    let mut trial = Trial::start_with(RedisKind::Single, |plan| (plan.nodes, plan.settlers) = (1, 0));
    let redis = trial.shop.redis.single().unwrap();
    let address = redis.address();
    redis.cli(&["CONFIG", "SET", "appendfsync", "everysec"]).unwrap();
    let listen = free_address().unwrap().to_string();
    let mut serve = bare_command();
    serve.args(["serve", "--listen", &listen, "--config"]).arg(trial.shop.configuration());
    let output = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it sells on a Redis that forgets: {said}");
    for part in [&format!("Redis {address} has appendfsync = everysec"), "Set appendfsync always"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.contains("redis.allow_unsafe"), "it says how to start nevertheless: {said}");
    assert!(!said.contains("panicked"), "{said}");

    let node = trial.shop.node(0).unwrap();
    node.stop().unwrap();
    node.set("PENSTOCK_REDIS__ALLOW_UNSAFE", "true");
    node.start().unwrap();
}
