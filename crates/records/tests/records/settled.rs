//! What the records tell a ledger that has lost its end.

use penstock_domain::{Command, Cursor, Mark, NewEpoch, SaleId};
use penstock_records::{RecordsError, SettleError};

use super::shop::{STREAM, Shop, item, lease, moment, sale_row};

/// Orders in every state, and a sale that is paused.
fn sell(shop: &mut Shop) {
    let late = shop.claim("late", 2);
    shop.claim("eve", 1);
    shop.expire();
    shop.pay(late);
    for buyer in ["ada", "bob", "cyd"] {
        shop.claim(buyer, 2);
    }
    let cancelled = shop.claim("dan", 1);
    shop.cancel(cancelled);
    shop.execute(Command::Restock { sale: shop.sale, units: 5 });
    shop.execute(Command::Pause(shop.sale));
}

#[tokio::test]
async fn a_settled_sale_equals_the_ledgers_sale_up_to_the_cursor() {
    let mut shop = Shop::new(20, 2).await;
    sell(&mut shop);
    let mut book = penstock_domain::Book::default();
    assert_eq!(shop.records.settled_sale(STREAM, shop.sale, 0).await.unwrap(), None);
    for decision in &shop.decisions {
        let lease = lease(&shop.records).await;
        let mark = Mark([decision.position as u8; 16]);
        shop.records.settle(&lease, std::slice::from_ref(decision), mark).await.unwrap();
        book.apply(decision);
        let settled = shop.records.settled_sale(STREAM, shop.sale, 0).await.unwrap().unwrap();
        assert_eq!(settled.begun.cursor, Cursor { position: decision.position, mark });
        assert_eq!(settled.sale, book.snapshot().sales[0]);
        let again = shop.records.settled_cursor(STREAM, 0).await.unwrap();
        assert_eq!((again.cursor, again.epoch), (settled.begun.cursor, settled.begun.epoch + 1));
        assert_eq!(shop.records.complete_up_to(STREAM, shop.sale).await.unwrap(), Some(again.cursor));
    }
}

#[tokio::test]
async fn the_question_stops_the_settler() {
    for whole_sale in [false, true] {
        let mut shop = Shop::new(20, 2).await;
        shop.settle().await;
        shop.claim("ada", 1);
        let lease = lease(&shop.records).await;
        if whole_sale {
            shop.records.settled_sale(STREAM, shop.sale, 0).await.unwrap();
        } else {
            shop.records.settled_cursor(STREAM, 0).await.unwrap();
        }
        let stopped = shop.records.settle(&lease, &shop.decisions[1..], Mark::default()).await;
        assert!(matches!(stopped, Err(SettleError::Fenced)), "{stopped:?}");
        let taken = shop.records.lease(STREAM, "somebody else", 60).await.unwrap();
        assert!(taken.is_some(), "the next settler does not have to wait until the lease runs out");
    }
}

#[tokio::test]
async fn a_stream_nobody_settled_is_at_its_beginning() {
    let shop = Shop::new(20, 2).await;
    let begun = shop.records.settled_cursor("another", 0).await.unwrap();
    assert_eq!(begun, NewEpoch { cursor: Cursor::default(), epoch: 1 });
}

#[tokio::test]
async fn every_question_begins_a_new_epoch() {
    let shop = Shop::new(20, 2).await;
    for (at_least, epoch) in [(0, 1), (1, 2), (7, 7), (3, 8), (8, 9)] {
        assert_eq!(shop.records.settled_cursor(STREAM, at_least).await.unwrap().epoch, epoch);
        let lease = lease(&shop.records).await;
        assert_eq!(lease.epoch, epoch, "a settler knows which history it may settle");
    }
}

#[tokio::test]
async fn dead_letters_have_to_be_resolved_before_a_sale_is_rebuilt() {
    let mut shop = Shop::new(20, 2).await;
    let order = shop.claim("ada", 1);
    shop.settle().await;
    shop.tamper("UPDATE orders SET state = 'cancelled'").await;
    shop.pay(order);
    shop.settle_or_put_aside().await;
    assert_eq!(shop.records.complete_up_to(STREAM, shop.sale).await.unwrap(), None);
    let refused = shop.records.settled_sale(STREAM, shop.sale, 0).await;
    let Err(RecordsError::Refused(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("have to be resolved first"), "{reason}");
}

#[tokio::test]
async fn a_sale_that_does_not_add_up_is_not_rebuilt() {
    for statement in [
        "DELETE FROM orders WHERE order_number = 0",
        "UPDATE orders SET quantity = 2 WHERE order_number = 0",
        "UPDATE sale_stock SET remaining = remaining + 1",
    ] {
        let mut shop = Shop::new(20, 2).await;
        shop.claim("ada", 1);
        shop.claim("bob", 1);
        shop.settle().await;
        shop.tamper(statement).await;
        let refused = shop.records.settled_sale(STREAM, shop.sale, 0).await;
        assert!(matches!(refused, Err(RecordsError::Damaged(_))), "{statement}: {refused:?}");
    }
}

#[tokio::test]
async fn open_sales_are_those_that_are_not_closed_or_still_have_holds() {
    let mut shop = Shop::new(20, 2).await;
    assert!(shop.records.open_sales().await.unwrap().is_empty());
    let other = SaleId::from_random(50);
    let row = sale_row(other, item(1, moment(0)).id, 5, 1);
    shop.records.create_sale(&row).await.unwrap();
    shop.execute(Command::Publish(row.terms()));
    shop.execute(Command::Pause(other));
    shop.settle().await;
    assert_eq!(shop.records.open_sales().await.unwrap(), vec![shop.sale, other]);
    let order = shop.claim("ada", 1);
    shop.execute(Command::Close(shop.sale));
    shop.settle().await;
    assert_eq!(shop.records.open_sales().await.unwrap(), vec![shop.sale, other]);
    shop.cancel(order);
    shop.settle().await;
    assert_eq!(shop.records.open_sales().await.unwrap(), vec![other]);
}
