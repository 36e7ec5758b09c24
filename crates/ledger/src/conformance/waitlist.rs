//! The waitlist: who may join it, and what is offered to whom when units come back.

use futures_util::future::join_all;
use penstock_domain::{
    Book, ClaimRefusal, Event, JoinRefusal, KeyDigest, LeaveReason, MAX_WAITERS, Order, OrderState,
    PaymentRefusal, Place, SaleTerms,
};

use super::{HOLD_SECONDS, Stage, Subject, buyer, claim, counts, order, sale, terms};
use crate::LedgerError;

impl<S: Subject> Stage<S> {
    async fn join(&self, who: &str, quantity: u32) -> Result<Place, LedgerError<JoinRefusal>> {
        self.ledger.join_waitlist(sale(1), buyer(who), quantity).await
    }

    async fn position(&self, who: &str) -> Option<u32> {
        let place = self.ledger.place_on_waitlist(sale(1), buyer(who)).await.unwrap();
        place.map(|place| place.position)
    }

    /// The buyer's only order.
    async fn order_of(&self, who: &str) -> Option<Order> {
        let mut orders = self.ledger.orders_of(buyer(who), 10).await.unwrap();
        assert!(orders.len() <= 1, "{orders:?}");
        orders.pop()
    }
}

fn refused<T>(refusal: JoinRefusal) -> Result<T, LedgerError<JoinRefusal>> {
    Err(LedgerError::Refused(refusal))
}

pub async fn the_first_waiter_is_offered_returned_units(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    let joined_at = stage.now();
    assert_eq!(stage.join("bob", 1).await, Ok(Place { position: 1, quantity: 1, joined_at }));
    assert_eq!(stage.join("cem", 1).await, Ok(Place { position: 2, quantity: 1, joined_at }));
    stage.pass_seconds(5);
    stage.ledger.cancel(anns.id, None).await.unwrap();
    let offered = stage.order_of("bob").await.expect("it was bob's turn");
    assert_eq!((offered.id, offered.quantity, offered.state), (order(sale(1), 1), 1, OrderState::Held));
    assert_eq!(offered.created_at, stage.now());
    assert_eq!(offered.pay_before, stage.now().plus_seconds(HOLD_SECONDS), "an offer has its own deadline");
    assert_eq!((stage.position("bob").await, stage.position("cem").await), (None, Some(1)));
    let stranger = stage.claim(&claim(sale(1), "dan", 1, "dan")).await;
    assert_eq!(stranger, Err(LedgerError::Refused(ClaimRefusal::SoldOut)));
    assert_eq!(stage.heard.latest(sale(1)).map(counts), Some((1, 0, 1, 0)), "it never was on sale");
    assert!(!stage.heard.has(KeyDigest::of_offer(0)), "nobody can repeat a claim that was never made");
    stage
        .ledger
        .confirm_payment(offered.id, Some(buyer("bob")))
        .await
        .expect("an offer is paid like any hold");
    assert_eq!(counts(stage.status(sale(1)).await), (1, 0, 0, 1));
}

pub async fn only_a_sold_out_sale_has_a_waitlist(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    assert_eq!(stage.join("bob", 1).await, refused(JoinRefusal::UnknownSale));
    let (opens_at, closes_at) = (stage.now().plus_seconds(10), stage.now().plus_seconds(20));
    let window = SaleTerms { opens_at: Some(opens_at), closes_at: Some(closes_at), ..terms(sale(1), 3, 2) };
    stage.ledger.publish(window).await.unwrap();
    assert_eq!(stage.join("bob", 1).await, refused(JoinRefusal::NotOpen));
    stage.pass_seconds(10);
    stage.accepted(sale(1), "ann", 2).await;
    assert_eq!(stage.join("bob", 2).await, refused(JoinRefusal::NotSoldOut), "one unit is left");
    stage.accepted(sale(1), "bob", 1).await;
    assert_eq!(stage.join("bob", 0).await, refused(JoinRefusal::InvalidQuantity));
    assert_eq!(stage.join("bob", 2).await, refused(JoinRefusal::LimitReached));
    assert_eq!(stage.join("bob", u32::MAX).await, refused(JoinRefusal::LimitReached));
    stage.ledger.pause(sale(1)).await.unwrap();
    assert_eq!(stage.join("bob", 1).await, refused(JoinRefusal::Paused));
    stage.ledger.resume(sale(1)).await.unwrap();
    assert_eq!(stage.join("bob", 1).await.map(|place| place.position), Ok(1));
    stage.pass_seconds(10);
    assert_eq!(stage.join("bob", 1).await, refused(JoinRefusal::Closed));
    assert_eq!(stage.position("bob").await, None, "nobody waits for a sale that is over");
}

