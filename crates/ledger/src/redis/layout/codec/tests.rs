//! Packed data reads back unchanged, and the scripts write the same bytes as the codec.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::sync::Arc;

use penstock_domain::{Claim, Command};
use penstock_local::{RedisServer, RedisSettings};
use penstock_redis_client::{Link, RedisOptions, Script};
use proptest::{collection::vec, option, prelude::*};

use super::*;
use crate::redis::{
    Keys,
    decide::{SaleAnswer, SaleBatch, SaleOutcome, decide_script},
    feed::read_entries,
    store::Store,
};

const SALE: SaleId = SaleId::from_random(0x0123_4567_89ab_cdef);
const HOLD_SECONDS: u32 = 60;

/// An entry's bytes, packed without the scripts.
fn pack_entry(first: u64, at: Timestamp, decisions: &[Decision]) -> Vec<u8> {
    let first_number = decisions.iter().find_map(|decision| match &decision.event {
        Event::Held { order, .. } => Some(order.number),
        _ => None,
    });
    let mut bytes = first.to_le_bytes().to_vec();
    bytes.extend_from_slice(&at.as_millis().to_le_bytes());
    bytes.extend_from_slice(&first_number.unwrap_or(0).to_le_bytes());
    let is_accepted = |decision: &Decision| matches!(decision.event, Event::Held { .. });
    for run in decisions.chunk_by(|one, next| is_accepted(one) && is_accepted(next)) {
        match run {
            [decision] if !is_accepted(decision) => put_event(&mut bytes, &decision.event),
            accepted => put_accepted(&mut bytes, accepted),
        }
    }
    bytes
}

fn put_accepted(bytes: &mut Vec<u8>, run: &[Decision]) {
    bytes.push(b'H');
    bytes.extend_from_slice(&u32::try_from(run.len()).unwrap().to_le_bytes());
    let mut names = Vec::new();
    for decision in run {
        let Event::Held { buyer, quantity, key, .. } = &decision.event else { unreachable!() };
        put_claim(bytes, *key, *quantity);
        names.extend_from_slice(&pack_names([buyer].into_iter()));
    }
    bytes.extend_from_slice(&names);
}

fn put_event(bytes: &mut Vec<u8>, event: &Event) {
    let mut put = |letter: u8, numbers: &[u32]| {
        bytes.push(letter);
        numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
    };
    match event {
        Event::Published(terms) => {
            put(b'U', &[]);
            bytes.extend_from_slice(&pack_terms(terms));
        }
        Event::Restocked { units, .. } => put(b'S', &[*units]),
        Event::Paused(_) => put(b'Z', &[]),
        Event::Resumed(_) => put(b'W', &[]),
        Event::Closed(_) => put(b'X', &[]),
        Event::Held { .. } => unreachable!("in a run of its own"),
        Event::Paid { order, quantity, after_expiry } => {
            put(if *after_expiry { b'L' } else { b'P' }, &[order.number, *quantity]);
        }
        Event::Released { order, quantity, reason: ReleaseReason::Expired } => {
            put(b'E', &[order.number, *quantity]);
        }
        Event::Released { order, quantity, reason: ReleaseReason::Cancelled } => {
            put(b'C', &[order.number, *quantity]);
        }
        Event::RefundDue { order } => put(b'R', &[order.number]),
        Event::Joined { number, buyer, quantity, .. } => {
            put(b'J', &[*number, *quantity]);
            bytes.extend_from_slice(&pack_names([buyer].into_iter()));
        }
        Event::Left { number, buyer, reason, .. } => {
            let letter = match reason {
                LeaveReason::Asked => b'D',
                LeaveReason::Offered => b'O',
                LeaveReason::LimitReached => b'N',
            };
            put(letter, &[*number]);
            bytes.extend_from_slice(&pack_names([buyer].into_iter()));
        }
    }
}

fn moments() -> impl Strategy<Value = Timestamp> {
    (0..1_i64 << 50).prop_map(Timestamp::from_millis)
}

fn keys() -> impl Strategy<Value = KeyDigest> {
    any::<[u64; 2]>().prop_map(KeyDigest::from_words)
}

fn buyers() -> impl Strategy<Value = BuyerId> {
    "[a-zà-ÿ0-9: -]{1,60}".prop_map(|name| BuyerId::from_stored(&name))
}

fn terms() -> impl Strategy<Value = SaleTerms> {
    (any::<[u32; 3]>(), option::of(moments()), option::of(moments())).prop_map(
        |([units, limit_per_buyer, hold_seconds], opens_at, closes_at)| SaleTerms {
            sale: SALE,
            units,
            limit_per_buyer,
            opens_at,
            closes_at,
            hold_seconds,
        },
    )
}

