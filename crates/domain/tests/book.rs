//! `Book` against a naive model, and the rules of a sale, one test each.
#![allow(clippy::unwrap_used, reason = "a test may; the lint only knows functions marked as tests")]

#[path = "support/naive_model.rs"]
mod naive_model;
#[path = "support/naive_waitlist.rs"]
mod naive_waitlist;

use naive_model::NaiveLedger;
use naive_waitlist::NaiveWaiter;
use penstock_domain::*;
use proptest::prelude::*;

const START: i64 = 1_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_millis(START + seconds * 1000)
}

fn sale(number: u64) -> SaleId {
    SaleId::from_random(number)
}

fn buyer(number: u32) -> BuyerId {
    BuyerId::of_subject(&format!("buyer-{number}")).unwrap()
}

fn key(number: u32) -> KeyDigest {
    KeyDigest::of(format!("key-{number}").as_bytes()).unwrap()
}

fn terms(units: u32, limit_per_buyer: u32) -> SaleTerms {
    SaleTerms {
        sale: sale(1),
        units,
        limit_per_buyer,
        opens_at: Some(at(0)),
        closes_at: Some(at(100)),
        hold_seconds: 10,
    }
}

/// A book and its feed, so that every test can check that the feed rebuilds the book.
#[derive(Default)]
struct Bench {
    book: Book,
    feed: Vec<Decision>,
}

impl Bench {
    fn with(terms: SaleTerms) -> Self {
        let mut bench = Self::default();
        assert!(matches!(bench.run(Command::Publish(terms), at(-5)), Reply::Sale(Ok(_))));
        bench
    }

    fn run(&mut self, command: Command, now: Timestamp) -> Reply {
        self.book.execute(command, now, &mut self.feed)
    }

    fn claim(&mut self, who: u32, quantity: u32, k: u32, seconds: i64) -> Result<Order, ClaimRefusal> {
        let claim = Claim { sale: sale(1), buyer: buyer(who), quantity, key: key(k) };
        match self.run(Command::Claim(claim), at(seconds)) {
            Reply::Verdict(verdict) => verdict.map(|accepted| accepted.order),
            other => panic!("{other:?}"),
        }
    }

    fn recall(&mut self, who: u32, quantity: u32, k: u32, seconds: i64) -> Result<Order, ClaimRefusal> {
        let claim = Claim { sale: sale(1), buyer: buyer(who), quantity, key: key(k) };
        match self.run(Command::Recall(claim), at(seconds)) {
            Reply::Verdict(verdict) => verdict.map(|accepted| accepted.order),
            other => panic!("{other:?}"),
        }
    }

    fn pay(&mut self, order: &Order, seconds: i64) -> Result<Order, PaymentRefusal> {
        match self.run(Command::ConfirmPayment { order: order.id, buyer: None }, at(seconds)) {
            Reply::Payment(answer) => answer,
            other => panic!("{other:?}"),
        }
    }

    fn expire(&mut self, seconds: i64) -> u32 {
        match self.run(Command::ExpireDue { max: 1000 }, at(seconds)) {
            Reply::Expired(count) => count,
            other => panic!("{other:?}"),
        }
    }

    fn available(&self) -> u32 {
        self.book.status(sale(1)).unwrap().available
    }
}

#[test]
fn a_sale_sells_exactly_its_units() {
    let mut bench = Bench::with(terms(3, 1));
    for number in 0..3 {
        assert!(bench.claim(number, 1, 0, 1).is_ok());
    }
    assert_eq!(bench.claim(3, 1, 0, 1), Err(ClaimRefusal::SoldOut));
    assert_eq!(bench.available(), 0);
}

#[test]
fn a_retry_gets_the_first_answer_even_after_payment_and_close() {
    let mut bench = Bench::with(terms(1, 1));
    let first = bench.claim(1, 1, 7, 1).unwrap();
    assert_eq!(bench.claim(1, 1, 7, 2), Ok(first.clone()));
    bench.pay(&first, 3).unwrap();
    bench.run(Command::Close(sale(1)), at(4));
    assert_eq!(bench.claim(1, 1, 7, 500), Ok(first));
    assert_eq!(bench.claim(1, 2, 7, 500), Err(ClaimRefusal::KeyReused));
}