pub async fn joining_twice_keeps_the_place(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 3).await;
    stage.accepted(sale(1), "ann", 1).await;
    let first = stage.join("bob", 2).await.unwrap();
    stage.join("cem", 1).await.unwrap();
    stage.pass_seconds(1);
    let states = stage.states().await;
    assert_eq!(stage.join("bob", 3).await, Ok(first));
    assert_eq!(stage.states().await, states, "nothing was decided");
    // All at once, as from many browser tabs.
    let places = join_all((0..20).map(|_| stage.join("dan", 1))).await;
    assert!(places.iter().all(|place| place.as_ref().is_ok_and(|place| place.position == 3)), "{places:?}");
}

pub async fn a_buyer_who_leaves_is_passed_over(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    for name in ["bob", "cem", "dan"] {
        stage.join(name, 1).await.unwrap();
    }
    let leave = async |who| stage.ledger.leave_waitlist(sale(1), buyer(who)).await.unwrap();
    assert!(leave("bob").await);
    assert!(!leave("bob").await, "leaving twice changes nothing");
    assert!(!leave("eve").await);
    assert_eq!((stage.position("cem").await, stage.position("dan").await), (Some(1), Some(2)));
    assert_eq!(stage.join("bob", 1).await.map(|place| place.position), Ok(3), "rejoining puts bob last");
    assert!(leave("cem").await);
    stage.ledger.cancel(anns.id, None).await.unwrap();
    assert!(stage.order_of("dan").await.is_some());
    assert!(stage.order_of("cem").await.is_none());
    assert_eq!(stage.position("bob").await, Some(1));
    assert!(!stage.ledger.leave_waitlist(sale(7), buyer("bob")).await.unwrap(), "no such sale");
}

pub async fn an_offer_is_what_is_available_within_the_limit(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 3, 3).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    stage.accepted(sale(1), "bob", 2).await;
    stage.join("cem", 3).await.unwrap();
    stage.join("bob", 1).await.unwrap();
    stage.join("dan", 3).await.unwrap();
    stage.ledger.cancel(anns.id, None).await.unwrap();
    let cems = stage.order_of("cem").await.unwrap();
    assert_eq!(cems.quantity, 1, "one unit came back");
    let restocked = stage.ledger.restock(sale(1), 9).await.unwrap();
    assert_eq!(counts(restocked), (12, 5, 7, 0), "units that nobody waits for are on sale");
    let orders = stage.ledger.orders_of(buyer("bob"), 10).await.unwrap();
    assert_eq!(orders.iter().map(|order| order.quantity).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(stage.order_of("dan").await.map(|order| order.quantity), Some(3));
    stage.claim(&claim(sale(1), "cem", 2, "more")).await.expect("the rest is for everybody");
}

pub async fn a_buyer_at_the_limit_is_passed_over(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    let bobs = stage.accepted(sale(1), "bob", 1).await;
    stage.join("ann", 1).await.unwrap();
    stage.join("cem", 1).await.unwrap();
    stage.ledger.pause(sale(1)).await.unwrap();
    stage.ledger.cancel(bobs.id, None).await.unwrap();
    stage.ledger.confirm_payment(anns.id, None).await.expect("there is a unit that was not offered yet");
    assert_eq!(stage.position("ann").await, Some(1));
    stage.ledger.restock(sale(1), 1).await.unwrap();
    stage.ledger.resume(sale(1)).await.unwrap();
    assert_eq!(stage.position("ann").await, None);
    assert!(stage.order_of("cem").await.is_some());
    assert_eq!(counts(stage.status(sale(1)).await), (2, 0, 1, 1));
}

