//! The suite that every engine passes: tests of a ledger, written against the handle alone.
//!
//! An engine's tests say `penstock_ledger::ledger_conformance_suite!(make)`, where `make()` returns a fresh,
//! empty `Subject`. Every function of the suite becomes a test of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests, shared between engines")]

mod claims;
mod feed;
mod holds;
mod per_sale;
mod running;
mod sales;
mod waitlist;

use std::{
    collections::BTreeMap,
    future::Future,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
};

use penstock_domain::{
    BuyerId, Claim, ClaimRefusal, Cursor, Decision, KeyDigest, Order, OrderId, SaleId, SaleSnapshot,
    SaleStatus, SaleTerms, Timestamp,
};

pub use self::{
    claims::*,
    feed::*,
    holds::*,
    per_sale::{History, PerSale},
    running::*,
    sales::*,
    waitlist::*,
};
use crate::{BatcherOptions, Clock, Health, Ledger, LedgerError, Listener, SaleNews};

/// An engine under test.
pub trait Subject: Send + Sync + 'static {
    /// Opens the ledger. If it was open before and was stopped, it still has everything that was in it.
    fn open(
        &self,
        options: BatcherOptions,
        clock: Clock,
        listener: Arc<dyn Listener>,
    ) -> impl Future<Output = Ledger> + Send;
}

const OPENING: i64 = 1_700_000_000_000;
const HOLD_SECONDS: u32 = 60;

/// A ledger, control over its clock, and everything it told its listener.
struct Stage<S> {
    subject: S,
    ledger: Ledger,
    time: Arc<AtomicI64>,
    heard: Arc<NewsHeard>,
}

#[derive(Default)]
struct NewsHeard {
    news: Mutex<Vec<SaleNews>>,
}

impl Listener for NewsHeard {
    fn sales_changed(&self, news: &[SaleNews]) {
        self.news.lock().unwrap().extend_from_slice(news);
    }
}

impl NewsHeard {
    fn has(&self, key: KeyDigest) -> bool {
        self.news.lock().unwrap().iter().any(|news| news.accepted.contains(&key))
    }

    fn latest(&self, sale: SaleId) -> Option<SaleStatus> {
        self.news
            .lock()
            .unwrap()
            .iter()
            .rev()
            .map(|news| news.status)
            .find(|status| status.terms.sale == sale)
    }
}

impl<S: Subject> Stage<S> {
    async fn open(subject: S) -> Self {
        Self::open_with(subject, BatcherOptions::default()).await
    }

    async fn open_with(subject: S, options: BatcherOptions) -> Self {
        let time = Arc::new(AtomicI64::new(OPENING));
        Self::open_at(subject, options, time).await
    }

    async fn open_at(subject: S, options: BatcherOptions, time: Arc<AtomicI64>) -> Self {
        let heard = Arc::new(NewsHeard::default());
        let clock = {
            let time = time.clone();
            Arc::new(move || Timestamp::from_millis(time.load(SeqCst)))
        };
        let ledger = subject.open(options, clock, heard.clone()).await;
        assert_eq!(ledger.recovered().await, Health::Ready);
        Self { subject, ledger, time, heard }
    }

    async fn reopen(self) -> Self {
        self.ledger.stop().await;
        Self::open_at(self.subject, BatcherOptions::default(), self.time).await
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.time.load(SeqCst))
    }

    fn pass_seconds(&self, seconds: u32) {
        self.time.fetch_add(i64::from(seconds) * 1000, SeqCst);
    }

    async fn publish(&self, sale: SaleId, units: u32, limit_per_buyer: u32) -> SaleStatus {
        self.ledger.publish(terms(sale, units, limit_per_buyer)).await.unwrap()
    }

    async fn claim(&self, claim: &Claim) -> Result<Order, LedgerError<ClaimRefusal>> {
        self.ledger.claim(claim.clone()).await
    }

    async fn accepted(&self, sale: SaleId, who: &str, quantity: u32) -> Order {
        self.claim(&claim(sale, who, quantity, who)).await.unwrap()
    }

    /// The sale's counts, read with a command that changes nothing.
    async fn status(&self, sale: SaleId) -> SaleStatus {
        self.ledger.restock(sale, 0).await.unwrap()
    }

    async fn streams(&self) -> Vec<Arc<str>> {
        let mut streams = self.ledger.feed().streams().await.unwrap();
        streams.sort();
        streams
    }

    /// The state of every stream, and its position. The clocks are left out: questions move them without a
    /// decision.
    async fn states(&self) -> BTreeMap<Arc<str>, (u64, Vec<SaleSnapshot>)> {
        let mut states = BTreeMap::new();
        for stream in self.streams().await {
            let state = self.ledger.feed().state(&stream).await.unwrap();
            assert!(
                states.insert(stream, (state.position, state.sales)).is_none(),
                "a stream is named twice"
            );
        }
        states
    }

    /// The stream that has the decisions of `sale`.
    async fn stream_of(&self, sale: SaleId) -> Arc<str> {
        let has_sale = |sales: &[SaleSnapshot]| sales.iter().any(|one| one.status.terms.sale == sale);
        let mut streams = self.states().await.into_iter().filter(|(_, (_, sales))| has_sale(sales));
        let (stream, _) = streams.next().expect("every sale has a stream");
        assert!(streams.next().is_none(), "a sale is in two streams");
        stream
    }

    async fn snapshot(&self, sale: SaleId) -> SaleSnapshot {
        let sales = self.states().await.into_values().flat_map(|(_, sales)| sales);
        sales.into_iter().find(|one| one.status.terms.sale == sale).unwrap()
    }

    /// All decisions of `stream`, read `step` at a time, and the cursor after them.
    async fn read_all(&self, stream: &str, step: usize) -> (Vec<Decision>, Cursor) {
        let (mut decisions, mut cursor) = (Vec::new(), Cursor::default());
        loop {
            let piece = self.ledger.feed().read(stream, cursor, step).await.unwrap();
            assert!(piece.decisions.len() <= step);
            let Some(end) = piece.end() else {
                assert_eq!(piece.mark, cursor.mark, "nothing new, nothing to mark");
                return (decisions, cursor);
            };
            cursor = end;
            decisions.extend(piece.decisions);
        }
    }
}

