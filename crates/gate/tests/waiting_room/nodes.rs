//! Three simulated nodes that share a room, with everything that can happen between them: late news, a keeper
//! that dies, numbers that nobody gets. A few fields here stand in for Redis.

use std::collections::{BTreeMap, HashSet};

use penstock_gate::{BUYER, Blocks, LATE, Part, RoomView, There, Told, Totals, TurnStep};
use proptest::prelude::*;

use super::*;

const NODES: usize = 3;
const SEED: [u8; 32] = [7; 32];
/// How long a block from after the opening is good.
const GOOD_MILLIS: i64 = 1_000;

/// The state that all nodes share.
#[derive(Default)]
struct Shared {
    next: u64,
    early: Option<u64>,
    /// Number, deadline.
    passes: Vec<(u64, Timestamp)>,
    had_a_pass: HashSet<u64>,
    taken: Vec<u64>,
    /// What each node last told.
    told: [Option<Told>; NODES],
    view: RoomView,
    kept_at: Option<Timestamp>,
    sale_version: u64,
}

/// The shared state at one moment, as the keeper saw it.
#[derive(Clone)]
struct Seen {
    at: Timestamp,
    issued: u64,
    early: Option<u64>,
    live_passes: u64,
    sale_version: u64,
    taken: Vec<u64>,
    told: Vec<Told>,
}

struct Keeper {
    room: WaitingRoom,
    seen: Seen,
}

struct Node {
    shown: WaitingRoom,
    blocks: Blocks,
}

struct Shop {
    options: RoomOptions,
    shared: Shared,
    nodes: Vec<Node>,
    keeper: Option<Keeper>,
    status: SaleStatus,
    /// As the keeper's node knows it.
    known_status: SaleStatus,
    millis: i64,
    tickets: Vec<u64>,
    admitted_since: BTreeMap<u64, i64>,
}

impl Shop {
    fn new(options: RoomOptions) -> Self {
        let node = |_| Node { shown: WaitingRoom::shared(sale(), SEED, options), blocks: Blocks::default() };
        let mut shop = Self {
            options,
            shared: Shared::default(),
            nodes: (0..NODES).map(node).collect(),
            keeper: None,
            status: status(15),
            known_status: status(15),
            millis: OPENS_AT_MILLIS - 5_000,
            tickets: Vec::new(),
            admitted_since: BTreeMap::new(),
        };
        // The nodes look before anybody comes.
        shop.look();
        shop
    }

    fn now(&self) -> Timestamp {
        at(self.millis)
    }

    fn freeze(&mut self) {
        if self.shared.early.is_none() && self.millis >= OPENS_AT_MILLIS {
            self.shared.early = Some(self.shared.next);
        }
    }

    /// Somebody takes a ticket on this node. If the node has no number left, it takes a block with `ahead`
    /// extra numbers.
    fn arrive(&mut self, node: usize, ahead: u64) -> u64 {
        self.freeze();
        let now = self.now();
        let blocks = &self.nodes[node].blocks;
        let number = blocks.take(now).unwrap_or_else(|| {
            let from = self.shared.next;
            self.shared.next += 1 + ahead;
            let late = now.plus_millis(GOOD_MILLIS);
            blocks.put(from, self.shared.next, self.shared.early.map_or(at(OPENS_AT_MILLIS), |_| late));
            blocks.take_late(now).unwrap()
        });
        self.tickets.push(number);
        number
    }

    fn seen(&self) -> Seen {
        Seen {
            at: self.now(),
            issued: self.shared.next,
            early: self.shared.early,
            live_passes: self.live_passes(),
            sale_version: self.shared.sale_version,
            taken: self.shared.taken.clone(),
            told: self.shared.told.iter().flatten().cloned().collect(),
        }
    }

    fn live_passes(&self) -> u64 {
        self.shared.passes.iter().filter(|(_, deadline)| self.now() < *deadline).count() as u64
    }

    /// The node tells who is there, if it has anything to tell.
    fn tell(&mut self, node: usize) {
        let shown = &self.nodes[node].shown;
        shown.listen(self.now());
        if let Some(told) = shown.told() {
            self.shared.told[node] = Some(told);
        }
    }

