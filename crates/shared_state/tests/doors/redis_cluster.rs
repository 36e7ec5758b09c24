//! A Redis Cluster keeps everything of a sale's door on one of its servers.

use penstock_local::RedisCluster;
use penstock_redis_client::RedisMode;

use super::*;

#[tokio::test]
async fn a_door_works_on_a_redis_cluster() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = RedisCluster::start(folder.path(), 3, 0).unwrap();
    let addresses: Vec<String> = cluster.addresses().iter().map(ToString::to_string).collect();
    let servers = RedisOptions { mode: RedisMode::Cluster { addresses }, ..RedisOptions::default() };
    let millis = Arc::new(AtomicI64::new(OPENS_AT.as_millis()));
    let nodes = [node_on(servers.clone(), "a", &millis).await, node_on(servers, "b", &millis).await];
    let rooms = open_rooms(&nodes).await;
    look_first(&nodes, OPENS_AT).await;
    let number = nodes[0].take_number(OPENS_AT).await.unwrap();
    until("a turn", || {
        rooms[1].heard(number, rooms[1].place(number));
        tick(&nodes, status(5), OPENS_AT);
        rooms.iter().all(|room| room.figures().admitted == 1).then_some(())
    })
    .await;
    let ann = Applicant { number: Some(number), ..applicant("ann", 5, OPENS_AT) };
    assert_eq!(nodes[1].pass(ann.clone()).await, nodes[0].pass(ann.clone()).await);
    nodes[1].used(&ann.buyer, OPENS_AT, 1, OPENS_AT);
    until("the turn to be over", || {
        tick(&nodes, status(5), OPENS_AT);
        let live = nodes.iter().map(|node| node.passes(OPENS_AT).live).sum::<u64>();
        (live == 0 && rooms[1].figures().pending == 0).then_some(())
    })
    .await;
}
