//! One keeper lets people in for all nodes. When it is gone, another takes over.

use penstock_gate::TicketState;

use super::*;

fn is_admitted(room: &WaitingRoom, number: u64, status: &SaleStatus, now: Timestamp) -> bool {
    matches!(room.standing(number, status, now).state, TicketState::Admitted { .. })
}

struct Opened {
    shop: Shop,
    nodes: Vec<Arc<dyn Door>>,
    rooms: Vec<Arc<WaitingRoom>>,
    numbers: Vec<u64>,
}

impl Opened {
    /// `people` came before the opening, which is now.
    async fn with(people: usize) -> Self {
        let shop = Shop::open();
        let nodes = shop.nodes().await;
        let rooms = open_rooms(&nodes).await;
        look_first(&nodes, shop.now()).await;
        let mut numbers = Vec::new();
        for person in 0..people {
            numbers.push(nodes[person % 3].take_number(shop.now()).await.unwrap());
        }
        shop.set(OPENS_AT);
        Self { shop, nodes, rooms, numbers }
    }

    /// Everybody is there, and the nodes do what they do ten times a second.
    fn tick(&self, status: SaleStatus) {
        self.ask();
        tick(&self.nodes, status, self.shop.now());
    }

    /// Everybody asks some node.
    fn ask(&self) {
        for number in &self.numbers {
            let room = &self.rooms[*number as usize % self.rooms.len()];
            room.heard(*number, room.place(*number));
        }
    }

    /// Lets time pass until all nodes say that `people` are admitted.
    async fn until_admitted(&self, people: usize, status: SaleStatus) {
        let admitted = |room: &Arc<WaitingRoom>| {
            let may_go_on = |number: &&u64| is_admitted(room, **number, &status, self.shop.now());
            self.numbers.iter().filter(may_go_on).count()
        };
        until(&format!("{people} admitted"), || {
            self.shop.pass_millis(2);
            self.tick(status);
            self.rooms.iter().all(|room| admitted(room) == people).then_some(())
        })
        .await;
    }

    async fn until_draw(&self) {
        until("the draw", || {
            self.shop.pass_millis(2);
            self.tick(status(0));
            self.rooms.iter().all(|room| room.draw().count.is_some()).then_some(())
        })
        .await;
    }