fn found() -> impl Strategy<Value = FoundSale> {
    let (counts, flags) = (any::<[u32; 4]>(), any::<[bool; 3]>());
    (terms(), counts, flags, 0..1_u32 << 20, 0..1_u64 << 40, option::of(moments())).prop_map(
        |(terms, [total, available, held, paid], [paused, closed, forgotten], epoch, position, due)| {
            let version = version_of(epoch, position);
            let status = SaleStatus { terms, total, available, held, paid, paused, closed, version };
            FoundSale { status, forgotten, due }
        },
    )
}

fn orders() -> impl Strategy<Value = SnapshotOrder> {
    let states = prop_oneof![
        Just((OrderState::Held, false)),
        Just((OrderState::Paid, false)),
        Just((OrderState::Expired, false)),
        Just((OrderState::Expired, true)),
        Just((OrderState::Cancelled, false)),
    ];
    (any::<[u32; 2]>(), buyers(), keys(), states, moments(), moments()).prop_map(
        |([number, quantity], buyer, key, (state, refund_due), created_at, paid_at)| {
            let order = Order {
                id: OrderId { sale: SALE, number },
                buyer,
                quantity,
                state,
                created_at,
                pay_before: created_at.plus_seconds(HOLD_SECONDS),
                paid_at: (state == OrderState::Paid).then_some(paid_at),
                refund_due,
            };
            SnapshotOrder { order, key }
        },
    )
}

/// Events. New orders are numbered later, by their place.
fn events() -> impl Strategy<Value = Event> {
    let id = |number| OrderId { sale: SALE, number };
    prop_oneof![
        terms().prop_map(Event::Published),
        any::<u32>().prop_map(|units| Event::Restocked { sale: SALE, units }),
        Just(Event::Paused(SALE)),
        Just(Event::Resumed(SALE)),
        Just(Event::Closed(SALE)),
        (buyers(), any::<u32>(), keys()).prop_map(move |(buyer, quantity, key)| Event::Held {
            order: id(0),
            buyer,
            quantity,
            key
        }),
        (any::<[u32; 2]>(), any::<bool>()).prop_map(move |([number, quantity], after_expiry)| {
            Event::Paid { order: id(number), quantity, after_expiry }
        }),
        (any::<[u32; 2]>(), any::<bool>()).prop_map(move |([number, quantity], is_expired)| {
            let reason = if is_expired { ReleaseReason::Expired } else { ReleaseReason::Cancelled };
            Event::Released { order: id(number), quantity, reason }
        }),
        any::<u32>().prop_map(move |number| Event::RefundDue { order: id(number) }),
        (buyers(), any::<[u32; 2]>()).prop_map(|(buyer, [number, quantity])| Event::Joined {
            sale: SALE,
            number,
            buyer,
            quantity
        }),
        (buyers(), any::<u32>(), reasons()).prop_map(|(buyer, number, reason)| Event::Left {
            sale: SALE,
            number,
            buyer,
            reason
        }),
    ]
}

fn reasons() -> impl Strategy<Value = LeaveReason> {
    prop_oneof![Just(LeaveReason::Asked), Just(LeaveReason::Offered), Just(LeaveReason::LimitReached)]
}

fn decisions_of(events: Vec<Event>, first: u64, at: Timestamp, first_number: u32) -> Vec<Decision> {
    let mut next_number = first_number;
    let numbered = events.into_iter().map(|event| match event {
        Event::Held { buyer, quantity, key, .. } => {
            let order = OrderId { sale: SALE, number: next_number };
            next_number += 1;
            Event::Held { order, buyer, quantity, key }
        }
        other => other,
    });
    (first..).zip(numbered).map(|(position, event)| Decision { position, at, event }).collect()
}

