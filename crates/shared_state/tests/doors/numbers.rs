//! Numbers of a waiting room, taken in blocks.

use std::collections::HashSet;

use penstock_shop::gate::DoorRefusal;

use super::*;

async fn take(node: &Arc<dyn Door>, people: usize, now: Timestamp) -> Vec<u64> {
    let taken = join_all((0..people).map(|_| node.take_number(now))).await;
    taken.into_iter().map(Result::unwrap).collect()
}

#[tokio::test]
async fn no_number_is_given_out_twice_and_a_hundred_people_cost_a_call() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    open_rooms(&nodes).await;
    let (before, now) = (shop.calls(), shop.now());
    let taken = join_all(nodes.iter().map(|node| take(node, 1_000, now))).await.concat();
    assert_eq!(taken.iter().collect::<HashSet<_>>().len(), 3_000);
    let calls = shop.calls() - before;
    assert!(calls <= 30, "{calls} calls for 3,000 tickets");
}

#[tokio::test]
async fn people_who_come_one_by_one_get_numbers_too() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    open_rooms(&nodes).await;
    let mut taken = HashSet::new();
    for person in 0..60 {
        shop.pass_millis(5);
        assert!(taken.insert(take(&nodes[person % 3], 1, shop.now()).await[0]));
    }
}

#[tokio::test]
async fn a_steady_stream_of_people_costs_a_call_per_hundred_before_and_after_the_opening() {
    let shop = Shop::open();
    let node = shop.node("a").await;
    open_rooms(std::slice::from_ref(&node)).await;
    for begins_at in [shop.now(), OPENS_AT] {
        shop.set(begins_at);
        let mut before = 0;
        for person in 0..2_000 {
            if person == 1_000 {
                before = shop.calls();
            }
            shop.pass_millis(1);
            take(&node, 1, shop.now()).await;
        }
        let calls = shop.calls() - before;
        assert!(calls <= 10, "{calls} calls for the second thousand");
    }
}

#[tokio::test]
async fn the_first_call_after_the_opening_decides_who_was_early() {
    let shop = Shop::open();
    let nodes = shop.nodes().await;
    let rooms = open_rooms(&nodes).await;
    // A busy node holds more numbers than people came.
    let mut early = Vec::new();
    for _ in 0..10 {
        shop.pass_millis(100);
        early.extend(take(&nodes[0], 30, shop.now()).await);
    }
    early.extend(take(&nodes[1], 7, shop.now()).await);
    shop.set(OPENS_AT);
    let late = join_all(nodes.iter().map(|node| take(node, 5, OPENS_AT))).await.concat();
    let count = until("the draw", || {
        tick(&nodes, status(0), OPENS_AT);
        rooms.iter().map(|room| room.draw().count).collect::<Option<Vec<u64>>>()
    })
    .await;
    assert!(count.iter().all(|other| *other == count[0]), "all nodes tell the same: {count:?}");
    assert!(early.iter().all(|number| *number < count[0]));
    assert!(late.iter().all(|number| *number >= count[0]), "{late:?} of {}", count[0]);
    assert!(early.iter().all(|number| rooms[0].place(*number) == rooms[2].place(*number)));
}

#[tokio::test]
async fn a_room_has_one_seed_whichever_node_opens_it_first() {
    let shop = Shop::open();
    let rooms = open_rooms(&shop.nodes().await).await;
    let commitments: HashSet<_> = rooms.iter().map(|room| room.draw().commitment).collect();
    assert_eq!(commitments.len(), 1);
}

#[tokio::test]
async fn without_redis_nobody_gets_a_number_and_with_it_everybody_does_again() {
    let mut shop = Shop::open();
    let node = shop.node("a").await;
    open_rooms(std::slice::from_ref(&node)).await;
    shop.redis.pause().unwrap();
    let refused = join_all((0..100).map(|_| node.take_number(shop.now()))).await;
    assert!(refused.iter().all(|refused| *refused == Err(DoorRefusal::Unavailable)), "{refused:?}");
    assert!(!node.has_numbers());
    shop.redis.resume().unwrap();
    node.tick(&|| Some(status(1)), shop.now());
    until("numbers", || node.has_numbers().then_some(())).await;
    assert!(node.take_number(shop.now()).await.is_ok());
}
