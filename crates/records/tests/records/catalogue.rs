//! Items, sales, and the schema itself.

use std::convert::Infallible;

use futures_util::future::join_all;
use penstock_domain::{ChallengeKind, GateTerms, ItemId, Money, SaleId};
use penstock_records::{ChangeDraftError, Records, RecordsError, SaleRow};
use sqlx::Executor;

use super::{
    Database,
    shop::{item, moment, open, sale_row},
};

#[tokio::test]
async fn an_item_can_be_changed_and_reads_back() {
    let database = Database::new();
    let records = open(&database).await;
    let mut lamp = item(1, moment(0));
    records.create_item(&lamp).await.unwrap();
    lamp.title = "Lamp, 灯".into();
    lamp.picture = Some("/lamp.webp".into());
    lamp.regular_price = Money::parse("5000", "JPY").unwrap();
    assert!(records.update_item(&lamp).await.unwrap());
    assert_eq!(records.item(lamp.id).await.unwrap(), Some(lamp));
    assert!(!records.update_item(&item(2, moment(0))).await.unwrap());
    assert_eq!(records.item(ItemId::from_random(2)).await.unwrap(), None);
}

#[tokio::test]
async fn items_come_newest_first_and_page_by_page() {
    let database = Database::new();
    let records = open(&database).await;
    // Several were created at the same moment, so that the id has to decide.
    for id in 1..=7 {
        records.create_item(&item(id, moment(id as i64 / 2))).await.unwrap();
    }
    let mut seen = Vec::new();
    let mut after = None;
    loop {
        let page = records.items(after, 3).await.unwrap();
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        seen.extend(page.iter().map(|item| item.id.as_u64()));
    }
    assert_eq!(seen, vec![7, 6, 5, 4, 3, 2, 1]);
}

#[tokio::test]
async fn a_sale_reads_back_and_is_published_once() {
    let database = Database::new();
    let records = open(&database).await;
    records.create_item(&item(1, moment(0))).await.unwrap();
    let mut sale = sale_row(SaleId::from_random(u64::MAX), ItemId::from_random(1), 100, 2);
    sale.opens_at = Some(moment(100));
    sale.gate = GateTerms { challenge: ChallengeKind::Pow, waiting_room: true, pass_required: true };
    records.create_sale(&sale).await.unwrap();
    assert_eq!(records.sale(sale.id).await.unwrap(), Some(sale.clone()));
    assert!(records.sales(true, None, 10).await.unwrap().is_empty());
    assert!(records.mark_published(sale.id, moment(5)).await.unwrap());
    assert!(records.mark_published(sale.id, moment(6)).await.unwrap());
    sale.published_at = Some(moment(5));
    assert_eq!(records.sales(true, None, 10).await.unwrap(), vec![sale.clone()]);
    assert!(records.sales(false, Some(sale.id), 10).await.unwrap().is_empty());
    assert!(!records.mark_published(SaleId::from_random(1), moment(5)).await.unwrap());
}

/// Replaces the draft with `sale`.
async fn replace(records: &Records, sale: &SaleRow) -> Result<SaleRow, ChangeDraftError<Infallible>> {
    records.change_draft(sale.id, |_| Ok(sale.clone())).await
}

#[tokio::test]
async fn a_draft_changes_until_its_terms_are_fixed() {
    let database = Database::new();
    let records = open(&database).await;
    for id in [1, 2] {
        records.create_item(&item(id, moment(0))).await.unwrap();
    }
    let mut sale = sale_row(SaleId::from_random(1), ItemId::from_random(1), 100, 2);
    assert!(matches!(replace(&records, &sale).await, Err(ChangeDraftError::Unknown)), "there is none yet");
    records.create_sale(&sale).await.unwrap();
    sale.item_id = ItemId::from_random(2);
    sale.price.minor += 1;
    (sale.units, sale.limit_per_buyer, sale.hold_seconds) = (7, 3, 90);
    (sale.opens_at, sale.closes_at) = (Some(moment(1)), Some(moment(2)));
    sale.gate.waiting_room = true;
    // A change that changes nothing succeeds, too.
    for _ in 0..2 {
        assert_eq!(replace(&records, &sale).await.unwrap(), sale);
        assert_eq!(records.sale(sale.id).await.unwrap(), Some(sale.clone()));
    }
    let refused = records.change_draft(sale.id, |_| Err("no")).await;
    assert!(matches!(refused, Err(ChangeDraftError::Refused("no"))), "{refused:?}");
    let of_nothing = SaleRow { item_id: ItemId::from_random(3), ..sale.clone() };
    let refused = replace(&records, &of_nothing).await;
    assert!(matches!(refused, Err(ChangeDraftError::Records(RecordsError::Refused(_)))), "{refused:?}");
    assert_eq!(records.sale(sale.id).await.unwrap(), Some(sale.clone()));

    for seconds in [5, 6] {
        assert_eq!(records.fix_terms(sale.id, moment(seconds)).await.unwrap(), Some(sale.clone()));
    }
    let other = SaleRow { units: 8, ..sale.clone() };
    assert!(matches!(replace(&records, &other).await, Err(ChangeDraftError::Fixed)));
    assert_eq!(records.sale(sale.id).await.unwrap(), Some(sale));
    assert_eq!(records.fix_terms(SaleId::from_random(2), moment(5)).await.unwrap(), None);
}

#[tokio::test]
async fn a_published_sale_is_not_a_draft() {
    let database = Database::new();
    let records = open(&database).await;
    records.create_item(&item(1, moment(0))).await.unwrap();
    let sale = sale_row(SaleId::from_random(1), ItemId::from_random(1), 100, 2);
    records.create_sale(&sale).await.unwrap();
    // As older versions did it, before terms were fixed first.
    records.mark_published(sale.id, moment(5)).await.unwrap();
    assert!(matches!(replace(&records, &sale).await, Err(ChangeDraftError::Fixed)));
}

#[tokio::test]
async fn changes_to_a_draft_do_not_undo_each_other() {
    let database = Database::new();
    let records = open(&database).await;
    records.create_item(&item(1, moment(0))).await.unwrap();
    let sale = sale_row(SaleId::from_random(1), ItemId::from_random(1), 100, 2);
    records.create_sale(&sale).await.unwrap();
    let one_more = |draft: SaleRow| Ok::<_, Infallible>(SaleRow { units: draft.units + 1, ..draft });
    let changes = join_all((0..20).map(|_| records.change_draft(sale.id, one_more))).await;
    assert!(changes.iter().all(Result::is_ok), "{changes:?}");
    assert_eq!(records.sale(sale.id).await.unwrap().unwrap().units, 120);
}

#[tokio::test]
async fn a_sale_of_an_unknown_item_is_refused() {
    let database = Database::new();
    let records = open(&database).await;
    let sale = sale_row(SaleId::from_random(1), ItemId::from_random(1), 100, 2);
    let refused = records.create_sale(&sale).await;
    assert!(matches!(refused, Err(RecordsError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn records_of_a_newer_version_are_left_alone() {
    let database = Database::new();
    open(&database).await.close().await;
    let mut connection = database.connect().await;
    connection
        .execute(
            "INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) \
             VALUES (9999, 'from the future', 1, x'00', 0)",
        )
        .await
        .unwrap();
    let refused = Records::open(&database.url(), 2).await;
    assert!(matches!(refused, Err(RecordsError::Newer(9999))), "{refused:?}");
}
