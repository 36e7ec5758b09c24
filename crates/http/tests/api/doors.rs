//! A gate whose door can't be reached: nobody gets a ticket or a pass, but buyers who have a pass can order.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use futures_util::future::{BoxFuture, ready};
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};
use penstock_gate::{Part, RoomView, TurnStep, WaitingRoom};
use penstock_shop::gate::{Applicant, Door, DoorOptions, DoorRefusal, Doors, PassFigures, RoomArchive};
use serde_json::json;

use crate::support::{Shop, new_key, until};

/// Gives everybody what they ask for, or is away.
struct Gatekeeper {
    is_away: Arc<AtomicBool>,
    room: Arc<WaitingRoom>,
}

struct Gatekeepers(Arc<AtomicBool>);

impl Doors for Gatekeepers {
    fn door(&self, sale: SaleId, options: DoorOptions) -> Arc<dyn Door> {
        let room = Arc::new(WaitingRoom::shared(sale, [7; 32], options.room));
        Arc::new(Gatekeeper { is_away: Arc::clone(&self.0), room })
    }
}

impl Gatekeeper {
    fn answer<T: Send + 'static>(&self, answer: T) -> BoxFuture<'_, Result<T, DoorRefusal>> {
        let is_away = self.is_away.load(Relaxed);
        Box::pin(ready(if is_away { Err(DoorRefusal::Unavailable) } else { Ok(answer) }))
    }
}

impl Door for Gatekeeper {
    fn open_room<'a>(
        &'a self,
        _: Option<Timestamp>,
        _: &'a dyn RoomArchive,
    ) -> BoxFuture<'a, io::Result<Arc<WaitingRoom>>> {
        let is_away = self.is_away.load(Relaxed);
        let away = || Err(io::Error::other("away"));
        Box::pin(ready(if is_away { away() } else { Ok(Arc::clone(&self.room)) }))
    }

    fn has_numbers(&self) -> bool {
        true
    }

    fn take_number(&self, _: Timestamp) -> BoxFuture<'_, Result<u64, DoorRefusal>> {
        self.answer(7)
    }

    /// Another node has let everybody in.
    fn catch_up(&self) -> BoxFuture<'_, ()> {
        let (began_at, until) = (Timestamp::from_millis(0), Timestamp::from_millis(i64::MAX));
        let turn = TurnStep {
            began_at,
            until,
            kept_until: until,
            from: 0,
            to: 8,
            called: vec![(0, 8)],
            pending: 8,
            is_judged: false,
            part: Part::First,
        };
        let view = RoomView {
            issued: 8,
            early: Some(0),
            admitted: 8,
            let_in: 8,
            turns: vec![turn],
            ..RoomView::default()
        };
        self.room.follow(&view, began_at);
        Box::pin(ready(()))
    }

    fn look(&self, _: &BuyerId, _: Option<u64>, _: u32, _: Timestamp) -> Result<(), DoorRefusal> {
        Ok(())
    }

    fn pass(&self, applicant: Applicant) -> BoxFuture<'_, Result<Timestamp, DoorRefusal>> {
        self.answer(applicant.now.plus_seconds(60))
    }

    fn used(&self, _: &BuyerId, _: Timestamp, _: u64, _: Timestamp) {}

    fn tick(&self, _: &dyn Fn() -> Option<SaleStatus>, _: Timestamp) -> bool {
        false
    }

    fn save(&self, _: bool) -> Option<BoxFuture<'_, io::Result<()>>> {
        None
    }

    fn passes(&self, _: Timestamp) -> PassFigures {
        PassFigures::default()
    }
}

fn shop() -> (Shop, Arc<AtomicBool>) {
    let is_away = Arc::new(AtomicBool::new(false));
    let doors = Arc::new(Gatekeepers(Arc::clone(&is_away)));
    (Shop::open_with(|options| options.shop.gate.doors = Some(doors)), is_away)
}

#[test]
fn a_buyer_with_a_pass_can_order_while_nobody_gets_one() {
    let (shop, is_away) = shop();
    let sale = shop.published(|sale| sale["gate"] = json!({ "pass_required": true }));
    let pass_path = format!("/api/v1/sales/{sale}/pass");
    let pass = shop.buyer("ann").post_empty(&pass_path).json()["pass"].as_str().unwrap().to_owned();
    is_away.store(true, Relaxed);
    shop.buyer("bob").post_empty(&pass_path).problem(503, "unavailable");
    let key = new_key();
    let headers =
        [("idempotency-key", key.as_str()), ("penstock-pass", &pass), ("content-type", "application/json")];
    let path = format!("/api/v1/sales/{sale}/orders");
    let answer = shop.buyer("ann").request("POST", &path, &headers, b"{\"quantity\":1}");
    assert_eq!(answer.status, 201, "{answer:?}");
    is_away.store(false, Relaxed);
    assert_eq!(shop.buyer("bob").post_empty(&pass_path).status, 201);
}

#[test]
fn nobody_gets_a_ticket_and_no_room_is_opened_while_the_door_is_away() {
    let (shop, is_away) = shop();
    let with_room = |sale: &mut serde_json::Value| sale["gate"] = json!({ "waiting_room": true });
    let sale = shop.published(with_room);
    let tickets = format!("/api/v1/sales/{sale}/tickets");
    assert_eq!(shop.buyer("ann").post_empty(&tickets).json()["number"], 7);
    is_away.store(true, Relaxed);
    shop.buyer("bob").post_empty(&tickets).problem(503, "unavailable");
    let next = shop.draft(with_room);
    let publish = format!("/api/v1/admin/sales/{next}/publish");
    shop.admin().post_empty(&publish).problem(503, "unavailable");
    is_away.store(false, Relaxed);
    shop.steer(&next, "publish");
    let tickets = format!("/api/v1/sales/{next}/tickets");
    until("a ticket", || (shop.buyer("bob").post_empty(&tickets).status == 201).then_some(()));
}

#[test]
fn a_person_admitted_by_another_node_is_not_sent_away_by_a_node_that_has_not_heard_of_it() {
    let (shop, _) = shop();
    let sale = shop.published(|sale| sale["gate"] = json!({ "waiting_room": true }));
    let taken = shop.buyer("ann").post_empty(&format!("/api/v1/sales/{sale}/tickets")).json();
    assert_eq!(taken["state"], "waiting", "this node has not heard of the turn: {taken}");
    let path = format!("/api/v1/sales/{sale}/pass");
    let answer = shop.buyer("ann").post(&path, &json!({ "ticket": taken["ticket"] }));
    assert_eq!(answer.status, 201, "{answer:?}");
}

#[test]
fn a_buyer_who_gets_no_number_uses_up_no_ticket() {
    let (shop, is_away) = shop();
    let sale = shop.published(|sale| sale["gate"] = json!({ "waiting_room": true }));
    let tickets = format!("/api/v1/sales/{sale}/tickets");
    is_away.store(true, Relaxed);
    for _ in 0..20 {
        shop.buyer("ann").post_empty(&tickets).problem(503, "unavailable");
    }
    is_away.store(false, Relaxed);
    assert_eq!(shop.buyer("ann").post_empty(&tickets).status, 201);
}