pub async fn an_unpaid_offer_goes_to_the_next_waiter(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 1).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    for name in ["bob", "cem"] {
        stage.join(name, 1).await.unwrap();
    }
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    let refund = stage.ledger.confirm_payment(anns.id, None).await;
    assert_eq!(refund, Err(LedgerError::Refused(PaymentRefusal::RefundDue)), "her unit is offered to bob");
    stage.pass_seconds(HOLD_SECONDS - 1);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(0));
    stage.pass_seconds(1);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    let states = ["bob", "cem"].map(|who| stage.order_of(who));
    let states = join_all(states).await.into_iter().map(|order| order.map(|order| order.state));
    assert_eq!(states.collect::<Vec<_>>(), [Some(OrderState::Expired), Some(OrderState::Held)]);
    stage.join("bob", 1).await.expect("bob may wait again");
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    assert_eq!(stage.ledger.orders_of(buyer("bob"), 10).await.unwrap().len(), 2);
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(1));
    assert_eq!(counts(stage.status(sale(1)).await), (1, 1, 0, 0), "nobody is waiting now");
}

pub async fn holds_that_end_together_are_offered_together(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 3, 2).await;
    for name in ["ann", "bob", "cem"] {
        stage.accepted(sale(1), name, 1).await;
    }
    stage.join("dan", 2).await.unwrap();
    stage.join("eve", 2).await.unwrap();
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(3));
    assert_eq!(stage.order_of("dan").await.map(|order| order.quantity), Some(2));
    assert_eq!(stage.order_of("eve").await.map(|order| order.quantity), Some(1));
}

pub async fn a_paused_or_closed_sale_offers_nothing(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 2, 1).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    stage.accepted(sale(1), "bob", 1).await;
    for name in ["cem", "dan", "eve"] {
        stage.join(name, 1).await.unwrap();
    }
    stage.ledger.pause(sale(1)).await.unwrap();
    stage.ledger.cancel(anns.id, None).await.unwrap();
    assert_eq!(counts(stage.status(sale(1)).await), (2, 1, 1, 0));
    assert_eq!(stage.position("cem").await, Some(1));
    let resumed = stage.ledger.resume(sale(1)).await.unwrap();
    assert_eq!(counts(resumed), (2, 0, 2, 0), "a resumed sale offers before it sells");
    assert!(stage.order_of("cem").await.is_some());
    stage.ledger.close(sale(1)).await.unwrap();
    stage.pass_seconds(HOLD_SECONDS);
    assert_eq!(stage.ledger.expire_due(10).await, Ok(2));
    assert!(stage.order_of("dan").await.is_none());
    assert_eq!(stage.position("dan").await, None);
    assert_eq!(stage.join("dan", 1).await, refused(JoinRefusal::Closed));
    let waiters = stage.snapshot(sale(1)).await.waiters;
    let waiters: Vec<_> = waiters.iter().map(|waiter| waiter.buyer.as_str()).collect();
    assert_eq!(waiters, ["dan", "eve"], "the buyers who got nothing stay known");
}

