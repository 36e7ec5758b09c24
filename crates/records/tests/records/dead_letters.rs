//! A decision that can't be settled is put aside, keeps its order, and settles once the cause is gone.

use penstock_domain::{OrderState, SaleId};
use penstock_records::{Cause, RetryError};

use super::shop::Shop;

#[tokio::test]
async fn a_dead_letter_is_retried_after_its_cause_is_gone() {
    let mut shop = Shop::new(10, 2).await;
    let order = shop.claim("ada", 1);
    shop.settle().await;
    shop.tamper("UPDATE orders SET state = 'cancelled'").await;
    shop.pay(order);
    shop.claim("bob", 1);
    shop.settle_or_put_aside().await;
    assert_eq!(shop.settled().await, 4, "the feed goes on behind a dead letter");
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!(letters.len(), 1);
    assert_eq!(letters[0].decision, shop.decisions[2]);
    assert_eq!((letters[0].tries, letters[0].order()), (5, Some(order)));

    let still = shop.records.retry_dead_letter(letters[0].id, shop.now).await;
    assert!(matches!(still, Err(RetryError::StillPoison { .. })), "{still:?}");
    let letter = &shop.records.dead_letters(None, 10).await.unwrap()[0];
    assert_eq!((letter.tries, letter.refusal.cause), (6, Cause::OrderState));
    shop.tamper("UPDATE orders SET state = 'held', quantity = 2 WHERE state = 'cancelled'").await;
    shop.records.retry_dead_letter(letter.id, shop.now).await.unwrap_err();
    let letter = &shop.records.dead_letters(None, 10).await.unwrap()[0];
    assert_eq!((letter.tries, letter.refusal.cause), (7, Cause::OrderQuantity), "the cause of the last try");

    shop.tamper("UPDATE orders SET quantity = 1 WHERE quantity = 2").await;
    let resolved = shop.records.retry_dead_letter(letters[0].id, shop.now).await.unwrap();
    assert_eq!(resolved.resolved_at, Some(shop.now));
    assert_eq!(shop.records.dead_letter_count().await.unwrap(), 0);
    assert_eq!(shop.records.order(order).await.unwrap().unwrap().order.state, OrderState::Paid);
    assert!(shop.audit().await.ok);

    let again = shop.records.retry_dead_letter(letters[0].id, shop.now.plus_seconds(9)).await.unwrap();
    assert_eq!(again.resolved_at, Some(shop.now), "retrying a resolved letter changes nothing");
    let unknown = shop.records.retry_dead_letter(77, shop.now).await;
    assert!(matches!(unknown, Err(RetryError::Unknown)), "{unknown:?}");
}

#[tokio::test]
async fn later_decisions_on_the_order_join_its_dead_letter_and_are_retried_in_order() {
    let mut shop = Shop::new(10, 2).await;
    let order = shop.claim("ada", 1);
    let other = shop.claim("bob", 1);
    shop.settle_in(1).await.ok();
    // The row of the hold is gone, so nothing that follows can be applied.
    shop.tamper("DELETE FROM orders WHERE order_number = 0").await;
    shop.tamper("DELETE FROM stock_log WHERE order_number = 0").await;
    shop.tamper("DELETE FROM outbox WHERE position = 2").await;
    shop.expire();
    shop.pay(order);
    shop.pay(other);
    shop.settle_or_put_aside().await;
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!(letters.len(), 2, "expiry and late payment of the one order; the other order is settled");
    assert!(letters[1].refusal.reason.contains("an earlier decision"), "{}", letters[1].refusal);
    let causes = [letters[0].refusal.cause, letters[1].refusal.cause];
    assert_eq!(causes, [Cause::OrderMissing, Cause::EarlierLetter]);
    assert_eq!(shop.records.order(other).await.unwrap().unwrap().order.state, OrderState::Paid);

    let report = shop.audit().await;
    assert!(!report.ok);
    assert_eq!(report.dead_letters, 2);

    shop.tamper(
        "INSERT INTO orders SELECT sale_id, 0, 'ada', 1, unit_price_minor, currency, 'held', created_at, \
         pay_before, NULL, 0, 0, 0 FROM orders WHERE order_number = 1",
    )
    .await;
    let late = shop.records.retry_dead_letter(letters[1].id, shop.now).await;
    assert!(matches!(late, Err(RetryError::EarlierFirst { first }) if first == letters[0].id), "{late:?}");
    for letter in &letters {
        shop.records.retry_dead_letter(letter.id, shop.now).await.unwrap();
    }
    assert_eq!(shop.records.order(order).await.unwrap().unwrap().order.state, OrderState::Paid);
}