proptest! {
    #[test]
    fn terms_and_counts_read_back_as_packed(found in found()) {
        let terms = found.status.terms;
        prop_assert_eq!(unpack_terms(SALE, &pack_terms(&terms)), Ok(terms));
        prop_assert_eq!(unpack_counts(terms, &pack_counts(&found)), Ok(found));
    }

    #[test]
    fn a_version_has_an_epoch_and_a_position(epoch in 0..1_u32 << 20, position in 0..1_u64 << 40) {
        let version = version_of(epoch, position);
        prop_assert_eq!((epoch_of_version(version), position_of_version(version)), (epoch.into(), position));
    }

    #[test]
    fn an_order_reads_back_as_packed(known in orders(), others in vec(orders(), 0..4)) {
        let mut bytes = Vec::new();
        put_record(&mut bytes, &known);
        bytes.extend_from_slice(known.order.buyer.as_str().as_bytes());
        prop_assert_eq!(unpack_order(SALE, HOLD_SECONDS, &bytes), Ok(known));
        let keys: Vec<KeyDigest> = others.iter().map(|known| known.key).collect();
        prop_assert_eq!(keys_of_buyer(&pack_buyer(7, others.iter())), Ok(keys));
    }

    #[test]
    fn a_waiter_reads_back_as_packed(buyer in buyers(), [number, quantity] in any::<[u32; 2]>(), joined_at in moments()) {
        let waiter = Waiter { number, buyer, quantity, joined_at };
        prop_assert_eq!(unpack_waiter(waiter.buyer.as_str().as_bytes(), &pack_waiter(&waiter)), Ok(waiter));
    }

    #[test]
    fn an_entry_reads_back_as_packed(
        events in vec(events(), 0..20), first in 1..1_u64 << 40, at in moments(), number in 0..1_u32 << 30,
    ) {
        let decisions = decisions_of(events, first, at, number);
        let (last, mark) = (first + decisions.len() as u64 - 1, Mark([7; 16]));
        let bytes = pack_entry(first, at, &decisions);
        prop_assert_eq!(unpack_entry(SALE, last, mark, &bytes), Ok(FeedEntry { first, last, mark, decisions }));
        prop_assert!(unpack_entry(SALE, last + 1, mark, &bytes).is_err(), "the length does not match the id");
    }

    #[test]
    fn a_message_reads_back_as_packed(
        node in any::<u64>(), before in any::<u64>(), known in found(), accepted in vec(keys(), 0..9),
    ) {
        let message = NodeMessage { node, before, known, accepted };
        prop_assert_eq!(unpack_message(&pack_message(&message)), Ok(message));
    }

    #[test]
    fn truncated_or_foreign_bytes_never_panic(bytes in vec(any::<u8>(), 0..80), last in 0..100_u64) {
        // Anything but a panic is fine. The length of an entry that can be read matches its positions.
        if let Ok(entry) = unpack_entry(SALE, last, Mark::default(), &bytes) {
            prop_assert_eq!(entry.decisions.len() as u64, entry.last + 1 - entry.first);
        }
        let _ = (unpack_order(SALE, 1, &bytes), keys_of_buyer(&bytes), unpack_message(&bytes));
        let _ = (unpack_waiter(&bytes, &bytes), unpack_place(&bytes));
    }
}

/// A sale of 100 units on a server, and the script that decides about it.
struct Scripted {
    store: Store,
    script: Script,
    _server: RedisServer,
    _folder: tempfile::TempDir,
}

const NOW: Timestamp = Timestamp::from_millis(1_700_000_000_000);
const TERMS: SaleTerms = SaleTerms {
    sale: SALE,
    units: 100,
    limit_per_buyer: 3,
    opens_at: Some(NOW),
    closes_at: None,
    hold_seconds: HOLD_SECONDS,
};

impl Scripted {
    async fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let server = RedisServer::start(folder.path(), RedisSettings::default()).unwrap();
        let link = Link::connect(RedisOptions::single(server.address().to_string())).await.unwrap();
        let (script, keys) = (decide_script(), Keys::new("").unwrap());
        link.learn(&script);
        // As after a look into the records. Without it, a sale that is not here may be lost.
        let mut compared = redis::cmd("HSET");
        compared.arg(keys.sale(SALE)).arg("looked").arg(server.info("master_replid").unwrap());
        let _: u64 = link.call(&keys.sale(SALE), compared).await.unwrap();
        let store = Store { link, keys, sales: Arc::default() };
        Self { store, script, _server: server, _folder: folder }
    }

    async fn decide(&self, commands: impl IntoIterator<Item = Command>) -> SaleOutcome {
        let (mut batch, mut pipeline) = (SaleBatch::new(SALE), redis::pipe());
        commands.into_iter().for_each(|command| batch.push(command));
        pipeline.add_command(batch.call(&self.script, &self.store.keys, Some(NOW), [9; 16], false));
        let answers = self.store.link.run(&self.store.keys.sale(SALE), pipeline, false).await.unwrap();
        match batch.read(answers.into_iter().next().unwrap()).unwrap() {
            SaleAnswer::Decided(outcome) => outcome,
            SaleAnswer::Unhomed => panic!("it is at home"),
        }
    }

    async fn field(&self, key: &str, field: impl redis::ToRedisArgs) -> Vec<u8> {
        let mut get = redis::cmd("HGET");
        get.arg(key).arg(field);
        self.store.link.call(key, get).await.unwrap()
    }

    /// The id and the mark of the feed's entry that begins at `position`. Its bytes are compared with what
    /// the codec packs.
    async fn entry(&self, position: u64) -> (String, Vec<u8>) {
        let Store { link, keys, .. } = &self.store;
        let feed = keys.feed(SALE);
        let entries = read_entries(&self.store, SALE, position, 10).await.unwrap();
        let Some(entry) = entries.first() else { panic!("nothing is at {position}") };
        let mut range = redis::cmd("XRANGE");
        range.arg(&feed).arg(position).arg("+");
        let stored: Vec<(String, [Vec<u8>; 4])> = link.call(&feed, range).await.unwrap();
        let (id, [_, mark, _, bytes]) = stored.into_iter().next().unwrap();
        assert_eq!(bytes, pack_entry(position, NOW, &entry.decisions));
        (id, mark)
    }
}

