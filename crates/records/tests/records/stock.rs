//! The stock row of a sale: the last line of defence behind the ledger.

use penstock_domain::{BuyerId, Command, Decision, Event, KeyDigest, OrderId, SaleId};
use penstock_records::{Cause, SettleError};

use super::shop::{Shop, item, moment, open, sale_row};

impl Shop {
    /// Settles a decision that an honest ledger never makes.
    fn forge(&mut self, event: Event) -> u64 {
        let position = self.decisions.len() as u64 + 1;
        self.decisions.push(Decision { position, at: self.now, event });
        position
    }

    fn forge_hold(&mut self, number: u32, buyer: &str, quantity: u32) -> u64 {
        let order = OrderId { sale: self.sale, number };
        let buyer = BuyerId::of_subject(buyer).unwrap();
        let key = KeyDigest::from_words([u64::from(number), 99]);
        self.forge(Event::Held { order, buyer, quantity, key })
    }

    /// Total, remaining, held and paid units.
    async fn stock(&self) -> [i64; 4] {
        [
            self.count("SELECT total FROM sale_stock WHERE sale_id = 7").await,
            self.count("SELECT remaining FROM sale_stock WHERE sale_id = 7").await,
            self.count("SELECT held FROM sale_stock WHERE sale_id = 7").await,
            self.count("SELECT paid FROM sale_stock WHERE sale_id = 7").await,
        ]
    }

    /// Whether the sale is paused and closed.
    async fn state(&self) -> [i64; 2] {
        [
            self.count("SELECT CAST(paused AS SIGNED) FROM sale_stock WHERE sale_id = 7").await,
            self.count("SELECT CAST(closed AS SIGNED) FROM sale_stock WHERE sale_id = 7").await,
        ]
    }

    async fn assert_violation(&self, position: u64, expected: Cause) {
        let poison = self.settle_in(1000).await;
        let Err(SettleError::Poison { position: named, refusal }) = poison else { panic!("{poison:?}") };
        assert_eq!((named, refusal.cause), (position, expected));
        assert!(expected.is_violation());
    }
}

/// Leaves 20 units: 9 remaining, 5 held, 6 paid; paused, resumed, paused again, and closed.
fn sell(shop: &mut Shop) {
    let late = shop.claim("late", 2);
    shop.expire();
    shop.pay(late);
    for buyer in ["ada", "bob"] {
        let order = shop.claim(buyer, 2);
        shop.pay(order);
    }
    let cancelled = shop.claim("cyd", 1);
    shop.cancel(cancelled);
    shop.execute(Command::Pause(shop.sale));
    shop.execute(Command::Resume(shop.sale));
    shop.claim("dan", 3);
    shop.claim("eve", 2);
    shop.execute(Command::Restock { sale: shop.sale, units: 5 });
    shop.execute(Command::Pause(shop.sale));
}

#[tokio::test]
async fn the_stock_row_follows_the_ledger_however_the_feed_is_split() {
    for batch in [1, 3, 1000] {
        let mut shop = Shop::new(15, 3).await;
        sell(&mut shop);
        shop.settle_in(batch).await.unwrap();
        assert_eq!(shop.stock().await, [20, 9, 5, 6]);
        assert_eq!(shop.state().await, [1, 0]);
        shop.execute(Command::Resume(shop.sale));
        shop.execute(Command::Close(shop.sale));
        shop.settle_in(batch).await.unwrap();
        assert_eq!(shop.state().await, [0, 1]);
    }
}

#[tokio::test]
async fn units_that_do_not_exist_are_not_sold() {
    let mut shop = Shop::new(3, 3).await;
    shop.claim("ada", 2);
    let position = shop.forge_hold(1, "bob", 2);
    shop.assert_violation(position, Cause::Oversold).await;
    shop.settle_or_put_aside().await;
    assert_eq!(shop.stock().await, [3, 1, 2, 0]);
    assert_eq!(shop.records.dead_letter_count().await.unwrap(), 1);

    // The order of the dead letter stays out of the records, with all its later decisions.
    let order = OrderId { sale: shop.sale, number: 1 };
    shop.forge(Event::Paid { order, quantity: 2, after_expiry: false });
    shop.settle_or_put_aside().await;
    assert_eq!(shop.stock().await, [3, 1, 2, 0]);
    assert_eq!(shop.records.dead_letter_count().await.unwrap(), 2);
}

#[tokio::test]
async fn a_late_payment_takes_no_units_that_do_not_exist() {
    let mut shop = Shop::new(2, 2).await;
    let late = shop.claim("late", 2);
    shop.expire();
    shop.claim("ada", 1);
    let position = shop.forge(Event::Paid { order: late, quantity: 2, after_expiry: true });
    shop.assert_violation(position, Cause::Oversold).await;
}

