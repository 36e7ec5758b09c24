//! The audit finds and names every change behind its back.

use penstock_domain::{Book, Command, KeyDigest, OrderState};
use penstock_records::{AuditReport, LedgerForgets};
use serde_json::json;

use super::shop::{STREAM, Shop, audit, item, moment, sale_row};

/// Two paid orders, two held ones, a cancelled and an expired one.
async fn sold() -> Shop {
    let mut shop = Shop::new(20, 3).await;
    let gone = shop.claim("gus", 1);
    let expired = shop.claim("eve", 2);
    shop.cancel(gone);
    shop.expire();
    let _ = expired;
    for buyer in ["ada", "bob"] {
        let order = shop.claim(buyer, 2);
        shop.pay(order);
    }
    for buyer in ["cyd", "dan"] {
        shop.claim(buyer, 2);
    }
    shop.settle().await;
    shop
}

fn assert_named(report: &AuditReport, words: &str) {
    assert!(!report.ok);
    assert!(
        report.differences.iter().any(|difference| difference.what.contains(words)),
        "{words}: {report:#?}"
    );
}

#[tokio::test]
async fn an_honest_shop_has_no_findings() {
    let shop = sold().await;
    let report = shop.audit().await;
    assert!(report.ok, "{report:#?}");
    assert_eq!((report.sales, report.orders, report.dead_letters, report.pending), (1, 6, 0, 0));
    assert_eq!((report.units.total, report.units.available), (20, 12));
    assert_eq!((report.units.held, report.units.paid), (4, 4));
}

#[tokio::test]
async fn a_lost_order_is_named() {
    let shop = sold().await;
    shop.tamper("DELETE FROM orders WHERE buyer = 'ada'").await;
    let report = shop.audit().await;
    assert_eq!((report.lost, report.extra, report.duplicated), (1, 0, 0));
    assert_named(&report, "is lost: the ledger accepted it");
    assert_named(&report, "add up to 4 held and 2 paid units, but the ledger has 4 and 4");
}

#[tokio::test]
async fn an_extra_order_is_named() {
    let shop = sold().await;
    shop.tamper("INSERT INTO orders SELECT sale_id, 77, 'zoe', 1, unit_price_minor, currency, 'held', created_at, pay_before, NULL, 0, 9, 9 FROM orders WHERE buyer = 'ada'").await;
    let report = shop.audit().await;
    assert_eq!((report.lost, report.extra), (0, 1));
    assert_named(&report, "which the ledger does not know");
}

#[tokio::test]
async fn each_changed_field_of_an_order_is_named() {
    for (statement, words) in [
        (
            "UPDATE orders SET state = 'held' WHERE buyer = 'ada'",
            "is paid in the ledger, but held in the records",
        ),
        ("UPDATE orders SET quantity = 1 WHERE buyer = 'ada'", "is 2 in the ledger, but 1 in the records"),
        (
            "UPDATE orders SET buyer = 'zoe' WHERE buyer = 'ada'",
            "is ada in the ledger, but zoe in the records",
        ),
        ("UPDATE orders SET paid_at = NULL WHERE buyer = 'ada'", "but never in the records"),
        ("UPDATE orders SET created_at = 5 WHERE buyer = 'ada'", "but 5 ms in the records"),
        ("UPDATE orders SET pay_before = 5 WHERE buyer = 'ada'", "The payment deadline of order"),
        ("UPDATE orders SET refund_due = 1 WHERE buyer = 'eve'", "is not due in the ledger, but due"),
        ("UPDATE orders SET key_low = 5 WHERE buyer = 'ada'", "The idempotency key of order"),
        ("UPDATE orders SET state = 'stolen' WHERE buyer = 'ada'", "An order can't be read"),
    ] {
        let shop = sold().await;
        shop.tamper(statement).await;
        assert_named(&shop.audit().await, words);
    }
}

#[tokio::test]
async fn a_difference_has_its_kind_and_values_besides_the_sentence() {
    let shop = sold().await;
    shop.tamper("UPDATE orders SET quantity = 1 WHERE buyer = 'ada'").await;
    shop.tamper("UPDATE orders SET paid_at = NULL WHERE buyer = 'bob'").await;
    let report = serde_json::to_value(shop.audit().await).unwrap();
    let found = |kind: &str| {
        let differences = report["differences"].as_array().unwrap();
        differences
            .iter()
            .find(|difference| difference["kind"] == kind)
            .unwrap_or_else(|| panic!("{report:#}"))
    };
    assert_eq!(
        found("order_quantity"),
        &json!({
            "sale": "0000000000007",
            "order": "0000000000007-2",
            "what": "The quantity of order 0000000000007-2 is 2 in the ledger, but 1 in the records.",
            "kind": "order_quantity",
            "ledger": 2,
            "records": 1,
        })
    );
    assert_eq!(found("order_time")["of"], "paid_at");
    assert_eq!(found("order_time")["records_millis"], json!(null));
    assert_eq!(found("recorded_orders")["ledger_paid"], 4);
}

