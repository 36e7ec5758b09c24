//! What a node checks before it starts.

use std::process::Stdio;

use penstock_local::{RedisKind, ShopRedis, free_address};
use penstock_testkit::OfferTerms;
use serde_json::json;

use crate::trial::{Trial, bare_command, buyer, expect, look, must_buy, text, until};

/// The rights that the documentation gives Penstock's Redis user.
const RIGHTS: &str = "~* &* -@all +@string +@hash +@set +@sortedset +@list +@bitmap +@stream +@scripting +@connection \
                      +@pubsub +del +unlink +rename +exists +expire +pexpire +time +wait +info +config|get +cluster";

#[test]
fn a_redis_that_could_lose_data_is_refused_unless_that_is_allowed() {
    let mut trial = Trial::start_with(RedisKind::Single, |plan| (plan.nodes, plan.settlers) = (1, 0));
    let redis = trial.shop.redis.single().unwrap();
    let address = redis.address();
    redis.cli(&["CONFIG", "SET", "appendfsync", "everysec"]).unwrap();
    let listen = free_address().unwrap().to_string();
    let mut serve = bare_command();
    serve.args(["serve", "--listen", &listen, "--config"]).arg(trial.shop.configuration());
    let output = serve.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "it sells on a Redis that could lose data: {said}");
    for part in [&format!("Redis {address} has appendfsync = everysec"), "Set appendfsync always"] {
        assert!(said.contains(part), "{said}");
    }
    assert!(said.contains("redis.allow_unsafe"), "it says how to start anyway: {said}");
    assert!(!said.contains("panicked"), "{said}");

    let node = trial.shop.node(0).unwrap();
    node.stop().unwrap();
    node.set("PENSTOCK_REDIS__ALLOW_UNSAFE", "true");
    node.start().unwrap();
}

#[test]
fn nodes_start_and_sell_on_the_other_masters_while_one_is_silent() {
    let mut trial = Trial::start_with(RedisKind::Cluster, |plan| {
        (plan.nodes, plan.settlers) = (1, 0);
        plan.variables.push(("PENSTOCK_REDIS__WAIT_REPLICAS".to_owned(), "0".to_owned()));
    });
    let sales: Vec<String> = (0..12).map(|_| trial.publish(OfferTerms::default())).collect();
    let ShopRedis::Cluster(redis) = &mut trial.shop.redis else { panic!("no cluster") };
    // It is also the master that all nodes ask for the time. No replica can take over from it.
    let silent = redis.master_of("penstock:clock").unwrap();
    let elsewhere = sales.iter().find(|sale| redis.master_of(&format!("{{{sale}}}:sale")).unwrap() != silent);
    let elsewhere = elsewhere.unwrap().clone();
    let replicas = |number: &usize| redis.nodes()[*number].info("role").unwrap().contains("slave");
    let replicas: Vec<usize> = (0..redis.nodes().len()).filter(replicas).collect();
    for replica in replicas {
        redis.node(replica).unwrap().kill().unwrap();
    }
    redis.node(silent).unwrap().pause().unwrap();

    let node = trial.shop.node(0).unwrap();
    node.stop().unwrap();
    node.start().unwrap();
    must_buy(trial.node(0), &elsewhere, "ann", 1);
    let ShopRedis::Cluster(redis) = &mut trial.shop.redis else { panic!("no cluster") };
    redis.node(silent).unwrap().resume().unwrap();
}

#[test]
fn a_redis_user_with_the_documented_rights_can_do_everything_a_node_does() {
    let mut trial = Trial::start_with(RedisKind::Single, |plan| (plan.nodes, plan.settlers) = (1, 1));
    let redis = trial.shop.redis.single().unwrap();
    let mut user = vec!["ACL", "SETUSER", "penstock", "on", ">a-secret"];
    user.extend(RIGHTS.split_whitespace());
    assert_eq!(redis.cli(&user).unwrap().trim(), "OK");
    for is_settler in [false, true] {
        let shop = &mut trial.shop;
        let process = if is_settler { shop.settler(0) } else { shop.node(0) }.unwrap();
        process.stop().unwrap();
        process.set("PENSTOCK_REDIS__USERNAME", "penstock");
        process.set("PENSTOCK_REDIS__PASSWORD", "a-secret");
        process.start().unwrap();
    }

    let node = trial.node(0);
    let gate = json!({ "waiting_room": true });
    let sale = trial.merchant(0).publish_with(OfferTerms::default(), |sale| sale["gate"] = gate);
    until("the sale opens", || (look(node, &sale)?["state"] == "open").then_some(()));
    let path = |what: &str| format!("/api/v1/sales/{sale}/{what}");
    let ticket = buyer(node, "ann").post_nothing(&path("tickets")).unwrap();
    let turn = json!({ "ticket": text(&expect(201, &ticket)["ticket"]) });
    let pass = until("a pass", || {
        // The pause keeps Ann below her limit of requests.
        std::thread::sleep(std::time::Duration::from_millis(100));
        let answer = buyer(node, "ann").post(&path("pass"), &turn).unwrap();
        (answer.status == 201).then(|| text(&answer.json()["pass"]))
    });
    let headers = [("idempotency-key", "only"), ("penstock-pass", pass.as_str())];
    let order =
        buyer(node, "ann").send("POST", &path("orders"), &headers, Some(br#"{"quantity":1}"#)).unwrap();
    let order = text(&expect(201, &order)["id"]);
    expect(200, &buyer(node, "ann").post_nothing(&format!("/api/v1/orders/{order}/pay")).unwrap());

    // A sale that Redis has lost can be brought back, too.
    let paid = "SELECT COUNT(*) FROM orders WHERE state = 'paid'";
    until("settlement", || (trial.shop.mariadb.sql(paid).unwrap() == "1").then_some(()));
    trial.shop.redis.single().unwrap().cli(&["FLUSHALL"]).unwrap();
    let key = format!("{{{sale}}}:sale");
    until("the sale", || {
        let paid = trial.shop.redis.single().unwrap().cli(&["HGET", &key, "paid"]).unwrap();
        (paid.trim() == "1").then_some(())
    });
    let refused = trial.shop.redis.single().unwrap().cli(&["ACL", "LOG"]).unwrap();
    assert_eq!(refused.trim(), "", "a right is missing");
}