fn sale(number: u64) -> SaleId {
    SaleId::from_random(number)
}

fn terms(sale: SaleId, units: u32, limit_per_buyer: u32) -> SaleTerms {
    SaleTerms { sale, units, limit_per_buyer, opens_at: None, closes_at: None, hold_seconds: HOLD_SECONDS }
}

fn buyer(who: &str) -> BuyerId {
    BuyerId::of_subject(who).unwrap()
}

fn claim(sale: SaleId, who: &str, quantity: u32, key: &str) -> Claim {
    Claim { sale, buyer: buyer(who), quantity, key: KeyDigest::of(key.as_bytes()).unwrap() }
}

fn counts(status: SaleStatus) -> (u32, u32, u32, u32) {
    (status.total, status.available, status.held, status.paid)
}

fn order(sale: SaleId, number: u32) -> OrderId {
    OrderId { sale, number }
}

/// Makes a test of every function of the suite, for the engine that `$make` (a function without arguments)
/// returns.
#[macro_export]
macro_rules! ledger_conformance_suite {
    ($make:path) => {
        $crate::ledger_conformance_suite!($make:
            a_retry_gets_the_first_answer,
            a_recall_gets_the_first_answer_and_makes_no_order,
            a_key_with_another_quantity_is_refused,
            a_key_counts_per_buyer_and_per_sale,
            a_buyer_never_exceeds_the_limit,
            nobody_has_more_orders_than_an_entry_can_hold,
            a_refused_claim_does_not_use_up_its_key,
            an_impossible_claim_is_refused,
            it_never_oversells_under_concurrency,
            units_are_conserved_when_everything_happens_at_once,
            publishing_twice_changes_nothing,
            impossible_terms_are_refused,
            restocked_units_are_sold,
            a_paused_sale_sells_nothing_until_it_resumes,
            a_closed_sale_stays_closed,
            a_sale_opens_and_closes_by_the_clock,
            an_unknown_sale_is_refused,
            an_expired_hold_returns_its_units,
            expiry_releases_no_more_than_asked,
            a_payment_in_time_makes_a_sale,
            a_late_payment_gets_a_unit_if_there_is_one,
            a_late_payment_without_a_unit_is_refunded_for_good,
            a_late_payment_gets_its_unit_even_if_the_sale_is_closed,
            cancelling_returns_the_units_once,
            only_a_hold_can_be_cancelled,
            a_foreign_buyer_finds_nothing,
            a_buyer_sees_own_orders_newest_first,
            the_first_waiter_is_offered_returned_units,
            only_a_sold_out_sale_has_a_waitlist,
            joining_twice_keeps_the_place,
            a_buyer_who_leaves_is_passed_over,
            an_offer_is_what_is_available_within_the_limit,
            a_buyer_at_the_limit_is_passed_over,
            an_unpaid_offer_goes_to_the_next_waiter,
            holds_that_end_together_are_offered_together,
            a_paused_or_closed_sale_offers_nothing,
            a_large_restock_serves_everyone_in_order,
            a_full_list_is_served_by_one_restock,
            the_feed_has_no_gaps_and_rebuilds_the_state,
            the_feed_ends_at_its_head,
            a_cursor_of_another_history_is_noticed,
            settled_decisions_stay_in_the_state,
            news_arrives_before_the_answer,
            old_news_is_recognised_by_its_version,
            a_full_queue_is_busy,
            a_buyer_who_stops_waiting_delays_nobody,
            stopping_answers_waiting_requests,
            a_stopped_ledger_is_unavailable,
            reopening_keeps_everything,
            reopening_keeps_the_waiters,
        );
    };
    ($make:path: $($sentence:ident,)+) => {
        $(
            #[tokio::test]
            async fn $sentence() {
                $crate::conformance::$sentence($make()).await;
            }
        )+
    };
}
