//! What the records know about waiting rooms.

use super::shop::{Shop, open};

#[tokio::test]
async fn a_room_keeps_its_first_seed_when_another_is_offered() {
    let shop = Shop::new(10, 1).await;
    let nodes = [open(&shop.database).await, open(&shop.database).await];
    assert_eq!(nodes[0].waiting_room(shop.sale).await.unwrap(), None);
    let made = tokio::join!(
        nodes[0].waiting_room_or(shop.sale, [1; 32]),
        nodes[1].waiting_room_or(shop.sale, [0xfe; 32])
    );
    let made = [made.0.unwrap(), made.1.unwrap()];
    assert_eq!(made[0], made[1]);
    assert!([[1; 32], [0xfe; 32]].contains(&made[0].seed));
    assert_eq!(shop.records.waiting_room_or(shop.sale, [3; 32]).await.unwrap(), made[0]);
    assert!(!format!("{:?}", made[0]).contains("seed"));
}

#[tokio::test]
async fn numbers_only_grow_and_a_draw_is_counted_once() {
    let shop = Shop::new(10, 1).await;
    let records = &shop.records;
    records.waiting_room_or(shop.sale, [1; 32]).await.unwrap();
    for (issued, early, expected) in [
        (5, None, (5, None)),
        (3, None, (5, None)),
        (9, Some(8), (9, Some(8))),
        (12, Some(11), (12, Some(8))),
    ] {
        records.note_waiting_room(shop.sale, issued, early).await.unwrap();
        let stored = records.waiting_room(shop.sale).await.unwrap().unwrap();
        assert_eq!((stored.issued, stored.early), expected);
    }
}