#[tokio::test]
async fn each_change_of_the_stock_log_is_named() {
    for (statement, words) in [
        (
            "DELETE FROM stock_log WHERE kind = 'pay' AND order_number = 2",
            "has 2 held and 0 paid units of it",
        ),
        (
            "DELETE FROM stock_log WHERE kind = 'publish'",
            "The stock log of sale 0000000000007 adds up to 0 units",
        ),
        (
            "UPDATE stock_log SET units = 1 WHERE kind = 'release' AND order_number = 1",
            "is expired with 2 units",
        ),
        (
            "UPDATE stock_log SET kind = 'gift' WHERE kind = 'publish'",
            "The stock log has movements of the unknown kind \"gift\"",
        ),
        ("UPDATE stock_log SET sale_id = 99 WHERE kind = 'publish'", "moves units of sale 0000000000033"),
        (
            "UPDATE stock_log SET order_number = 88 WHERE kind = 'pay' AND order_number = 2",
            "The stock log moves units of order",
        ),
    ] {
        let shop = sold().await;
        shop.tamper(statement).await;
        assert_named(&shop.audit().await, words);
    }
}

#[tokio::test]
async fn each_change_of_the_stock_row_is_named() {
    for (statement, words) in [
        (
            "UPDATE sale_stock SET remaining = remaining - 1, held = held + 1",
            "The stock row of sale 0000000000007 says 20 units: 11 available, 5 held, 4 paid; the ledger has",
        ),
        ("UPDATE sale_stock SET paused = 1", "is selling in the ledger, but paused in its stock row"),
        ("UPDATE sale_stock SET closed = 1", "is selling in the ledger, but closed in its stock row"),
        ("UPDATE sale_stock SET limit_per_buyer = 9", "The terms of sale 0000000000007 in its stock row"),
        ("DELETE FROM sale_stock", "Sale 0000000000007 has no stock row in the records"),
    ] {
        let shop = sold().await;
        shop.tamper(statement).await;
        assert_named(&shop.audit().await, words);
    }
}

#[tokio::test]
async fn an_order_held_twice_is_duplicated() {
    let shop = sold().await;
    shop.tamper(
        "INSERT INTO stock_log SELECT stream, 999, sale_id, order_number, kind, units, moved_at FROM stock_log \
         WHERE kind = 'hold' AND order_number = 2",
    )
    .await;
    let report = shop.audit().await;
    assert_eq!(report.duplicated, 1);
    assert_named(&report, "is held 2 times in the stock log");
}

#[tokio::test]
async fn an_oversold_sale_and_a_greedy_buyer_are_named() {
    let shop = sold().await;
    shop.tamper("UPDATE orders SET quantity = 40 WHERE buyer = 'ada'").await;
    let report = shop.audit().await;
    assert_eq!((report.oversold, report.over_limit), (26, 1));
    assert_named(&report, "is oversold by 26 units");
    assert_named(&report, "Buyer ada has 40 units of sale 0000000000007, but the limit is 3");
}

#[tokio::test]
async fn a_ledger_that_contradicts_itself_is_named() {
    let shop = sold().await;
    let compare = async |spoil: fn(&mut penstock_domain::SaleSnapshot)| {
        let mut snapshot = shop.book.snapshot();
        spoil(&mut snapshot.sales[0]);
        audit(&shop.records, &snapshot, &[]).await
    };
    let report = compare(|sale| sale.status.available += 1).await;
    assert_named(&report, "do not add up: 20 units: 13 available, 4 held, 4 paid");
    let report = compare(|sale| sale.orders[2].order.state = OrderState::Held).await;
    assert_named(&report, "but its orders add up to 6 and 2");
    let report = compare(|sale| {
        sale.orders[3].order.buyer = sale.orders[2].order.buyer.clone();
        sale.orders[3].key = sale.orders[2].key;
    })
    .await;
    assert_eq!((report.duplicated, report.over_limit), (1, 1));
    assert_named(&report, "is the second one for the same idempotency key");
    let report = compare(|sale| sale.orders[0].key = KeyDigest::from_words([0, 0])).await;
    assert_named(&report, "The idempotency key of order");
    let report = compare(|sale| drop(sale.orders.pop())).await;
    assert_eq!(report.extra, 1);
}

