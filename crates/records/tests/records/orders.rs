//! Orders as a buyer and a merchant read them.

use penstock_domain::{BuyerId, OrderId, OrderState};
use penstock_records::OrderFilter;

use super::shop::Shop;

fn buyer(name: &str) -> BuyerId {
    BuyerId::of_subject(name).unwrap()
}

#[tokio::test]
async fn an_order_is_the_ledgers_order_with_the_price_of_the_sale() {
    let mut shop = Shop::new(10, 2).await;
    let id = shop.claim("ada", 2);
    shop.pay(id);
    shop.settle().await;
    let row = shop.records.order(id).await.unwrap().unwrap();
    let snapshot = shop.book.snapshot();
    assert_eq!(row.order, snapshot.sales[0].orders[0].order);
    assert_eq!((row.unit_price.amount().as_str(), row.item_id.as_u64()), ("19.90", 1));
    let unknown = OrderId { sale: shop.sale, number: 9 };
    assert_eq!(shop.records.order(unknown).await.unwrap(), None);
}

#[tokio::test]
async fn a_refund_for_a_forgotten_order_is_recorded_and_announced_once() {
    const TOLD: &str = "SELECT COUNT(*) FROM outbox WHERE kind = 'order.refund_due'";
    let mut shop = Shop::new(10, 2).await;
    let (late, paid) = (shop.claim("ada", 2), shop.claim("bob", 1));
    shop.pay(paid);
    shop.expire();
    shop.settle().await;
    for _ in 0..2 {
        for id in [late, paid] {
            let row = shop.records.order(id).await.unwrap().unwrap();
            shop.records.owe_refund(&row, shop.now).await.unwrap();
        }
    }
    assert_eq!(shop.count(TOLD).await, 1);
    let due = async |id| shop.records.order(id).await.unwrap().unwrap().order.refund_due;
    assert_eq!((due(late).await, due(paid).await), (true, false));
}

#[tokio::test]
async fn a_buyer_sees_only_their_own_orders_newest_first() {
    let mut shop = Shop::new(100, 10).await;
    let mut mine = Vec::new();
    for turn in 0..5 {
        mine.push(shop.claim("ada", 1));
        shop.claim("bob", 1);
        if turn % 2 == 0 {
            shop.wait(1);
        }
    }
    shop.settle().await;
    mine.reverse();
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = shop.records.orders_of(&buyer("ada"), after, 2).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.order.id);
        seen.extend(page.iter().map(|row| row.order.id));
    }
    assert_eq!(seen, mine);
    assert!(shop.records.orders_of(&buyer("Ada"), None, 10).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_merchant_filters_orders() {
    let mut shop = Shop::new(100, 10).await;
    let orders: Vec<OrderId> = (0..6).map(|_| shop.claim("ada", 1)).collect();
    shop.pay(orders[1]);
    shop.pay(orders[4]);
    shop.cancel(orders[2]);
    shop.claim("bob", 1);
    shop.settle().await;
    let numbers = async |filter: OrderFilter, after: Option<OrderId>| {
        let page = shop.records.all_orders(&filter, after, 3).await.unwrap();
        page.iter().map(|row| row.order.id.number).collect::<Vec<_>>()
    };
    let all = OrderFilter::default();
    assert_eq!(numbers(all.clone(), None).await, vec![6, 5, 4]);
    assert_eq!(numbers(all.clone(), Some(orders[4])).await, vec![3, 2, 1]);
    let of_sale = OrderFilter { sale: Some(shop.sale), ..all.clone() };
    assert_eq!(numbers(of_sale, Some(orders[4])).await, vec![3, 2, 1]);
    let paid = OrderFilter { state: Some(OrderState::Paid), ..all.clone() };
    assert_eq!(numbers(paid, None).await, vec![4, 1]);
    let held_of_ada = OrderFilter {
        state: Some(OrderState::Held),
        buyer: Some(buyer("ada")),
        sale: Some(shop.sale),
        order: None,
    };
    assert_eq!(numbers(held_of_ada.clone(), None).await, vec![5, 3, 0]);
    let one = OrderFilter { order: Some(orders[3]), ..all };
    assert_eq!(numbers(one.clone(), None).await, vec![3]);
    assert!(numbers(one, Some(orders[3])).await.is_empty());
    let paid_one = OrderFilter { order: Some(orders[4]), ..held_of_ada };
    assert!(numbers(paid_one, None).await.is_empty());
}