#[test]
fn a_recall_repeats_the_first_answer_and_never_makes_an_order() {
    let mut bench = Bench::with(terms(5, 5));
    assert_eq!(bench.recall(1, 1, 7, 1), Err(ClaimRefusal::NotAccepted));
    assert_eq!(bench.available(), 5);
    let first = bench.claim(1, 1, 7, 2).unwrap();
    let decisions = bench.feed.len();
    assert_eq!(bench.recall(1, 1, 7, 3), Ok(first.clone()));
    assert_eq!(bench.recall(1, 2, 7, 3), Err(ClaimRefusal::KeyReused));
    assert_eq!(bench.recall(2, 1, 7, 3), Err(ClaimRefusal::NotAccepted), "another buyer's key");
    assert_eq!(bench.recall(1, 0, 8, 3), Err(ClaimRefusal::NotAccepted));
    assert_eq!(bench.recall(1, 1, 8, 500), Err(ClaimRefusal::NotAccepted), "after the close, too");
    assert_eq!(bench.recall(1, 1, 7, 500), Ok(first));
    assert_eq!(bench.feed.len(), decisions, "nothing was decided");
}

#[test]
fn a_key_belongs_to_its_buyer() {
    let mut bench = Bench::with(terms(2, 1));
    let (one, other) = (bench.claim(1, 1, 7, 1).unwrap(), bench.claim(2, 1, 7, 1).unwrap());
    assert_ne!(one.id, other.id);
}

#[test]
fn the_opening_hours_are_judged_by_the_time_passed_in() {
    let mut bench = Bench::with(terms(5, 5));
    assert_eq!(bench.claim(1, 1, 1, -1), Err(ClaimRefusal::NotOpen));
    assert!(bench.claim(1, 1, 1, 0).is_ok());
    assert!(bench.claim(1, 1, 2, 99).is_ok());
    assert_eq!(bench.claim(1, 1, 3, 100), Err(ClaimRefusal::Closed));
}

#[test]
fn a_clock_that_jumps_back_reopens_nothing() {
    let mut bench = Bench::with(terms(5, 5));
    assert_eq!(bench.claim(1, 1, 1, 100), Err(ClaimRefusal::Closed));
    assert_eq!(bench.claim(1, 1, 1, 50), Err(ClaimRefusal::Closed));
}

#[test]
fn a_late_payment_gets_a_unit_or_a_refund_that_is_final() {
    let mut bench = Bench::with(terms(1, 1));
    let late = bench.claim(1, 1, 1, 0).unwrap();
    assert_eq!(bench.expire(9), 0);
    assert_eq!(bench.expire(10), 1);
    let rival = bench.claim(2, 1, 1, 11).unwrap();
    assert_eq!(bench.pay(&late, 12), Err(PaymentRefusal::RefundDue));
    bench.run(Command::Cancel { order: rival.id, buyer: None }, at(13));
    assert_eq!(bench.available(), 1);
    assert_eq!(bench.pay(&late, 14), Err(PaymentRefusal::RefundDue), "the money is on its way back already");

    let mut bench = Bench::with(terms(1, 1));
    let late = bench.claim(1, 1, 1, 0).unwrap();
    bench.expire(10);
    assert_eq!(bench.pay(&late, 12).unwrap().state, OrderState::Paid);
    assert_eq!(bench.available(), 0);
}

#[test]
fn a_late_payment_does_not_lift_the_limit() {
    let mut bench = Bench::with(terms(5, 1));
    let late = bench.claim(1, 1, 1, 0).unwrap();
    bench.expire(10);
    bench.claim(1, 1, 2, 11).unwrap();
    assert_eq!(bench.pay(&late, 12), Err(PaymentRefusal::RefundDue));
}

#[test]
fn another_buyers_order_is_not_found() {
    let mut bench = Bench::with(terms(1, 1));
    let order = bench.claim(1, 1, 1, 0).unwrap().id;
    let foreign = Some(buyer(2));
    let cancel = bench.run(Command::Cancel { order, buyer: foreign.clone() }, at(1));
    assert_eq!(cancel, Reply::Cancelled(Err(CancelRefusal::UnknownOrder)));
    let pay = bench.run(Command::ConfirmPayment { order, buyer: foreign.clone() }, at(1));
    assert_eq!(pay, Reply::Payment(Err(PaymentRefusal::UnknownOrder)));
    assert_eq!(bench.run(Command::FindOrder { order, buyer: foreign }, at(1)), Reply::Found(None));
}

#[test]
fn a_buyer_can_not_claim_and_cancel_forever() {
    let mut bench = Bench::with(terms(5, 1));
    for key in 0..MAX_ORDERS_PER_BUYER as u32 {
        let order = bench.claim(1, 1, key, 1).unwrap().id;
        bench.run(Command::Cancel { order, buyer: None }, at(1));
    }
    assert_eq!(bench.claim(1, 1, 1_000, 1), Err(ClaimRefusal::LimitReached));
    bench.claim(2, 1, 1, 1).unwrap();
}