    /// All nodes tell who is there, the keeper looks, and all nodes follow.
    fn look(&mut self) {
        (0..NODES).for_each(|node| self.tell(node));
        let before = self.admitted_without_pass().len() as u64;
        let newly_from = self.shared.view.admitted;
        self.keep();
        self.check(newly_from, before);
    }

    /// The keeper looks. If there is none, the next keeper goes on from the last view.
    fn keep(&mut self) {
        self.freeze();
        let Some(mut keeper) = self.keeper.take() else {
            let room = WaitingRoom::shared(sale(), SEED, self.options);
            room.follow(&self.shared.view, self.shared.kept_at.unwrap_or(self.now()));
            let seen = self.seen();
            self.keeper = Some(Keeper { room, seen });
            self.shared.kept_at = Some(self.now());
            return;
        };
        let seen = &keeper.seen;
        let totals = Totals {
            issued: seen.issued,
            early: seen.early,
            live_passes: seen.live_passes.into(),
            taken: &seen.taken,
            sale_version: seen.sale_version,
            there: &There::of_all(&seen.told, seen.early.is_some()),
        };
        self.shared.view = keeper.room.tend(&self.known_status, &totals, seen.at);
        self.shared.taken.drain(..seen.taken.len());
        self.shared.kept_at = Some(self.now());
        keeper.seen = self.seen();
        self.keeper = Some(keeper);
    }

    fn all_look(&mut self, times: usize) {
        for _ in 0..times {
            self.all_ask();
            self.look();
            (0..NODES).for_each(|node| self.follow(node));
        }
    }

    fn follow(&self, node: usize) {
        self.nodes[node].shown.follow(&self.shared.view, self.now());
    }

    /// Everybody is there, each on some node.
    fn all_ask(&self) {
        for number in &self.tickets {
            let shown = &self.nodes[*number as usize % NODES].shown;
            shown.heard(*number, shown.place(*number));
        }
    }

    /// No more people are admitted than the units justify, and nobody's turn is taken back.
    fn check(&mut self, newly_from: u64, before: u64) {
        (0..NODES).for_each(|node| self.follow(node));
        let admitted = self.shared.view.admitted;
        assert!(admitted >= newly_from, "the turn of {newly_from} was taken back");
        let now_without = self.admitted_without_pass().len() as u64;
        let going_on = now_without + self.live_passes();
        let can_buy = u64::from(self.status.available);
        let newly = now_without.saturating_sub(before);
        let most = can_buy * BUYER / LATE;
        assert!(newly == 0 || going_on <= most, "{newly} newly admitted, {going_on} for {can_buy} units");
        assert!(admitted == newly_from || self.shared.early.is_some());
        for number in self.tickets.clone() {
            let standing = self.nodes[0].shown.standing(number, &self.status, self.now());
            if is_admitted(standing) {
                self.admitted_since.entry(number).or_insert(self.millis);
            } else if standing.state == TURN_OVER
                && let Some(since) = self.admitted_since.get(&number)
            {
                assert!(self.millis - since >= i64::from(TURN_SECONDS) * SECOND - 4_000);
            }
        }
    }

    /// According to the last view.
    fn admitted_without_pass(&self) -> Vec<u64> {
        let mut admitted = self.admitted_on(0);
        admitted.retain(|number| !self.shared.had_a_pass.contains(number));
        admitted
    }

    /// As this node shows it.
    fn admitted_on(&self, node: usize) -> Vec<u64> {
        let shown = &self.nodes[node].shown;
        let may_go_on = |number: &&u64| is_admitted(shown.standing(**number, &self.status, self.now()));
        self.tickets.iter().filter(may_go_on).copied().collect()
    }

    /// Takes a pass on a node, judging by its own view, which may be old.
    fn take_pass(&mut self, node: usize, number: u64) {
        let standing = self.nodes[node].shown.standing(number, &self.status, self.now());
        if is_admitted(standing) && self.shared.had_a_pass.insert(number) {
            self.shared.passes.push((number, self.now().plus_seconds(PASS_SECONDS)));
            self.shared.taken.push(number);
        }
    }

