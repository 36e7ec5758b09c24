//! The waitlist in the records: every decision about it arrives once, and can be given back to a ledger that
//! has lost it.

use std::collections::HashMap;

use penstock_domain::{BuyerId, Command, Decision, Event, LeaveReason, OrderId, Reply, SaleId};
use penstock_records::{AuditReport, Cause, SettleError};

use super::shop::{STREAM, Shop};

impl Shop {
    fn join(&mut self, buyer: &str, quantity: u32) {
        let (sale, buyer) = (self.sale, BuyerId::of_subject(buyer).unwrap());
        let joined = self.execute(Command::Join { sale, buyer, quantity });
        assert!(matches!(joined, Reply::Joined(Ok(_))), "{joined:?}");
    }

    fn leave(&mut self, buyer: &str) {
        let (sale, buyer) = (self.sale, BuyerId::of_subject(buyer).unwrap());
        assert_eq!(self.execute(Command::Leave { sale, buyer }), Reply::Left(true));
    }

    async fn waiting_in_records(&self) -> i64 {
        self.count("SELECT COUNT(*) FROM waitlist").await
    }
}

/// A sale of two units that ada and bob hold.
async fn sold_out() -> (Shop, [OrderId; 2]) {
    let mut shop = Shop::new(2, 2).await;
    let orders = ["ada", "bob"].map(|buyer| shop.claim(buyer, 1));
    (shop, orders)
}

/// Cyd, dan, eve and gus wait; dan leaves and joins again; a unit comes back for cyd.
fn wait_in_vain_and_not(shop: &mut Shop, orders: [OrderId; 2]) {
    ["cyd", "dan", "eve", "gus"].into_iter().for_each(|buyer| shop.join(buyer, 2));
    shop.leave("dan");
    shop.join("dan", 1);
    shop.leave("gus");
    shop.cancel(orders[0]);
    shop.join("gus", 1);
}

fn named(report: &AuditReport, words: &str) {
    let found = report.differences.iter().any(|difference| difference.what.contains(words));
    assert!(!report.ok && found, "{words}: {report:#?}");
}

#[tokio::test]
async fn the_waitlist_is_in_the_records_however_the_feed_is_split() {
    for batch in [1, 2, 3, 1000] {
        let (mut shop, orders) = sold_out().await;
        wait_in_vain_and_not(&mut shop, orders);
        shop.settle_in(batch).await.unwrap();
        let settled = shop.records.settled_sale(STREAM, shop.sale, 0).await.unwrap().unwrap().sale;
        assert_eq!(settled, shop.book.snapshot().sales[0], "batches of {batch}");
        let waiting: Vec<&str> = settled.waiters.iter().map(|waiter| waiter.buyer.as_str()).collect();
        assert_eq!(waiting, ["eve", "dan", "gus"]);
        assert_eq!(shop.waiting_in_records().await, 3);
        let other = SaleId::from_random(shop.sale.as_u64() + 1);
        let lengths = shop.records.waitlist_lengths(&[other, shop.sale]).await.unwrap();
        assert_eq!(lengths, HashMap::from([(shop.sale, 3)]));
        let report = shop.audit().await;
        assert!(report.ok, "{report:#?}");
    }
}

#[tokio::test]
async fn a_buyer_who_joins_and_leaves_in_one_batch_leaves_no_row() {
    let (mut shop, _) = sold_out().await;
    shop.join("cyd", 1);
    shop.leave("cyd");
    shop.settle().await;
    assert_eq!(shop.waiting_in_records().await, 0);
}

const OFFERS_TOLD: &str = "SELECT COUNT(*) FROM outbox WHERE kind = 'waitlist.offered'";

/// Cyd is offered a unit, and settlement stops before the hold. Returns the complete decisions, too.
async fn offered_by_half() -> (Shop, Vec<Decision>) {
    let (mut shop, orders) = sold_out().await;
    shop.join("cyd", 1);
    shop.cancel(orders[0]);
    let offered = |event: &Event| matches!(event, Event::Left { reason: LeaveReason::Offered, .. });
    let middle = shop.positions_of(offered)[0] as usize;
    let whole = shop.decisions.clone();
    shop.decisions.truncate(middle);
    shop.settle().await;
    (shop, whole)
}