#[tokio::test]
async fn all_decisions_on_a_dead_lettered_hold_become_dead_letters() {
    let mut shop = Shop::new(10, 2).await;
    shop.settle().await;
    // The order number is already taken: the hold violates the primary key.
    shop.tamper("INSERT INTO orders VALUES (7, 0, 'stranger', 1, 1990, 'EUR', 'held', 0, 0, NULL, 0, 0, 0)")
        .await;
    let order = shop.claim("ada", 1);
    shop.expire();
    shop.pay(order);
    let other = shop.claim("bob", 1);
    shop.pay(other);
    shop.settle_or_put_aside().await;
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    let positions: Vec<u64> = letters.iter().map(|letter| letter.decision.position).collect();
    assert_eq!(positions, vec![2, 3, 4], "hold, expiry and late payment, but nothing of the other order");

    shop.tamper("DELETE FROM orders WHERE buyer = 'stranger'").await;
    for letter in shop.records.dead_letters(None, 10).await.unwrap() {
        shop.records.retry_dead_letter(letter.id, shop.now).await.unwrap();
    }
    let report = shop.audit().await;
    assert!(report.ok, "{:#?}", report.differences);
}

#[tokio::test]
async fn a_whole_sale_without_a_row_waits_in_the_dead_letters_and_comes_back() {
    let mut shop = Shop::new(10, 2).await;
    shop.tamper("UPDATE sales SET id = 8").await;
    for buyer in ["ada", "bob", "eve"] {
        let order = shop.claim(buyer, 1);
        shop.pay(order);
    }
    shop.settle_or_put_aside().await;
    let letters = shop.records.dead_letters(None, 100).await.unwrap();
    assert_eq!(letters.len(), 7, "the publishing and everything that depends on it");
    assert!(letters[1..].iter().all(|letter| letter.tries == 0), "only the first was tried again and again");
    assert_eq!(letters[0].decision.event.sale(), SaleId::from_random(7));

    shop.tamper("UPDATE sales SET id = 7").await;
    for letter in &letters {
        shop.records.retry_dead_letter(letter.id, shop.now).await.unwrap();
    }
    let report = shop.audit().await;
    assert!(report.ok, "{:#?}", report.differences);
}

#[tokio::test]
async fn dead_letters_come_page_by_page() {
    let mut shop = Shop::new(10, 2).await;
    shop.tamper("UPDATE sales SET id = 8").await;
    for buyer in ["ada", "bob", "eve"] {
        shop.claim(buyer, 1);
    }
    shop.settle_or_put_aside().await;
    let first = shop.records.dead_letters(None, 3).await.unwrap();
    let second = shop.records.dead_letters(Some(first[2].id), 3).await.unwrap();
    assert_eq!((first.len(), second.len()), (3, 1));
    assert_eq!(shop.records.dead_letter_count().await.unwrap(), 4);
}

#[tokio::test]
async fn a_damaged_row_holds_up_only_decisions_that_depend_on_it() {
    let mut shop = Shop::new(10, 2).await;
    let order = shop.claim("ada", 1);
    let other = shop.claim("bob", 1);
    shop.settle().await;
    shop.tamper("UPDATE orders SET state = 'stolen' WHERE buyer = 'ada'").await;
    shop.pay(order);
    shop.pay(other);
    shop.settle_or_put_aside().await;
    assert_eq!(shop.records.order(other).await.unwrap().unwrap().order.state, OrderState::Paid);
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].order()), (1, Some(order)));
    assert!(letters[0].refusal.reason.contains("stolen"), "{}", letters[0].refusal);
    assert_eq!(letters[0].refusal.cause, Cause::Damaged);

    shop.tamper("UPDATE orders SET state = 'held' WHERE buyer = 'ada'").await;
    shop.records.retry_dead_letter(letters[0].id, shop.now).await.unwrap();
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn a_decision_refused_by_the_merchants_trigger_is_put_aside() {
    let mut shop = Shop::new(10, 2).await;
    shop.database.ban_eve().await;
    shop.claim("ada", 1);
    let refused = shop.claim("eve", 1);
    shop.claim("bob", 1);
    shop.settle_or_put_aside().await;
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!((letters.len(), letters[0].order()), (1, Some(refused)));
    assert!(letters[0].refusal.reason.contains("eve is banned"), "{}", letters[0].refusal);
    assert_eq!(letters[0].refusal.cause, Cause::Database);

    shop.run("DROP TRIGGER no_eve").await;
    shop.records.retry_dead_letter(letters[0].id, shop.now).await.unwrap();
    assert!(shop.audit().await.ok);
}