    /// Somebody with a pass buys. The pass is reported as used at once; the keeper hears of the order later.
    fn buy(&mut self, index: usize) {
        let now = self.now();
        self.shared.passes.retain(|(_, deadline)| now < *deadline);
        if index < self.shared.passes.len() && self.status.available > 0 {
            self.shared.passes.remove(index);
            self.status.available -= 1;
            self.status.version += 1;
            self.shared.sale_version = self.status.version;
        }
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Arrive(usize, u64),
    Look(i64),
    TakePass(usize, prop::sample::Index),
    Buy(prop::sample::Index),
    Restock(u32),
    Pause(bool),
    News,
    /// Nobody keeps the room for this long.
    KeeperDies(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        4 => (0..NODES, 0..12_u64).prop_map(|(node, ahead)| Happening::Arrive(node, ahead)),
        6 => (1..2_000_i64).prop_map(Happening::Look),
        6 => (0..NODES, any::<prop::sample::Index>()).prop_map(|(node, index)| Happening::TakePass(node, index)),
        4 => any::<prop::sample::Index>().prop_map(Happening::Buy),
        1 => (0..20_u32).prop_map(Happening::Restock),
        1 => any::<bool>().prop_map(Happening::Pause),
        3 => Just(Happening::News),
        1 => (0..20_000_i64).prop_map(Happening::KeeperDies),
    ]
}

impl Shop {
    fn happens(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive(node, ahead) => {
                for _ in 0..=ahead / 2 {
                    self.arrive(node, ahead);
                }
            }
            Happening::Look(millis) => {
                self.millis += millis;
                self.all_ask();
                self.look();
            }
            Happening::TakePass(node, index) if !self.tickets.is_empty() => {
                self.take_pass(node, *index.get(&self.tickets));
            }
            Happening::Buy(index) if !self.shared.passes.is_empty() => {
                self.buy(index.index(self.shared.passes.len()));
            }
            Happening::TakePass(..) | Happening::Buy(_) => {}
            Happening::Restock(units) => {
                self.status.available += units;
                self.status.version += 1;
            }
            Happening::Pause(paused) => {
                self.status.paused = paused;
                self.status.version += 1;
                self.known_status = self.status;
            }
            Happening::News => self.known_status = self.status,
            Happening::KeeperDies(millis) => {
                self.keeper = None;
                self.millis += millis;
            }
        }
    }
}

fn slow() -> RoomOptions {
    RoomOptions { admissions_per_second: 10, ..OPTIONS }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn all_nodes_together_admit_a_few_for_each_unit_at_most(happenings in prop::collection::vec(happening(), 1..160)) {
        let mut shop = Shop::new(slow());
        for happening in happenings {
            shop.happens(happening);
        }
        let numbers: HashSet<u64> = shop.tickets.iter().copied().collect();
        prop_assert_eq!(numbers.len(), shop.tickets.len(), "a number was given out twice");
    }
}

/// The counterpart to the test above: the room is not safe merely by admitting nobody, although every third
/// number goes to nobody, every third person does not come, and the keeper keeps dying.
#[test]
fn with_any_keeper_everybody_gets_a_turn_in_the_end_and_all_units_are_sold() {
    let mut shop = Shop::new(slow());
    for person in 0..60 {
        shop.arrive(person % NODES, 2);
    }
    shop.status.available = 20;
    let (mut sold, mut looks) = (0, 0);
    while sold < 40 {
        looks += 1;
        assert!(looks < 2_000, "only {sold} units were sold");
        shop.millis += 250;
        shop.known_status = shop.status;
        if looks % 40 == 0 {
            shop.keeper = None;
        }
        shop.all_ask();
        shop.look();
        for number in shop.admitted_without_pass().into_iter().filter(|number| number % 3 != 0) {
            shop.take_pass(looks % NODES, number);
        }
        if looks % 3 == 0 && !shop.shared.passes.is_empty() && shop.status.available > 0 {
            shop.buy(0);
            sold += 1;
        }
        if shop.status.available == 0 {
            shop.status.available = 20;
        }
        if looks % 20 == 0 {
            for node in 0..NODES {
                shop.arrive(node, 1);
            }
        }
    }
}

