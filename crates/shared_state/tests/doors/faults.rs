//! Doors when Redis loses its data, or when a write is not confirmed.

use std::collections::HashSet;

use penstock_shop::gate::DoorRefusal;

use super::*;

/// Takes `people` numbers from each node.
async fn take_everywhere(shop: &Shop, nodes: &[Arc<dyn Door>], people: usize) -> Vec<u64> {
    let mut taken = Vec::new();
    for node in nodes {
        for _ in 0..people {
            taken.push(take_patiently(shop, node).await);
        }
    }
    taken
}

async fn take_patiently(shop: &Shop, node: &Arc<dyn Door>) -> u64 {
    let began = Instant::now();
    loop {
        let _ = node.tick(&|| Some(status(5)), shop.now());
        if let Ok(number) = node.take_number(shop.now()).await {
            return number;
        }
        assert!(began.elapsed() < Duration::from_secs(30), "no number came");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn a_room_that_redis_lost_comes_back_with_its_seed_and_gives_no_number_twice() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    let rooms = open_rooms(&nodes).await;
    look_first(&nodes, shop.now()).await;
    let early = take_everywhere(&shop, &nodes, 5).await;
    shop.set(OPENS_AT);
    let ask =
        |numbers: &[u64]| numbers.iter().for_each(|number| rooms[1].heard(*number, rooms[1].place(*number)));
    until("the first turns", || {
        shop.pass_millis(2);
        ask(&early);
        tick(&nodes, status(5), shop.now());
        rooms.iter().all(|room| room.figures().let_in >= 5).then_some(())
    })
    .await;
    let places: Vec<_> = early.iter().map(|number| rooms[0].place(*number)).collect();
    shop.redis.cli(&["FLUSHALL"]).unwrap();
    let late = take_everywhere(&shop, &nodes, 5).await;
    let given: HashSet<u64> = early.iter().chain(&late).copied().collect();
    assert_eq!(given.len(), 30, "{early:?} and then {late:?}");
    // Turns go on from where they were, for everybody who came before and after.
    until("everybody's turn", || {
        shop.pass_millis(2);
        ask(&late);
        ask(&early);
        tick(&nodes, status(1_000), shop.now());
        let last = late.iter().max().unwrap();
        rooms.iter().all(|room| room.figures().admitted > *last).then_some(())
    })
    .await;
    let newcomer = shop.node("d").await;
    let room = newcomer.open_room(Some(OPENS_AT), &Archive::default()).await.unwrap();
    until("the view", || {
        tick(std::slice::from_ref(&newcomer), status(1_000), shop.now());
        room.draw().count
    })
    .await;
    assert_eq!(room.draw(), rooms[0].draw());
    assert_eq!(places, early.iter().map(|number| room.place(*number)).collect::<Vec<_>>());
}

#[tokio::test]
async fn nodes_that_all_restart_on_a_wiped_redis_go_on_from_the_archive() {
    let shop = Shop::open();
    let archive = Archive::default();
    let before = shop.node("a").await;
    let room = open_rooms_by(&archive, std::slice::from_ref(&before)).await.remove(0);
    let given: HashSet<u64> =
        take_everywhere(&shop, std::slice::from_ref(&before), 20).await.into_iter().collect();
    let commitment = room.draw().commitment;
    // The records heard of these numbers a moment ago.
    archive.0.lock().unwrap().as_mut().unwrap().issued = 18;
    drop((before, room));
    shop.redis.cli(&["FLUSHALL"]).unwrap();
    let nodes = [shop.node("b").await, shop.node("c").await];
    let rooms = open_rooms_by(&archive, &nodes).await;
    assert!(rooms.iter().all(|room| room.draw().commitment == commitment), "the promise is kept");
    let after = take_everywhere(&shop, &nodes, 20).await;
    assert!(after.iter().all(|number| !given.contains(number)), "{given:?} and then {after:?}");
}

#[tokio::test]
async fn a_room_that_differs_from_the_archive_is_not_opened() {
    let shop = Shop::open();
    open_rooms(&[shop.node("a").await]).await;
    let archive = Archive::default();
    *archive.0.lock().unwrap() = Some(StoredRoom { seed: [9; 32], issued: 0, early: None });
    let opened = shop.node("b").await.open_room(Some(OPENS_AT), &archive).await;
    assert!(opened.unwrap_err().to_string().contains("another seed"));
}

#[tokio::test]
async fn a_node_takes_no_part_in_a_room_that_has_another_seed() {
    let shop = Shop::open();
    let node = shop.node("a").await;
    open_rooms(std::slice::from_ref(&node)).await;
    assert!(node.take_number(shop.now()).await.is_ok());
    shop.redis.cli(&["HSET", &key("room"), "seed", &"x".repeat(32)]).unwrap();
    until("the node to notice", || {
        let _ = node.tick(&|| Some(status(5)), shop.now());
        (!node.has_numbers()).then_some(())
    })
    .await;
    let next = shop.redis.cli(&["HGET", &key("room"), "next"]).unwrap();
    assert_eq!(node.take_number(shop.now()).await, Err(DoorRefusal::Unavailable));
    assert_eq!(shop.redis.cli(&["HGET", &key("room"), "next"]).unwrap(), next);
}

#[tokio::test]
async fn a_replica_that_is_away_costs_no_numbers() {
    let shop = Shop::open();
    let folder = tempfile::tempdir().unwrap();
    let settings = RedisSettings { replica_of: Some(shop.redis.address()), ..RedisSettings::default() };
    let mut replica = RedisServer::start(folder.path(), settings).unwrap();
    let single = RedisOptions::single(shop.redis.address().to_string());
    let node = node_on(RedisOptions { wait_replicas: 1, ..single }, "a", &shop.millis).await;
    until("the replica", || replica.info("master_link_status").ok().filter(|status| status.trim() == "up"))
        .await;
    open_rooms(std::slice::from_ref(&node)).await;
    assert_eq!(take_patiently(&shop, &node).await, 0);
    replica.pause().unwrap();
    for _ in 0..10 {
        assert_eq!(node.take_number(shop.now()).await, Err(DoorRefusal::Unavailable));
        assert!(!node.has_numbers(), "people hear of it before it costs them anything");
    }
    let next: u64 = shop.redis.cli(&["HGET", &key("room"), "next"]).unwrap().parse().unwrap();
    assert!(next <= 2, "{next} numbers for one person");
    replica.resume().unwrap();
    until("numbers", || node.has_numbers().then_some(())).await;
    // The unconfirmed block was not lost.
    assert_eq!(take_patiently(&shop, &node).await, 1);
}