#[test]
fn extreme_quantities_are_refused() {
    let mut bench = Bench::with(terms(5, 5));
    assert_eq!(bench.claim(1, 0, 1, 1), Err(ClaimRefusal::InvalidQuantity));
    assert_eq!(bench.claim(1, 6, 1, 1), Err(ClaimRefusal::LimitReached));
    bench.claim(1, 1, 2, 1).unwrap();
    assert_eq!(bench.claim(1, u32::MAX, 3, 1), Err(ClaimRefusal::LimitReached));
    let restock = bench.run(Command::Restock { sale: sale(1), units: MAX_UNITS }, at(1));
    assert_eq!(restock, Reply::Sale(Err(SaleRefusal::TooManyUnits)));
    let terms = SaleTerms { sale: sale(2), limit_per_buyer: 0, ..terms(1, 1) };
    assert_eq!(bench.run(Command::Publish(terms), at(1)), Reply::Sale(Err(SaleRefusal::InvalidTerms)));
}

#[test]
#[should_panic(expected = "the feed has a gap")]
fn a_feed_with_a_gap_is_not_applied() {
    let bench = Bench::with(terms(1, 1));
    let mut book = Book::default();
    book.apply(&Decision { position: 2, ..bench.feed[0].clone() });
}

#[test]
#[should_panic(expected = "units taken")]
fn a_feed_that_oversells_ends_the_process() {
    let mut bench = Bench::with(terms(1, 5));
    bench.claim(1, 1, 1, 1).unwrap();
    let order = OrderId { sale: sale(1), number: 1 };
    let event = Event::Held { order, buyer: buyer(2), quantity: 1, key: key(1) };
    bench.book.apply(&Decision { position: 3, at: at(2), event });
}

#[test]
fn a_waitlist_has_a_bound() {
    let mut bench = Bench::with(terms(1, 1));
    let order = bench.claim(0, 1, 0, 1).unwrap().id;
    let mut join =
        |who| match bench.run(Command::Join { sale: sale(1), buyer: buyer(who), quantity: 1 }, at(1)) {
            Reply::Joined(place) => place.map(|place| place.position),
            other => panic!("{other:?}"),
        };
    for number in 1..=MAX_WAITERS {
        assert_eq!(join(number), Ok(number));
    }
    let one_more = MAX_WAITERS + 1;
    assert_eq!(join(one_more), Err(JoinRefusal::WaitlistFull));
    assert_eq!(join(7), Ok(7), "a waiter keeps their place");
    bench.run(Command::Cancel { order, buyer: None }, at(2));
    let join = Command::Join { sale: sale(1), buyer: buyer(one_more), quantity: 1 };
    let Reply::Joined(Ok(place)) = bench.run(join, at(2)) else { panic!("a place is free now") };
    assert_eq!(place.position, MAX_WAITERS);
}

#[derive(Clone, Debug)]
enum Step {
    Wait(i64),
    Run(Command),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let sale_id = (1u64..4).prop_map(sale);
    let order = (sale_id.clone(), 0u32..12).prop_map(|(sale, number)| OrderId { sale, number });
    let asker = prop_oneof![3 => Just(None), 1 => (0u32..6).prop_map(|who| Some(buyer(who)))];
    let publish = (1u64..4, 0u32..12, 1u32..5, 1u32..20, proptest::option::of(0i64..60)).prop_map(
        |(number, units, limit_per_buyer, hold_seconds, window)| {
            let closes_at = window.map(|seconds| at(seconds + 60));
            let opens_at = window.map(at);
            SaleTerms { sale: sale(number), units, limit_per_buyer, opens_at, closes_at, hold_seconds }
        },
    );
    let claim = (sale_id.clone(), 0u32..6, 0u32..5, 0u32..8).prop_map(|(sale, who, quantity, k)| Claim {
        sale,
        buyer: buyer(who),
        quantity,
        key: key(k),
    });
    let restock = (sale_id.clone(), prop_oneof![9 => 0u32..4, 1 => Just(MAX_UNITS)]);
    let waiter = (sale_id.clone(), (0u32..6).prop_map(buyer));
    let join = (waiter.clone(), 0u32..5)
        .prop_map(|((sale, buyer), quantity)| Step::Run(Command::Join { sale, buyer, quantity }));
    let step = prop_oneof![
        3 => (0i64..15).prop_map(Step::Wait),
        2 => publish.prop_map(|terms| Step::Run(Command::Publish(terms))),
        20 => claim.clone().prop_map(|claim| Step::Run(Command::Claim(claim))),
        5 => claim.prop_map(|claim| Step::Run(Command::Recall(claim))),
        6 => (order.clone(), asker.clone())
            .prop_map(|(order, buyer)| Step::Run(Command::ConfirmPayment { order, buyer })),
        4 => (order, asker).prop_map(|(order, buyer)| Step::Run(Command::Cancel { order, buyer })),
        3 => Just(Step::Run(Command::ExpireDue { max: 1000 })),
        2 => restock.prop_map(|(sale, units)| Step::Run(Command::Restock { sale, units })),
        1 => sale_id.clone().prop_map(|sale| Step::Run(Command::Pause(sale))),
        2 => sale_id.clone().prop_map(|sale| Step::Run(Command::Resume(sale))),
        1 => sale_id.prop_map(|sale| Step::Run(Command::Close(sale))),
        10 => join,
        2 => waiter.clone().prop_map(|(sale, buyer)| Step::Run(Command::Leave { sale, buyer })),
        2 => waiter.prop_map(|(sale, buyer)| Step::Run(Command::FindPlace { sale, buyer })),
    ];
    proptest::collection::vec(step, 1..120)
}