#[test]
fn the_draw_favours_no_node_and_every_node_shows_the_same_place() {
    const PEOPLE: usize = 6_000;
    let mut shop = Shop::new(OPTIONS);
    let numbers: Vec<u64> = (0..PEOPLE).map(|person| shop.arrive(person * NODES / PEOPLE, 99)).collect();
    shop.millis = OPENS_AT_MILLIS;
    let late = shop.arrive(0, 0);
    (0..3).for_each(|_| shop.look());
    assert_eq!(shop.shared.view.early, Some(PEOPLE as u64));
    let place = |node: usize, number: u64| shop.nodes[node].shown.place(number).unwrap();
    assert_eq!(place(1, late), PEOPLE as u64, "a late person is behind all early ones");
    let mut sums = [0; NODES];
    for (person, number) in numbers.iter().enumerate() {
        assert_eq!(place(0, *number), place(2, *number));
        sums[person * NODES / PEOPLE] += place(0, *number);
    }
    // The mean place of 2,000 of 6,000 people is 3,000, give or take about 32 by chance.
    for sum in sums {
        let mean = sum / (PEOPLE / NODES) as u64;
        assert!((2_850..3_150).contains(&mean), "{sums:?}");
    }
}

#[test]
fn numbers_from_before_the_opening_are_not_given_out_after_it() {
    let mut shop = Shop::new(OPTIONS);
    shop.arrive(0, 99);
    shop.millis = OPENS_AT_MILLIS;
    let late = shop.arrive(0, 0);
    assert_eq!((late, shop.shared.early), (100, Some(100)));
    shop.known_status.available = 50;
    shop.status = shop.known_status;
    (0..10).for_each(|_| {
        shop.millis += 100;
        shop.all_ask();
        shop.look();
    });
    // The 99 numbers that nobody got took nobody's turn.
    assert!([0, late].iter().all(|number| shop.admitted_without_pass().contains(number)));
    assert_eq!(shop.nodes[0].shown.figures().pending, 2);
}

#[test]
fn a_keeper_that_is_gone_for_long_costs_nobody_a_turn() {
    let mut shop = Shop::new(OPTIONS);
    let number = shop.arrive(0, 0);
    shop.millis = OPENS_AT_MILLIS;
    shop.all_look(6);
    assert_eq!(shop.admitted_without_pass(), [number]);
    shop.keeper = None;
    shop.millis += 3_600_000;
    (0..3).for_each(|_| shop.look());
    assert_eq!(shop.admitted_without_pass(), [number]);
}

#[test]
fn a_new_keeper_admits_nobody_on_units_that_are_spoken_for() {
    let mut shop = Shop::new(OPTIONS);
    for person in 0..10 {
        shop.arrive(person % NODES, 0);
    }
    (shop.status.available, shop.known_status.available) = (3, 3);
    shop.millis = OPENS_AT_MILLIS;
    for _ in 0..20 {
        shop.millis += 100;
        shop.keeper = None;
        shop.all_look(4);
    }
    assert_eq!(shop.shared.view.admitted, 3);
    let admitted = shop.admitted_without_pass();
    shop.take_pass(2, admitted[0]);
    shop.keeper = None;
    (0..3).for_each(|_| shop.look());
    assert_eq!((shop.shared.view.admitted, shop.nodes[1].shown.figures().pending), (3, 2));
}

