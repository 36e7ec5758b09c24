//! Pictures and their names.

use super::shop::{Shop, moment, open};

#[tokio::test]
async fn a_picture_is_found_by_its_name_on_every_node() {
    let shop = Shop::new(10, 1).await;
    let other = open(&shop.database).await;
    // As large as allowed, with every possible byte.
    let content: Vec<u8> = (0..1024 * 1024).map(|place: u32| (place % 256) as u8).collect();
    assert_eq!(other.picture("0123.png").await.unwrap(), None);
    shop.records.put_picture("0123.png", &content, moment(1)).await.unwrap();
    assert!(other.picture("0123.png").await.unwrap().is_some_and(|found| found == content));
    assert_eq!(other.picture("0123.PNG").await.unwrap(), None);
    for (begin, bytes) in [(0, 1), (1_000, 70_000), (content.len() - 10, 20), (content.len(), 20)] {
        let piece = other.piece_of_picture("0123.png", begin, bytes).await.unwrap().unwrap();
        let end = content.len().min(begin + bytes);
        assert!(piece == content[begin..end], "{bytes} bytes from {begin}");
    }
    assert_eq!(other.piece_of_picture("0124.png", 0, 1).await.unwrap(), None);
}

#[tokio::test]
async fn the_same_picture_may_be_stored_again() {
    let shop = Shop::new(10, 1).await;
    for seconds in [1, 2] {
        shop.records.put_picture("4567.gif", b"GIF89a", moment(seconds)).await.unwrap();
    }
    assert_eq!(shop.records.picture("4567.gif").await.unwrap().unwrap(), b"GIF89a");
}