#[tokio::test]
async fn nobody_gets_more_than_the_limit() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 2);
    shop.claim("bob", 1);
    // Within one batch, and against what is settled already.
    let position = shop.forge_hold(2, "ada", 1);
    shop.assert_violation(position, Cause::OverLimit).await;
    shop.settle_or_put_aside().await;
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!(letters[0].decision.position, position);
    assert!(letters[0].refusal.reason.contains("the limit is 2"), "{}", letters[0].refusal);

    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 2);
    shop.settle().await;
    let position = shop.forge_hold(1, "ada", 1);
    shop.assert_violation(position, Cause::OverLimit).await;
}

#[tokio::test]
async fn a_late_payment_counts_against_the_limit_and_an_expired_hold_does_not() {
    let mut shop = Shop::new(10, 2).await;
    let late = shop.claim("ada", 2);
    shop.expire();
    shop.claim("ada", 1);
    shop.settle().await;
    let position = shop.forge(Event::Paid { order: late, quantity: 2, after_expiry: true });
    shop.assert_violation(position, Cause::OverLimit).await;
}

#[tokio::test]
async fn a_hold_that_needs_the_units_of_a_dead_letter_waits_with_it() {
    let mut shop = Shop::new(1, 1).await;
    let order = shop.claim("ada", 1);
    shop.settle().await;
    shop.tamper("UPDATE orders SET state = 'stolen'").await;
    shop.cancel(order);
    shop.claim("bob", 1);
    shop.settle_or_put_aside().await;
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!(letters.len(), 2, "the release that failed, and the hold that needs its unit");
    assert_eq!(letters[1].tries, 0, "it joined the first and is not a violation itself");
    assert_eq!(shop.stock().await, [1, 0, 1, 0]);

    shop.tamper("UPDATE orders SET state = 'held' WHERE state = 'stolen'").await;
    for letter in &letters {
        shop.records.retry_dead_letter(letter.id, shop.now).await.unwrap();
    }
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn units_that_are_not_held_are_not_paid() {
    let mut shop = Shop::new(5, 2).await;
    let order = shop.claim("ada", 2);
    shop.settle().await;
    shop.tamper("UPDATE sale_stock SET held = 1, remaining = 4").await;
    shop.pay(order);
    shop.assert_violation(3, Cause::NotHeld).await;
}

#[tokio::test]
async fn a_sale_is_published_once() {
    let mut shop = Shop::new(5, 2).await;
    let terms = shop.records.sale(shop.sale).await.unwrap().unwrap().terms();
    let position = shop.forge(Event::Published(terms));
    let poison = shop.settle_in(1000).await;
    let Err(SettleError::Poison { position: named, refusal }) = poison else { panic!("{poison:?}") };
    assert_eq!((named, refusal.cause, refusal.cause.is_violation()), (position, Cause::StockExists, false));
    assert_eq!(shop.settled().await, 0);
}

#[tokio::test]
async fn sales_from_before_the_stock_rows_get_one() {
    for closed in [false, true] {
        let mut shop = Shop::new(15, 3).await;
        sell(&mut shop);
        if closed {
            shop.execute(Command::Resume(shop.sale));
            shop.execute(Command::Close(shop.sale));
        }
        shop.settle().await;
        let (stock, state) = (shop.stock().await, shop.state().await);
        shop.records.close().await;
        shop.run("DROP TABLE sale_stock").await;
        shop.run("DROP TABLE counters").await;
        shop.tamper("DELETE FROM _sqlx_migrations WHERE version = 2").await;
        shop.records = open(&shop.database).await;
        assert_eq!((shop.stock().await, shop.state().await), (stock, state));
        assert!(shop.audit().await.ok);
        if !closed {
            shop.execute(Command::Resume(shop.sale));
            shop.claim("zoe", 3);
            shop.settle().await;
            assert_eq!(shop.stock().await, [20, 6, 8, 6]);
        }
    }
}

#[tokio::test]
async fn a_batch_with_several_sales_keeps_the_limit_of_each() {
    let mut shop = Shop::new(10, 2).await;
    let other = SaleId::from_random(8);
    let row = sale_row(other, item(1, moment(0)).id, 5, 1);
    shop.records.create_sale(&row).await.unwrap();
    shop.execute(Command::Publish(row.terms()));
    shop.claim("ada", 1);
    shop.settle().await;
    shop.claim("ada", 1);
    shop.claim_in(other, "ada", 1);
    shop.settle().await;
    assert!(shop.audit().await.ok);
    // She is at the limit in both sales.
    shop.claim("bob", 1);
    let order = OrderId { sale: other, number: 1 };
    let key = KeyDigest::from_words([5, 5]);
    let buyer = BuyerId::of_subject("ada").unwrap();
    let position = shop.forge(Event::Held { order, buyer, quantity: 1, key });
    shop.assert_violation(position, Cause::OverLimit).await;
    shop.decisions.pop();
    let position = shop.forge_hold(3, "ada", 1);
    shop.assert_violation(position, Cause::OverLimit).await;
}
