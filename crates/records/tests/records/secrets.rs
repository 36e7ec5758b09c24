//! The secret that nodes share.

use super::{Database, shop::open};

#[tokio::test]
async fn nodes_that_start_at_once_get_the_same_secret() {
    let database = Database::new();
    let nodes = [open(&database).await, open(&database).await, open(&database).await];
    assert_eq!(nodes[0].secrets().await.unwrap(), None);
    let made = tokio::join!(
        nodes[0].secrets_or("a secret of the first"),
        nodes[1].secrets_or("a secret of the second"),
        nodes[2].secrets_or("a secret of the third")
    );
    let made = [made.0.unwrap(), made.1.unwrap(), made.2.unwrap()];
    assert!(
        made.iter().all(|one| (&one.current, &one.previous, one.version) == (&made[0].current, &None, 1))
    );
    assert_eq!(nodes[1].secrets_or("another").await.unwrap().current, made[0].current);
}

#[tokio::test]
async fn a_rotation_keeps_only_the_previous_secret() {
    let database = Database::new();
    let records = open(&database).await;
    assert!(!records.rotate_secret("new").await.unwrap(), "there is no secret to rotate");
    records.secrets_or("first").await.unwrap();
    assert!(records.rotate_secret("second").await.unwrap());
    assert!(records.rotate_secret("third").await.unwrap());
    let stored = records.secrets().await.unwrap().unwrap();
    assert_eq!(
        (stored.current.as_str(), stored.previous.as_deref(), stored.version),
        ("third", Some("second"), 3)
    );
    assert!(stored.age_milliseconds < 60_000, "{stored:?}");
    assert!(!format!("{stored:?}").contains("third"));
}