#[tokio::test]
async fn an_offer_that_is_made_again_is_announced_once() {
    let (mut shop, whole) = offered_by_half().await;
    assert_eq!(shop.count(OFFERS_TOLD).await, 0, "it is not an offer without a hold");
    // A sale that is rebuilt here has cyd on its list, and its first decisions make the offer.
    let again = &whole[shop.decisions.len() - 1..];
    shop.decisions.extend(
        again.iter().map(|decision| Decision { position: decision.position + 1, ..decision.clone() }),
    );
    shop.settle().await;
    assert_eq!(shop.count(OFFERS_TOLD).await, 1);
    let order = OrderId { sale: shop.sale, number: 2 };
    assert_eq!(shop.records.order(order).await.unwrap().unwrap().order.buyer.as_str(), "cyd");
    assert_eq!(
        shop.count(
            "SELECT COUNT(*) FROM outbox WHERE payload LIKE '%\"buyer\":\"cyd\",\"quantity\":1,\"order\":\"%'"
        )
        .await,
        1,
        "the message names the order"
    );
}

#[tokio::test]
async fn a_half_settled_offer_loses_nobody() {
    let (mut shop, whole) = offered_by_half().await;
    let settled = shop.records.settled_sale(STREAM, shop.sale, 0).await.unwrap().unwrap().sale;
    assert_eq!((settled.status.available, settled.waiters.len()), (1, 1), "cyd keeps the place");
    shop.decisions = whole;
    let report = shop.audit().await;
    assert!(report.ok, "{report:#?}");
    shop.settle().await;
    assert_eq!(shop.waiting_in_records().await, 0);
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE buyer = 'cyd' AND state = 'held'").await, 1);
    assert_eq!(shop.count(OFFERS_TOLD).await, 1);
}

#[tokio::test]
async fn one_restock_makes_many_offers() {
    // In one batch, and in batches that end between an offer and its hold.
    for batch in [10_000, 500] {
        let (mut shop, _) = sold_out().await;
        (0..2_500).for_each(|number| shop.join(&format!("buyer-{number}"), 1));
        shop.settle().await;
        assert_eq!(shop.waiting_in_records().await, 2_500);
        shop.execute(Command::Restock { sale: shop.sale, units: 2_400 });
        shop.settle_in(batch).await.unwrap();
        assert_eq!(shop.waiting_in_records().await, 100);
        assert_eq!(shop.count(OFFERS_TOLD).await, 2_400);
        let report = shop.audit().await;
        assert!(report.ok, "{report:#?}");
    }
}

#[tokio::test]
async fn every_change_of_the_waitlist_is_announced() {
    let (mut shop, orders) = sold_out().await;
    wait_in_vain_and_not(&mut shop, orders);
    shop.settle().await;
    assert_eq!(shop.count("SELECT COUNT(*) FROM outbox").await, shop.decisions.len() as i64);
    for (query, told) in [
        ("SELECT COUNT(*) FROM outbox WHERE kind = 'waitlist.joined'", 6),
        ("SELECT COUNT(*) FROM outbox WHERE kind = 'waitlist.left'", 2),
        ("SELECT COUNT(*) FROM outbox WHERE kind = 'waitlist.offered' AND payload LIKE '%cyd%'", 1),
    ] {
        assert_eq!(shop.count(query).await, told, "{query}");
    }
}

#[tokio::test]
async fn an_audit_names_waiters_that_only_one_side_knows() {
    for (statement, words) in [
        ("DELETE FROM waitlist WHERE buyer = 'eve'", "Buyer eve waits for sale 0000000000007 in the ledger"),
        (
            "UPDATE waitlist SET number = 99 WHERE buyer = 'eve'",
            "Buyer eve waits for sale 0000000000007 in the r",
        ),
        ("UPDATE waitlist SET quantity = 1 WHERE buyer = 'eve'", "but eve for 1 units since"),
        ("UPDATE waitlist SET buyer = 'zoe' WHERE buyer = 'eve'", "but zoe for 2 units since"),
    ] {
        let (mut shop, orders) = sold_out().await;
        wait_in_vain_and_not(&mut shop, orders);
        shop.settle().await;
        shop.tamper(statement).await;
        named(&shop.audit().await, words);
    }
}

#[tokio::test]
async fn leaving_without_waiting_is_poison_but_an_offered_order_counts() {
    let (mut shop, orders) = sold_out().await;
    shop.join("cyd", 1);
    shop.join("dan", 1);
    shop.settle().await;
    shop.tamper("DELETE FROM waitlist").await;
    shop.cancel(orders[0]);
    shop.settle().await;
    assert_eq!(shop.count("SELECT COUNT(*) FROM orders WHERE buyer = 'cyd'").await, 1);
    shop.leave("dan");
    let poison = shop.settle_in(1000).await;
    let Err(SettleError::Poison { refusal, .. }) = poison else { panic!("{poison:?}") };
    assert_eq!(refusal.cause, Cause::WaiterMissing, "{refusal}");
}