    /// Lets more than a second pass, in which everything happens that can.
    async fn let_settle(&self, status: SaleStatus) {
        for _ in 0..60 {
            self.shop.pass_millis(20);
            self.tick(status);
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

#[tokio::test]
async fn people_are_let_in_for_all_nodes_and_never_more_than_could_buy() {
    let opened = Opened::with(30).await;
    opened.until_admitted(10, status(10)).await;
    opened.let_settle(status(10)).await;
    opened.until_admitted(10, status(10)).await;
    // Four turns become passes, and one of these becomes an order: one unit less, and nobody more.
    let now = opened.shop.now();
    let turns: Vec<u64> = opened
        .numbers
        .iter()
        .copied()
        .filter(|number| is_admitted(&opened.rooms[1], *number, &status(10), now))
        .collect();
    for (node, number) in turns.iter().take(4).enumerate() {
        let buyer = applicant(&format!("buyer {number}"), 10, now);
        opened.nodes[node % 3].pass(Applicant { number: Some(*number), ..buyer }).await.unwrap();
    }
    let sold = SaleStatus { version: 2, ..status(9) };
    opened.nodes[0].used(&BuyerId::from_stored(&format!("buyer {}", turns[0])), now, sold.version, now);
    until("the turns to be taken", || {
        opened.shop.pass_millis(2);
        opened.tick(sold);
        (opened.rooms[2].figures().pending == 6).then_some(())
    })
    .await;
    opened.let_settle(sold).await;
    assert_eq!(opened.rooms[2].figures().let_in, 10);
    // Two more units let in two more people.
    opened.until_admitted(12, SaleStatus { version: 3, ..status(11) }).await;
}

/// Everybody asks a single node, and each node hears of the draw at its own time.
#[tokio::test]
async fn at_the_opening_those_with_the_best_places_are_called_whichever_node_they_ask() {
    let opened = Opened::with(300).await;
    opened.until_admitted(40, status(40)).await;
    let room = &opened.rooms[0];
    let now = opened.shop.now();
    let called = opened.numbers.iter().filter(|number| is_admitted(room, **number, &status(40), now));
    let place = |number: &u64| room.place(*number).unwrap();
    let mut called: Vec<u64> = called.map(place).collect();
    let mut best: Vec<u64> = opened.numbers.iter().map(place).collect();
    called.sort_unstable();
    best.sort_unstable();
    assert_eq!(called, best[..40]);
}

#[tokio::test]
async fn a_used_pass_lets_nobody_in_before_the_keeper_has_heard_of_the_order() {
    let opened = Opened::with(3).await;
    opened.until_admitted(1, status(1)).await;
    let now = opened.shop.now();
    let turn = opened.numbers.iter().find(|number| is_admitted(&opened.rooms[0], **number, &status(1), now));
    let ann = Applicant { number: turn.copied(), ..applicant("ann", 1, now) };
    opened.nodes[0].pass(ann.clone()).await.unwrap();
    opened.nodes[1].used(&ann.buyer, now, 2, now);
    until("the pass to be used", || (opened.shop.live_passes() == 0).then_some(())).await;
    opened.let_settle(status(1)).await;
    assert_eq!(opened.rooms[0].figures().let_in, 1, "the order is of version 2");
    let heard = SaleStatus { version: 2, ..status(1) };
    until("the next turn", || {
        opened.shop.pass_millis(2);
        opened.tick(heard);
        (opened.rooms[0].figures().let_in == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_keeper_that_dies_is_replaced_and_nobody_loses_a_turn() {
    let mut opened = Opened::with(30).await;
    opened.until_admitted(5, status(5)).await;
    let keeper = opened.shop.redis.cli(&["HGET", &key("room"), "keeper"]).unwrap();
    let place = ["a", "b", "c"].iter().position(|name| *name == keeper).unwrap();
    // The keeper dies without a word.
    drop(opened.nodes.remove(place));
    opened.rooms.remove(place);
    let before: Vec<_> = opened.numbers.iter().map(|number| opened.rooms[0].place(*number)).collect();
    opened.until_admitted(8, status(8)).await;
    let next = opened.shop.redis.cli(&["HGET", &key("room"), "keeper"]).unwrap();
    assert_ne!(next, keeper);
    let after: Vec<_> = opened.numbers.iter().map(|number| opened.rooms[1].place(*number)).collect();
    assert_eq!(before, after, "nothing is drawn again");
}

#[tokio::test]
async fn a_node_that_starts_during_a_sale_stops_nobody_from_being_called() {
    let mut opened = Opened::with(30).await;
    opened.until_admitted(5, status(5)).await;
    let newcomer = opened.shop.node("d").await;
    opened.rooms.extend(open_rooms(std::slice::from_ref(&newcomer)).await);
    opened.nodes.push(newcomer);
    // It has had time to say something wrong, and the keeper has had time to hear it.
    let began = opened.shop.now();
    opened.let_settle(status(5)).await;
    opened.until_admitted(8, status(8)).await;
    let took_millis = opened.shop.now().millis_since(began);
    assert!(took_millis < 3_000, "{took_millis} ms");
}

#[tokio::test]
async fn a_keeper_that_stops_leaves_the_room_to_the_next_at_once() {
    let opened = Opened::with(9).await;
    opened.until_admitted(2, status(2)).await;
    let room = key("room");
    let keeper = opened.shop.redis.cli(&["HGET", &room, "keeper"]).unwrap();
    let place = ["a", "b", "c"].iter().position(|name| *name == keeper).unwrap();
    opened.nodes[place].save(true).unwrap().await.unwrap();
    assert!(opened.nodes[place].take_number(opened.shop.now()).await.is_err());
    // The clock stands still: nobody has to wait until the keeper is late.
    until("another keeper", || {
        let next = opened.shop.redis.cli(&["HGET", &room, "keeper"]).unwrap();
        (!next.is_empty() && next != keeper).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_keeper_that_slept_too_long_stores_nothing() {
    let opened = Opened::with(9).await;
    opened.until_admitted(2, status(2)).await;
    let room = key("room");
    // Another node has taken the room over meanwhile, and keeps it for long.
    let later = opened.shop.now().plus_seconds(3_600).as_millis().to_string();
    opened.shop.redis.cli(&["HSET", &room, "keeper", "d", "kept_until", &later, "fence", "99"]).unwrap();
    let version = opened.shop.redis.cli(&["HGET", &room, "version"]).unwrap();
    opened.let_settle(status(9)).await;
    assert_eq!(opened.shop.redis.cli(&["HGET", &room, "version"]).unwrap(), version);
    assert_eq!(opened.rooms[0].figures().let_in, 2);
}

/// A node of another version may have stored the view.
#[tokio::test]
async fn a_view_that_nobody_can_read_does_not_stop_the_room() {
    let opened = Opened::with(9).await;
    opened.until_admitted(2, status(2)).await;
    opened.shop.redis.cli(&["HSET", &key("room"), "view", "nonsense", "version", "1000000"]).unwrap();
    opened.let_settle(status(2)).await;
    opened.until_admitted(4, status(4)).await;
}

#[tokio::test]
async fn catching_up_shows_every_turn_that_any_node_has_shown() {
    let opened = Opened::with(60).await;
    let mut most = 0;
    for available in 1..=20 {
        // Any node may show it first; the others have not looked yet.
        until("another turn", || {
            opened.shop.pass_millis(2);
            opened.tick(status(available));
            let shown = opened.rooms.iter().map(|room| room.figures().let_in).max();
            shown.filter(|shown| *shown > most).map(|shown| most = shown)
        })
        .await;
        join_all(opened.nodes.iter().map(|node| node.catch_up())).await;
        let shown: Vec<u64> = opened.rooms.iter().map(|room| room.figures().let_in).collect();
        assert!(shown.iter().all(|shown| *shown >= most), "{shown:?} of {most}");
    }
}

#[tokio::test]
async fn a_keeper_that_hears_nothing_from_the_ledger_leaves_the_room_to_one_that_does() {
    let opened = Opened::with(9).await;
    opened.until_admitted(2, status(2)).await;
    let keeper = || opened.shop.redis.cli(&["HGET", &key("room"), "keeper"]).unwrap();
    let deaf = keeper();
    let heard = SaleStatus { version: 2, ..status(4) };
    opened.nodes[0].used(&BuyerId::from_stored("ann"), opened.shop.now(), heard.version, opened.shop.now());
    until("more turns by another keeper", || {
        opened.shop.pass_millis(20);
        opened.ask();
        for (name, node) in ["a", "b", "c"].iter().zip(&opened.nodes) {
            let told = if *name == deaf { status(2) } else { heard };
            let _ = node.tick(&|| Some(told), opened.shop.now());
        }
        (keeper() != deaf && opened.rooms.iter().all(|room| room.figures().let_in == 4)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_room_lasts_while_somebody_keeps_it_and_not_forever() {
    let opened = Opened::with(3).await;
    let room = key("room");
    opened.shop.redis.cli(&["PERSIST", &room]).unwrap();
    until("the keeper to look", || {
        opened.tick(status(1));
        let seconds: i64 = opened.shop.redis.cli(&["TTL", &room]).unwrap().parse().unwrap();
        (seconds > 29 * 86_400).then_some(())
    })
    .await;
}

/// All but three people have left, and one unit at a time comes back.
#[tokio::test]
async fn people_who_left_cost_the_others_nothing() {
    let mut opened = Opened::with(300).await;
    let there: Vec<u64> = opened.numbers.iter().copied().skip(50).step_by(100).collect();
    opened.until_draw().await;
    // Long enough to forget everybody who does not ask.
    let everybody = std::mem::replace(&mut opened.numbers, there);
    for _ in 0..4 {
        opened.shop.pass_millis(15_000);
        opened.let_settle(status(0)).await;
    }
    until("only the people who are there to be counted", || {
        opened.tick(status(0));
        opened.rooms.iter().all(|room| room.figures().waiting == 3).then_some(())
    })
    .await;
    for units in 1..=3 {
        opened.until_admitted(units as usize, status(units)).await;
    }
    let let_in = opened.rooms[0].figures().let_in;
    assert_eq!(let_in, 3, "of {} people", everybody.len());
}