#[tokio::test]
async fn decisions_that_are_neither_settled_nor_in_the_feed_are_named() {
    let mut shop = sold().await;
    shop.claim("zoe", 1);
    shop.claim("yan", 1);
    let head = shop.decisions.len();
    let report = audit(&shop.records, &shop.book.snapshot(), &shop.decisions[head - 1..]).await;
    assert_named(&report, &format!("Decisions {0} to {0} are neither settled nor in the feed", head - 1));
    assert_eq!(report.lost, 1);
}

#[tokio::test]
async fn a_ledger_that_forgot_settled_decisions_is_named() {
    let shop = sold().await;
    let mut young = Shop::new(20, 3).await;
    young.claim("gus", 1);
    let report = audit(&shop.records, &young.book.snapshot(), &[]).await;
    assert_named(&report, "but the ledger ends with 2");
    assert_eq!(report.extra, 5);
}

#[tokio::test]
async fn sales_that_only_one_side_knows_are_named() {
    let shop = sold().await;
    let other = penstock_domain::SaleId::from_random(50);
    shop.records.create_item(&item(2, moment(0))).await.unwrap();
    shop.records.create_sale(&sale_row(other, item(2, moment(0)).id, 5, 1)).await.unwrap();
    assert!(shop.audit().await.ok, "a draft is not a difference");
    shop.records.mark_published(other, moment(0)).await.unwrap();
    assert_named(&shop.audit().await, "is published in the records, but the ledger does not know it");
    shop.tamper("DELETE FROM sales WHERE id = 7").await;
    assert_named(&shop.audit().await, "The ledger sells sale 0000000000007, which the records do not have");
}

#[tokio::test]
async fn an_audit_sees_the_records_as_of_its_start() {
    let mut shop = sold().await;
    let mut audit = shop.records.begin_audit(LedgerForgets::Never).await.unwrap();
    let look = audit.look(STREAM).await.unwrap();
    let order = shop.claim("zoe", 1);
    shop.settle().await;
    shop.pay(order);
    shop.settle().await;
    let pending = &shop.decisions[look.cursor().position as usize..];
    audit.compare(look, &shop.book.snapshot(), pending).await.unwrap();
    let report = audit.finish();
    assert!(report.ok, "{report:#?}");
    assert_eq!(report.pending, 2);
}

/// An audit of a ledger that has forgotten everything.
async fn audit_forgotten(shop: &Shop, forgetting: LedgerForgets) -> AuditReport {
    let mut audit = shop.records.begin_audit(forgetting).await.unwrap();
    let look = audit.look(STREAM).await.unwrap();
    let nothing = Book::default().snapshot();
    audit.compare(look, &nothing, &[]).await.unwrap();
    audit.finish()
}

#[tokio::test]
async fn a_sale_that_the_ledger_forgot_is_checked_by_the_records_alone() {
    let mut shop = sold().await;
    shop.execute(Command::Close(shop.sale));
    shop.settle().await;
    let report = audit_forgotten(&shop, LedgerForgets::Closed).await;
    assert_named(&report, "the ledger does not know it");
    shop.expire();
    shop.settle().await;
    let report = audit_forgotten(&shop, LedgerForgets::Closed).await;
    assert!(report.ok, "{report:#?}");
    assert_eq!((report.sales, report.orders, report.units.paid), (1, 6, 4));
    assert!(!audit_forgotten(&shop, LedgerForgets::Never).await.ok, "this ledger forgets nothing");
    for statement in [
        "UPDATE orders SET quantity = 1 WHERE state = 'paid'",
        "UPDATE stock_log SET units = units + 1 WHERE kind = 'pay'",
        "UPDATE sale_stock SET remaining = remaining + 1",
    ] {
        shop.tamper(statement).await;
        assert_named(&audit_forgotten(&shop, LedgerForgets::Closed).await, "which is over");
    }
}

#[tokio::test]
async fn an_open_sale_is_never_taken_for_a_forgotten_one() {
    let mut shop = sold().await;
    shop.expire();
    shop.settle().await;
    let report = audit_forgotten(&shop, LedgerForgets::Closed).await;
    assert_named(&report, "is published in the records, but the ledger does not know it");
}
