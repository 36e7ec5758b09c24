//! Only one settler at a time has a stream, and a settler that lost it can't write.

use std::time::Duration;

use penstock_domain::{Cursor, Mark};
use penstock_records::{Cause, Lease, Records, Refusal, SettleError};

use super::shop::{STREAM, Shop};

const MARK: Mark = Mark(*b"a mark of 16 byt");

async fn take(records: &Records, owner: &str, seconds: u32) -> Option<Lease> {
    records.lease(STREAM, owner, seconds).await.unwrap()
}

/// Waits until the previous lease is over, however long that takes.
async fn take_over(records: &Records, owner: &str) -> Lease {
    loop {
        match take(records, owner, 60).await {
            Some(lease) => return lease,
            None => tokio::time::sleep(Duration::from_millis(20)).await,
        }
    }
}

#[tokio::test]
async fn one_of_two_settlers_gets_the_lease() {
    let shop = Shop::new(10, 2).await;
    let first = take(&shop.records, "ann", 60).await.unwrap();
    assert_eq!((&*first.stream, first.cursor), (STREAM, Cursor::default()));
    assert_eq!(take(&shop.records, "bob", 60).await, None);
    let other = shop.records.lease("another", "bob", 60).await.unwrap();
    assert!(other.is_some(), "another stream has another lease");
    let again = take(&shop.records, "ann", 60).await.unwrap();
    assert!(again.fence > first.fence, "an owner may take it again, and the old lease is void");
}

#[tokio::test]
async fn one_of_many_settlers_that_begin_a_stream_at_once_gets_it() {
    let shop = Shop::new(10, 2).await;
    let owners: Vec<String> = (0..8).map(|number| format!("owner-{number}")).collect();
    let leases =
        futures_util::future::join_all(owners.iter().map(|owner| take(&shop.records, owner, 60))).await;
    assert_eq!(leases.iter().flatten().count(), 1, "{leases:?}");
}

#[tokio::test]
async fn a_settler_whose_stream_was_taken_over_cannot_write() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let sleeping = take(&shop.records, "sleeping", 0).await.unwrap();
    let awake = take_over(&shop.records, "awake").await;
    assert!(awake.fence > sleeping.fence);
    // The cursor has not moved: only the fence keeps the sleeper out.
    let late = shop.records.settle(&sleeping, &shop.decisions, MARK).await;
    assert!(matches!(late, Err(SettleError::Fenced)), "{late:?}");
    let why = Refusal::new(Cause::Database, "late");
    let letter = shop.records.dead_letter(&sleeping, &shop.decisions[0], MARK, &why, 5, shop.now).await;
    assert!(matches!(letter, Err(SettleError::Fenced)), "{letter:?}");
    assert!(!shop.records.renew(&sleeping).await.unwrap());
    shop.records.settle(&awake, &shop.decisions, MARK).await.unwrap();
    assert_eq!(shop.records.cursor(STREAM).await.unwrap(), Cursor { position: 2, mark: MARK });
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn decisions_of_another_epoch_cannot_be_settled() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let before = take(&shop.records, "ann", 60).await.unwrap();
    shop.tamper("UPDATE settlement_cursors SET epoch = 7").await;
    let late = shop.records.settle(&before, &shop.decisions, MARK).await;
    assert!(matches!(late, Err(SettleError::Fenced)), "{late:?}");
    let why = Refusal::new(Cause::Database, "late");
    let letter = shop.records.dead_letter(&before, &shop.decisions[0], MARK, &why, 5, shop.now).await;
    assert!(matches!(letter, Err(SettleError::Fenced)), "{letter:?}");
    let after = take(&shop.records, "ann", 60).await.unwrap();
    assert_eq!((before.epoch, after.epoch), (0, 7));
    shop.records.settle(&after, &shop.decisions, MARK).await.unwrap();
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn a_lease_that_nobody_took_over_is_as_good_as_new() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let over = take(&shop.records, "ann", 0).await.unwrap();
    shop.records.settle(&over, &shop.decisions, MARK).await.unwrap();
    assert!(shop.records.renew(&over).await.unwrap());
}

#[tokio::test]
async fn settling_renews_the_lease() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let lease = take(&shop.records, "ann", 60).await.unwrap();
    shop.tamper("UPDATE settlement_cursors SET lease_until = 0").await;
    shop.records.settle(&lease, &shop.decisions, MARK).await.unwrap();
    assert_eq!(take(&shop.records, "bob", 60).await, None);
    shop.tamper("UPDATE settlement_cursors SET lease_until = 0").await;
    assert!(shop.records.renew(&lease).await.unwrap());
    assert_eq!(take(&shop.records, "bob", 60).await, None);
}

#[tokio::test]
async fn returned_leases_are_free_at_once() {
    let shop = Shop::new(10, 2).await;
    take(&shop.records, "ann", 60).await.unwrap();
    shop.records.lease("another", "ann", 60).await.unwrap().unwrap();
    shop.records.lease("a-third", "bob", 60).await.unwrap().unwrap();
    shop.records.release("ann").await.unwrap();
    let streams = [STREAM.into(), "another".into(), "a-third".into(), "never-seen".into()];
    let views = shop.records.leases(&streams).await.unwrap();
    let leased: Vec<_> =
        views.iter().map(|view| (&*view.stream, view.owner.as_deref(), view.leased)).collect();
    let expected = [(STREAM, None, false), ("another", None, false), ("a-third", Some("bob"), true)];
    assert_eq!(leased[..3], expected);
    assert_eq!(leased[3], ("never-seen", None, false));
    assert!(take(&shop.records, "cem", 60).await.is_some());
}

#[tokio::test]
async fn a_lease_says_how_far_the_stream_is_settled() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let lease = take(&shop.records, "ann", 60).await.unwrap();
    let settled = shop.records.settle(&lease, &shop.decisions, MARK).await.unwrap();
    let again = take(&shop.records, "ann", 60).await.unwrap();
    assert_eq!(again.cursor, settled.cursor);
    assert_eq!(
        shop.records.leases(&[STREAM.into()]).await.unwrap()[0].cursor,
        Cursor { position: 2, mark: MARK }
    );
}