#[test]
fn a_turn_is_not_shown_as_over_while_nobody_keeps_the_room() {
    let at = |seconds: i64| Timestamp::from_millis(OPENS_AT_MILLIS + seconds * 1_000);
    let options =
        RoomOptions { turn_seconds: 10, uptake_seconds: 6, pass_seconds: 10, admissions_per_second: 10 };
    let room = WaitingRoom::shared(sale(), SEED, options);
    let turn = TurnStep {
        began_at: at(0),
        until: at(10),
        kept_until: at(11),
        from: 0,
        to: 1,
        called: vec![(0, 1)],
        pending: 1,
        is_judged: false,
        part: Part::First,
    };
    let view = RoomView { issued: 1, early: Some(1), admitted: 1, turns: vec![turn], ..RoomView::default() };
    room.follow(&view, at(5));
    let admitted = TicketState::Admitted { until: at(10) };
    assert_eq!(
        room.standing(0, &status(15), at(12)).state,
        admitted,
        "the next keeper may give the time back"
    );
    room.still_kept(at(12));
    assert_eq!(room.standing(0, &status(15), at(12)).state, TicketState::Gone(GoneReason::TurnOver));
}

/// Two thousand people have left. A few are there and ask another node each time, while the keeper keeps
/// dying.
#[test]
fn a_unit_that_comes_back_goes_to_somebody_who_is_there_on_any_node() {
    let mut shop = Shop::new(OPTIONS);
    let numbers: Vec<u64> = (0..2_000).map(|person| shop.arrive(person % NODES, 9)).collect();
    (shop.status.available, shop.known_status.available) = (0, 0);
    shop.millis = OPENS_AT_MILLIS;
    let there: Vec<u64> = numbers.iter().copied().skip(77).step_by(200).collect();
    shop.tickets.clone_from(&there);
    let mut looks = 0;
    let mut pass = |shop: &mut Shop, millis: i64| {
        for _ in 0..millis / 100 {
            looks += 1;
            shop.millis += 100;
            let node = looks / 10 % NODES;
            if looks % 10 == 0 {
                for number in &there {
                    let shown = &shop.nodes[node].shown;
                    shown.heard(*number, shown.place(*number));
                }
            }
            if looks % 70 == 0 {
                shop.keeper = None;
            }
            shop.look();
        }
    };
    pass(&mut shop, 60 * SECOND);
    assert_eq!(shop.nodes[1].shown.figures().waiting, there.len() as u64, "each person counts once");
    for bought in 1..=there.len() {
        shop.status.available = 1;
        shop.status.version += 1;
        shop.known_status = shop.status;
        pass(&mut shop, 3 * SECOND);
        let admitted = shop.admitted_without_pass();
        assert_eq!(admitted.len(), 1, "after {bought} units");
        shop.take_pass(bought % NODES, admitted[0]);
        shop.buy(0);
        shop.known_status = shop.status;
    }
}

/// Each node hears of the draw at one look, and tells who is there at its next one.
#[test]
fn at_the_opening_those_with_the_best_places_are_called_whichever_node_they_ask() {
    const PEOPLE: usize = 3_000;
    const UNITS: usize = 200;
    for keeper in 0..NODES {
        let mut shop = Shop::new(OPTIONS);
        let numbers: Vec<u64> = (0..PEOPLE).map(|person| shop.arrive(person % NODES, 0)).collect();
        (shop.status.available, shop.known_status.available) = (UNITS as u32, UNITS as u32);
        shop.all_look(2);
        shop.millis = OPENS_AT_MILLIS;
        for look in 0..40 {
            shop.millis += 100;
            shop.all_ask();
            shop.keep();
            // The other nodes look only every fifth and every seventh time.
            let looks = [0, 1, 2].map(|other| other == keeper || look % (3 + 2 * other) == 2 * other);
            for node in (0..NODES).filter(|node| looks[*node]) {
                shop.tell(node);
                shop.follow(node);
            }
            let place = |number: &u64| shop.nodes[keeper].shown.place(*number);
            let called = shop.admitted_on(keeper);
            let mut places: Vec<u64> = called.iter().filter_map(place).collect();
            places.sort_unstable();
            let best: Vec<u64> = (0..places.len() as u64).collect();
            assert_eq!(places, best, "people on the keeper's own node came first");
        }
        assert_eq!(shop.admitted_on(keeper).len(), UNITS, "of {} people", numbers.len());
    }
}
