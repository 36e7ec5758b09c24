//! `cookie_order_cpu_us`: server CPU for an accepted order that comes as the shop's own page sends it,
//! against the same order with a shop's token in an `Authorization` header.

use crate::{
    bench::Bench,
    browser::{self, BrowserSessions},
    cpu::{ORDER_CONNECTIONS, by_turns, order_cpu_us},
    load::{BuyerTape, Tape, TapeCall, orders_path},
    numbers::{hundredth, hundredths, median},
    places::Apart,
    report::BenchFigure,
    server::{MeasuredServer, Settings},
};

const ROUNDS: usize = 5;
const TURNS: usize = 6;
const ORDERS_PER_TURN: usize = 20_000;
/// More than all orders together.
const UNITS: u32 = 50_000_000;
const TARGET_RATIO: f64 = 1.15;
const SESSION_SECRET: &str = "penstock-bench-session-0123456789abcdef";
/// Every connection may have an order in flight, because refusals cost less than orders. Settlement is slowed
/// to one decision a second, so that it does no work in anybody's turn.
const SETTINGS: &Settings = &[
    ("PENSTOCK_IDENTITY__SECRET", SESSION_SECRET),
    ("PENSTOCK_GATE__LIMITS__IN_FLIGHT_MIN", "1024"),
    ("PENSTOCK_SETTLE__BATCH", "1"),
    ("PENSTOCK_SETTLE__MAX_DECISIONS_PER_SECOND", "1"),
];

pub(super) fn measure(bench: &mut Bench<'_>) -> anyhow::Result<BenchFigure> {
    let apart = Apart::look(&bench.options.folder)?;
    bench.say(&format!("{ORDERS_PER_TURN} orders of each kind, {TURNS} times a round"));
    let mut orders = OrderTurns::start(bench, apart)?;
    // A first turn takes the one-time costs; it is not counted.
    orders.by_turns(1)?;
    let mut rounds = Vec::new();
    for _ in 0..bench.options.rounds(ROUNDS) {
        rounds.push(bench.undisturbed(apart.places(), |_| {
            let costs = orders.by_turns(TURNS)?;
            let [cookie, bearer, session] = costs;
            let line = format!(
                "µs of CPU an order: {cookie:.2} from a browser, {bearer:.2} with a shop's token, {session:.2} \
                 with the session as a bearer"
            );
            Ok((costs, line))
        })?);
    }
    orders.server.verify(&orders.sale, UNITS.into(), orders.sold)?;
    orders.server.stop()?;
    let of_kind = |kind: usize| rounds.iter().map(|costs| costs[kind]).collect::<Vec<f64>>();
    let [cookie, bearer, session] = [0, 1, 2].map(of_kind);
    Ok(BenchFigure::of(&cookie, "µs/order")
        .against("bearer_order_cpu_us", median(&bearer))
        .at_most(TARGET_RATIO)
        .beside("session_bearer_order_cpu_us", median(&session))
        .detail("session_bearer_ratio", hundredth(median(&cookie) / median(&session)))
        .detail("connections", ORDER_CONNECTIONS)
        .detail("rounds", hundredths(&cookie))
        .detail("bearer_rounds", hundredths(&bearer))
        .detail("session_bearer_rounds", hundredths(&session)))
}

/// The ways in which an order names its buyer, in the order of the turns.
#[derive(Clone, Copy)]
enum Sender {
    /// The shop's page: a session in a cookie, and all headers of a browser.
    Browser,
    /// A program with a token of the shop, as in the other figures.
    ShopToken,
    /// A program with the session of the browser.
    SessionBearer,
}

const SENDERS: [Sender; 3] = [Sender::Browser, Sender::ShopToken, Sender::SessionBearer];

/// One server, one sale, and orders of three kinds in turn.
struct OrderTurns {
    server: MeasuredServer,
    sessions: BrowserSessions,
    sale: String,
    apart: Apart,
    sold: u64,
}

impl OrderTurns {
    fn start(bench: &Bench<'_>, apart: Apart) -> anyhow::Result<Self> {
        let server = MeasuredServer::start(bench, Some(apart.server), SETTINGS)?;
        let sale = server.api.open_sale(UNITS)?;
        Ok(Self { server, sessions: BrowserSessions::new(SESSION_SECRET)?, sale, apart, sold: 0 })
    }

    /// Microseconds of CPU for an order of each kind.
    fn by_turns(&mut self, turns: usize) -> anyhow::Result<[f64; SENDERS.len()]> {
        by_turns(turns, |kind| {
            let tape = self.tape(SENDERS[kind])?;
            self.sold += ORDERS_PER_TURN as u64;
            order_cpu_us(&self.server, tape.once(), ORDERS_PER_TURN, self.apart.generator)
        })
    }

    /// Orders by buyers who have not bought yet.
    fn tape(&self, sender: Sender) -> anyhow::Result<Tape> {
        let (path, headers) = (orders_path(&self.sale), browser::order_headers(&self.server.api, &self.sale));
        let order = TapeCall::order(&path);
        let cookie = |account| self.sessions.cookie(account);
        let bearer = |account| self.sessions.bearer(account);
        let (call, identity): (_, &dyn Fn(u64) -> String) = match sender {
            Sender::ShopToken => return self.server.orders(&self.sale, self.sold, ORDERS_PER_TURN),
            Sender::Browser => (TapeCall { headers: &headers, ..order }, &cookie),
            Sender::SessionBearer => (order, &bearer),
        };
        let (address, first_buyer, count) = (self.server.api.address, self.sold, ORDERS_PER_TURN);
        BuyerTape { address, identity, first_buyer, buyers: u64::MAX, count }.build(&call)
    }
}