fn key(number: u32) -> KeyDigest {
    KeyDigest::of(number.to_string().as_bytes()).unwrap()
}

fn claim(buyer: &BuyerId, quantity: u32, number: u32) -> Command {
    Command::Claim(Claim { sale: SALE, buyer: buyer.clone(), quantity, key: key(number) })
}

fn order(number: u32, buyer: &BuyerId, key: KeyDigest, paid_at: Option<Timestamp>) -> SnapshotOrder {
    let order = Order {
        id: OrderId { sale: SALE, number },
        buyer: buyer.clone(),
        quantity: 1,
        state: if paid_at.is_some() { OrderState::Paid } else { OrderState::Held },
        created_at: NOW,
        pay_before: NOW.plus_seconds(HOLD_SECONDS),
        paid_at,
        refund_due: false,
    };
    SnapshotOrder { order, key }
}

#[tokio::test]
async fn the_scripts_write_what_the_codec_packs() {
    let scripted = Scripted::new().await;
    let names: Vec<BuyerId> =
        (0..70).map(|number| BuyerId::from_stored(&format!("ç{}", number % 69))).collect();
    let claims = (0..).zip(&names).map(|(number, buyer)| claim(buyer, 1, number));
    let paid = Command::ConfirmPayment { order: OrderId { sale: SALE, number: 69 }, buyer: None };
    let outcome = scripted.decide([Command::Publish(TERMS)].into_iter().chain(claims).chain([paid])).await;

    let keys = &scripted.store.keys;
    assert_eq!(scripted.field(&keys.sale(SALE), "terms").await, pack_terms(&TERMS));
    let first_buyer = [order(0, &names[0], key(0), None), order(69, &names[0], key(69), Some(NOW))];
    assert_eq!(scripted.field(&keys.buyers(SALE), "ç0").await, pack_buyer(2, first_buyer.iter()));
    let second_buyer = [order(1, &names[1], key(1), None)];
    assert_eq!(scripted.field(&keys.buyers(SALE), "ç1").await, pack_buyer(1, second_buyer.iter()));
    assert_eq!(scripted.field(&keys.orders(SALE), 0).await, pack_names(names[..PAGE].iter()));
    assert_eq!(scripted.field(&keys.orders(SALE), 1).await, pack_names(names[PAGE..].iter()));
    assert_eq!(scripted.entry(1).await, ("72-0".to_owned(), vec![9; 16]));
    assert_eq!(outcome.sale.map(|found| (found.status.terms, found.position())), Some((TERMS, 72)));
}

#[tokio::test]
async fn the_scripts_write_the_waitlist_as_the_codec_packs_it() {
    let scripted = Scripted::new().await;
    let [ann, bob, cem] = ["ann", "bob", "cem"].map(BuyerId::from_stored);
    let join = |buyer: &BuyerId| Command::Join { sale: SALE, buyer: buyer.clone(), quantity: 2 };
    let terms = SaleTerms { units: 1, ..TERMS };
    scripted.decide([Command::Publish(terms), claim(&ann, 1, 0), join(&bob), join(&cem)]).await;
    let cancel = Command::Cancel { order: OrderId { sale: SALE, number: 0 }, buyer: None };
    scripted.decide([cancel]).await;
    let keys = &scripted.store.keys;
    let waiter = Waiter { number: 1, buyer: cem, quantity: 2, joined_at: NOW };
    assert_eq!(scripted.field(&keys.waiters(SALE), "cem").await, pack_waiter(&waiter));
    let offered = [order(1, &bob, KeyDigest::of_offer(0), None)];
    assert_eq!(scripted.field(&keys.buyers(SALE), "bob").await, pack_buyer(1, offered.iter()));
    let ids = [scripted.entry(1).await.0, scripted.entry(5).await.0];
    assert_eq!(ids, ["4-0", "7-0"]);
}