fn model_reply(model: &mut NaiveLedger, command: &Command, now: Timestamp) -> Reply {
    match command {
        Command::Claim(claim) => Reply::Verdict(model.claim(claim, now)),
        Command::Recall(claim) => Reply::Verdict(model.recall(claim)),
        Command::ConfirmPayment { order, buyer } => {
            Reply::Payment(model.confirm_payment(*order, buyer.as_ref(), now))
        }
        Command::Cancel { order, buyer } => Reply::Cancelled(model.cancel(*order, buyer.as_ref())),
        Command::ExpireDue { .. } => Reply::Expired(model.expire_all_due(now)),
        Command::Join { sale, buyer, quantity } => Reply::Joined(model.join(*sale, buyer, *quantity, now)),
        Command::Leave { sale, buyer } => Reply::Left(model.leave(*sale, buyer)),
        Command::FindPlace { sale, buyer } => Reply::Place(model.place(*sale, buyer, now)),
        other => panic!("{other:?} should be compared by its effect"),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, ..ProptestConfig::default() })]

    #[test]
    fn book_and_a_naive_model_agree(steps in steps()) {
        let (mut bench, mut model, mut now) = (Bench::default(), NaiveLedger::default(), at(0));
        for step in steps {
            let command = match step {
                Step::Wait(seconds) => { now = now.plus_seconds(seconds as u32); continue; }
                Step::Run(command) => command,
            };
            let reply = bench.run(command.clone(), now);
            if let Reply::Sale(answer) = &reply {
                prop_assert_eq!(answer.map(|_| ()), model.change_sale(&command, now), "{:?}", command);
            } else {
                prop_assert_eq!(&reply, &model_reply(&mut model, &command, now), "{:?}", command);
            }
            model.serve(now);
            for SaleSnapshot { status, orders, waiters } in bench.book.snapshot().sales {
                let id = status.terms.sale;
                let expected = model.orders.iter().filter(|known| known.order.id.sale == id);
                prop_assert!(orders.iter().map(|known| &known.order).eq(expected.map(|known| &known.order)));
                let waiting = waiters.into_iter().map(|Waiter { buyer, quantity, joined_at, .. }| {
                    NaiveWaiter { sale: id, buyer, quantity, joined_at }
                });
                let waiting: Vec<NaiveWaiter> = waiting.collect();
                prop_assert!(waiting.is_empty() || status.state(now) != SaleState::Open, "{waiting:?}");
                let expected = model.waiting.iter().filter(|waiter| waiter.sale == id);
                prop_assert!(waiting.iter().eq(expected), "{waiting:?}");
                prop_assert_eq!(status.total, model.total(id));
                prop_assert_eq!(status.available, model.available(id));
                prop_assert_eq!(status.held, model.units(id, OrderState::Held));
                prop_assert_eq!(status.paid, model.units(id, OrderState::Paid));
            }
        }

        let mut rebuilt = Book::default();
        for decision in &bench.feed {
            rebuilt.apply(decision);
        }
        let snapshot = bench.book.snapshot();
        // Questions move the clock but add nothing to the feed.
        let sales_of = |book: &Book| book.snapshot().sales;
        prop_assert_eq!(sales_of(&rebuilt), snapshot.sales.clone(), "the feed rebuilds the book");
        prop_assert_eq!(rebuilt.position(), snapshot.position);
        prop_assert_eq!(Book::from_snapshot(snapshot.clone()).snapshot(), snapshot, "so does a snapshot");
    }
}
