//! Closed and settled sales leave Redis; others stay.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, FutureExt};
use penstock_domain::{
    BuyerId, Claim, ClaimRefusal, Cursor, JoinRefusal, KeyDigest, NewEpoch, OrderId, PaymentRefusal, SaleId,
    SaleTerms, SettledSale,
};
use penstock_ledger::{
    Health, Ledger, LedgerError, Listener, SaleNews, Unavailable,
    redis::{self, LedgerOptions, Settled},
};
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions};

struct Deaf;

impl Listener for Deaf {
    fn sales_changed(&self, _: &[SaleNews]) {}
}

/// Records that know only how far each sale is complete.
#[derive(Default)]
struct Cursors(Mutex<BTreeMap<SaleId, Cursor>>);

impl Settled for Cursors {
    fn begin_epoch(&self, _: SaleId, epoch: u64) -> BoxFuture<'_, Result<NewEpoch, Unavailable>> {
        std::future::ready(Ok(NewEpoch { cursor: Cursor::default(), epoch })).boxed()
    }

    fn sale(&self, _: SaleId, _: u64) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>> {
        std::future::ready(Ok(None)).boxed()
    }

    fn complete_up_to(&self, sale: SaleId) -> BoxFuture<'_, Result<Option<Cursor>, Unavailable>> {
        std::future::ready(Ok(self.0.lock().unwrap().get(&sale).copied())).boxed()
    }

    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }
}

fn claim(sale: SaleId, who: &str) -> Claim {
    let key = KeyDigest::of(who.as_bytes()).unwrap();
    Claim { sale, buyer: BuyerId::of_subject(who).unwrap(), quantity: 1, key }
}

/// A closed sale with an order, which is paid if `is_paid`, and with a waiter.
async fn closed_sale(ledger: &Ledger, number: u64, is_paid: bool) -> SaleId {
    let sale = SaleId::from_random(number);
    let terms =
        SaleTerms { sale, units: 1, limit_per_buyer: 1, opens_at: None, closes_at: None, hold_seconds: 900 };
    ledger.publish(terms).await.unwrap();
    let order = ledger.claim(claim(sale, "ann")).await.unwrap();
    if is_paid {
        ledger.confirm_payment(order.id, None).await.unwrap();
    }
    ledger.join_waitlist(sale, BuyerId::of_subject("bob").unwrap(), 1).await.unwrap();
    ledger.close(sale).await.unwrap();
    sale
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let limit = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < limit, "{what} took too long");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test]
async fn only_closed_and_settled_sales_leave_redis() {
    let folder = tempfile::tempdir().unwrap();
    let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
    let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
    let settled = Arc::new(Cursors::default());
    let options = LedgerOptions { forget_after_seconds: 1, ..LedgerOptions::default() };
    let ledger = redis::open(options, link, None, Arc::new(Deaf), settled.clone()).unwrap();
    assert_eq!(ledger.recovered().await, Health::Ready);
    let unsettled = closed_sale(&ledger, 1, true).await;
    let held = closed_sale(&ledger, 2, false).await;
    // A decision of this sale was put aside, so the records are not complete.
    let put_aside = closed_sale(&ledger, 4, true).await;
    // The records have settled as much of this sale, but of another history.
    let diverged = closed_sale(&ledger, 5, true).await;
    let over = closed_sale(&ledger, 3, true).await;
    for (sale, position) in [(unsettled, 4), (held, 4), (diverged, 5), (over, 5)] {
        let piece = ledger.feed().read(&sale.to_string(), Cursor::default(), position).await.unwrap();
        let mut cursor = piece.end().unwrap();
        cursor.mark.0[0] ^= u8::from(sale == diverged);
        settled.0.lock().unwrap().insert(sale, cursor);
    }
    let keys = |sale: SaleId| {
        let names = ["buyers", "orders", "feed", "waitlist", "waiters"];
        let names = names.map(|name| format!("{{{sale}}}:{name}"));
        server.cli(&["EXISTS", &names[0], &names[1], &names[2], &names[3], &names[4]]).unwrap()
    };
    // The sale leaves the list one look after its keys are gone, so the others have been looked at, too.
    let list = || server.cli(&["SISMEMBER", "penstock:sales", &over.to_string()]).unwrap();
    until("forgetting a sale", || list() == "0").await;
    assert_eq!(keys(over), "0");
    for sale in [unsettled, held, put_aside, diverged] {
        assert_eq!(keys(sale), "5");
    }

    let order = OrderId { sale: over, number: 0 };
    assert_eq!(ledger.find_order(order, None).await, Ok(None));
    let payment = ledger.confirm_payment(order, None).await;
    assert_eq!(payment, Err(LedgerError::Refused(PaymentRefusal::UnknownOrder)));
    for name in ["ann", "bob"] {
        let answer = ledger.claim(claim(over, name)).await;
        assert_eq!(answer, Err(LedgerError::Refused(ClaimRefusal::Closed)));
    }
    let counts = ledger.close(over).await.unwrap();
    assert_eq!((counts.total, counts.paid, counts.closed), (1, 1, true));
    let bob = BuyerId::of_subject("bob").unwrap();
    assert_eq!(ledger.leave_waitlist(over, bob.clone()).await, Ok(false));
    let joined = ledger.join_waitlist(over, bob, 1).await;
    assert_eq!(joined, Err(LedgerError::Refused(JoinRefusal::Closed)));
    assert_eq!(ledger.orders_of(BuyerId::of_subject("ann").unwrap(), 9).await.unwrap().len(), 4);
    until("leaving the streams", || {
        let streams = ledger.feed().streams().now_or_never().unwrap().unwrap();
        !streams.contains(&over.to_string().into())
    })
    .await;
}