pub async fn a_large_restock_serves_everyone_in_order(subject: impl Subject) {
    // More than a script on Redis reads or writes at once.
    const WAITERS: u32 = 6_000;
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 0, 2).await;
    let name = |number: u32| format!("buyer-{number}");
    for first in (0..WAITERS).step_by(1_000) {
        let names: Vec<String> = (first..first + 1_000).map(name).collect();
        join_all(names.iter().map(|who| stage.join(who, 2))).await;
    }
    assert_eq!(stage.position(&name(WAITERS - 1)).await, Some(WAITERS));
    let leavers = (0..WAITERS).step_by(3).map(|number| buyer(&name(number)));
    join_all(leavers.map(|buyer| stage.ledger.leave_waitlist(sale(1), buyer))).await;
    let left = WAITERS / 3 * 2;
    assert_eq!(stage.position(&name(WAITERS - 1)).await, Some(left));
    stage.ledger.restock(sale(1), 2 * (left - 10) - 1).await.unwrap();
    assert_eq!(stage.position(&name(WAITERS - 1)).await, Some(10));
    let orders = stage.snapshot(sale(1)).await.orders;
    let buyers = orders.iter().map(|known| known.order.buyer.as_str().to_owned());
    let expected = (0..WAITERS).filter(|number| number % 3 > 0).map(name);
    assert!(buyers.eq(expected.take(left as usize - 10)), "in the order in which they joined");
    assert_eq!(orders.last().map(|known| known.order.quantity), Some(1));
}

pub async fn a_full_list_is_served_by_one_restock(subject: impl Subject) {
    // Settlement reads this many at a time, fewer than one restock decides.
    const PART: usize = 500;
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 0, 1).await;
    let names: Vec<String> = (0..MAX_WAITERS).map(|number| format!("buyer-{number}")).collect();
    for names in names.chunks(2_000) {
        let places = join_all(names.iter().map(|who| stage.join(who, 1))).await;
        assert!(places.iter().all(Result::is_ok), "{:?}", places.iter().find(|place| place.is_err()));
    }
    assert_eq!(stage.join("one-more", 1).await, refused(JoinRefusal::WaitlistFull));
    assert_eq!(stage.position(&names[names.len() - 1]).await, Some(MAX_WAITERS));
    let restocked = stage.ledger.restock(sale(1), MAX_WAITERS).await;
    assert_eq!(restocked.map(counts), Ok((MAX_WAITERS, 0, MAX_WAITERS, 0)), "the restock is answered");
    let served = stage.snapshot(sale(1)).await;
    let buyers = served.orders.iter().map(|known| known.order.buyer.as_str());
    assert!(buyers.eq(&names), "in the order in which they joined");
    let (decisions, _) = stage.read_all(&stage.stream_of(sale(1)).await, PART).await;
    let mut book = Book::default();
    decisions.iter().for_each(|decision| book.apply(decision));
    assert!(book.snapshot().sales == [served], "the parts make up the whole");
}

pub async fn reopening_keeps_the_waiters(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1, 2).await;
    let anns = stage.accepted(sale(1), "ann", 1).await;
    for name in ["bob", "cem", "dan", "eve"] {
        stage.join(name, 2).await.unwrap();
        stage.pass_seconds(1);
    }
    stage.ledger.leave_waitlist(sale(1), buyer("cem")).await.unwrap();
    let (states, place) = (stage.states().await, stage.position("dan").await);
    let stage = stage.reopen().await;
    assert_eq!((stage.states().await, stage.position("dan").await), (states, place));
    stage.ledger.cancel(anns.id, None).await.unwrap();
    let bobs = stage.order_of("bob").await.unwrap();
    let stage = stage.reopen().await;
    assert_eq!(stage.join("cem", 1).await.map(|place| place.position), Ok(3));
    stage.ledger.cancel(bobs.id, None).await.unwrap();
    assert!(stage.order_of("dan").await.is_some());
    assert!(!stage.heard.has(KeyDigest::of_offer(0)), "not after a start either");
    let stream = stage.stream_of(sale(1)).await;
    let (decisions, _) = stage.read_all(&stream, 100).await;
    let offered = decisions.windows(2).filter_map(|pair| match [&pair[0].event, &pair[1].event] {
        [
            Event::Left { number, buyer, reason: LeaveReason::Offered, .. },
            Event::Held { buyer: holder, key, .. },
        ] => {
            assert_eq!((buyer, key.offered_to()), (holder, Some(*number)));
            Some(buyer.as_str())
        }
        _ => None,
    });
    assert_eq!(offered.collect::<Vec<_>>(), ["bob", "dan"]);
}
