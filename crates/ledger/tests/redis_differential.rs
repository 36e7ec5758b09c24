//! Sends the same random commands to `Book` and to Redis: every reply, every status, every decision and the
//! final state are equal. Each sale on Redis is compared with a `Book` of its own, because it has a feed of
//! its own.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

mod support;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicI64, Ordering::SeqCst},
    },
};

use futures_util::future::join_all;
use penstock_domain::{
    Book, BuyerId, Claim, Command, Cursor, Decision, Event, KeyDigest, LeaveReason, MAX_UNITS, Order,
    OrderId, Reply, SaleId, SaleRefusal, SaleStatus, SaleTerms, Timestamp,
};
use penstock_ledger::{BatcherOptions, Health, Ledger, LedgerError, Listener, SaleNews};
use penstock_testkit::{Random, seed_of_the_day};
use support::{Corner, Servers};

const ROUNDS: u64 = 24;
const COMMANDS_OF_A_ROUND: usize = 1_000;
const OPENING: i64 = 1_700_000_000_000;
const MANY: u32 = 1_000_000;

#[derive(Default)]
struct Heard(Mutex<BTreeMap<SaleId, SaleStatus>>);

impl Listener for Heard {
    fn sales_changed(&self, news: &[SaleNews]) {
        let mut heard = self.0.lock().unwrap();
        heard.extend(news.iter().map(|news| (news.status.terms.sale, news.status)));
    }
}

/// A `Book` for each sale, and its decisions.
#[derive(Default)]
struct Model {
    sales: BTreeMap<SaleId, (Book, Vec<Decision>)>,
}

impl Model {
    fn execute(&mut self, command: &Command, now: Timestamp) -> Reply {
        let sale = match command {
            Command::Publish(terms) => terms.sale,
            Command::Restock { sale, .. }
            | Command::Pause(sale)
            | Command::Resume(sale)
            | Command::Close(sale)
            | Command::Join { sale, .. }
            | Command::Leave { sale, .. }
            | Command::FindPlace { sale, .. } => *sale,
            Command::Claim(claim) | Command::Recall(claim) => claim.sale,
            Command::ConfirmPayment { order, .. }
            | Command::Cancel { order, .. }
            | Command::FindOrder { order, .. } => order.sale,
            Command::ExpireDue { .. } => {
                return Reply::Expired(
                    self.execute_everywhere(command, now, |reply| match reply {
                        Reply::Expired(released) => released,
                        other => panic!("{other:?}"),
                    })
                    .into_iter()
                    .sum(),
                );
            }
            Command::OrdersOf { max, .. } => {
                let mut orders: Vec<Order> = self
                    .execute_everywhere(command, now, |reply| match reply {
                        Reply::Orders(orders) => orders,
                        other => panic!("{other:?}"),
                    })
                    .concat();
                orders.sort_by_key(|order| std::cmp::Reverse((order.created_at, order.id)));
                orders.truncate(*max as usize);
                return Reply::Orders(orders);
            }
        };
        let (book, decisions) = self.sales.entry(sale).or_default();
        book.execute(command.clone(), now, decisions)
    }

    fn execute_everywhere<T>(
        &mut self,
        command: &Command,
        now: Timestamp,
        part: impl Fn(Reply) -> T,
    ) -> Vec<T> {
        let books = self.sales.values_mut();
        books.map(|(book, decisions)| part(book.execute(command.clone(), now, decisions))).collect()
    }

    /// How many offers were made to waiters.
    fn offers(&self) -> usize {
        let is_offer =
            |decision: &&Decision| matches!(decision.event, Event::Left { reason: LeaveReason::Offered, .. });
        self.sales.values().map(|(_, decisions)| decisions.iter().filter(is_offer).count()).sum()
    }

    /// How many orders the sale has. Commands ask for some of them, and for some that don't exist.
    fn orders(&self, sale: SaleId) -> u64 {
        let held = |decision: &&Decision| matches!(decision.event, Event::Held { .. });
        self.sales.get(&sale).map_or(0, |(_, decisions)| decisions.iter().filter(held).count() as u64)
    }
}

struct Chance {
    random: Random,
    sales: Vec<SaleId>,
}

impl Chance {
    fn sale(&mut self) -> SaleId {
        let place = self.random.below(self.sales.len() as u64 + 1) as usize;
        // Now and then a sale that nobody published.
        self.sales.get(place).copied().unwrap_or(SaleId::from_random(u64::MAX))
    }

    fn buyer(&mut self) -> BuyerId {
        BuyerId::of_subject(&format!("käufer {}", self.random.below(12))).unwrap()
    }

    fn claim(&mut self) -> Claim {
        let key = KeyDigest::of(format!("key-{}", self.random.below(40)).as_bytes()).unwrap();
        let quantity = match self.random.below(20) {
            0 => 0,
            1 => u32::MAX,
            other => 1 + (other % 3) as u32,
        };
        Claim { sale: self.sale(), buyer: self.buyer(), quantity, key }
    }

    fn order(&mut self, model: &Model) -> OrderId {
        let sale = self.sale();
        OrderId { sale, number: self.random.below(model.orders(sale) + 2) as u32 }
    }

    fn asker(&mut self) -> Option<BuyerId> {
        self.random.percent(30).then(|| self.buyer())
    }

    fn terms(&mut self, now: Timestamp) -> SaleTerms {
        let moment = |chance: &mut Self| {
            chance.random.percent(30).then(|| now.plus_millis(chance.random.below(400_000) as i64 - 50_000))
        };
        let place = self.random.below(self.sales.len() as u64) as usize;
        SaleTerms {
            sale: self.sales[place],
            units: [0, 3, 7, 15, 30, 100, MAX_UNITS, MAX_UNITS + 1][self.random.below(8) as usize],
            limit_per_buyer: self.random.below(12) as u32,
            opens_at: moment(self),
            closes_at: if self.random.percent(40) { moment(self) } else { None },
            hold_seconds: self.random.below(90) as u32,
        }
    }

    fn command(&mut self, model: &Model, now: Timestamp) -> Command {
        match self.random.below(250) {
            0..100 => Command::Claim(self.claim()),
            100..110 => Command::Recall(self.claim()),
            110..135 => Command::ConfirmPayment { order: self.order(model), buyer: self.asker() },
            135..155 => Command::Cancel { order: self.order(model), buyer: self.asker() },
            155..165 => Command::FindOrder { order: self.order(model), buyer: self.asker() },
            165..170 => Command::OrdersOf { buyer: self.buyer(), max: self.random.below(6) as u32 },
            // How Redis divides a few releases among several sales is up to it.
            170..178 if self.sales.len() == 1 => Command::ExpireDue { max: self.random.below(8) as u32 },
            170..178 => Command::ExpireDue { max: MANY },
            178..186 => Command::Publish(self.terms(now)),
            186..192 => {
                let units = [0, 1, 1, 2, 2, 5, 20, MAX_UNITS][self.random.below(8) as usize];
                Command::Restock { sale: self.sale(), units }
            }
            192..195 => Command::Pause(self.sale()),
            195..199 => Command::Resume(self.sale()),
            // Seldom, because little happens in a closed sale.
            199 if self.random.percent(20) => Command::Close(self.sale()),
            199..230 => {
                let quantity = self.random.below(4) as u32;
                Command::Join { sale: self.sale(), buyer: self.buyer(), quantity }
            }
            230..236 => Command::Leave { sale: self.sale(), buyer: self.buyer() },
            _ => Command::FindPlace { sale: self.sale(), buyer: self.buyer() },
        }
    }
}

fn refused<T, R: std::fmt::Debug>(answer: Result<T, LedgerError<R>>) -> Result<T, R> {
    answer.map_err(|error| match error {
        LedgerError::Refused(refusal) => refusal,
        other => panic!("{other:?}"),
    })
}

async fn ask(ledger: &Ledger, command: Command) -> Reply {
    let sale = |answer: Result<SaleStatus, LedgerError<SaleRefusal>>| Reply::Sale(refused(answer));
    match command {
        Command::Publish(terms) => sale(ledger.publish(terms).await),
        Command::Restock { sale: id, units } => sale(ledger.restock(id, units).await),
        Command::Pause(id) => sale(ledger.pause(id).await),
        Command::Resume(id) => sale(ledger.resume(id).await),
        Command::Close(id) => sale(ledger.close(id).await),
        Command::Claim(_) | Command::Recall(_) => Reply::Verdict(refused(ledger.decide(command).await.0)),
        Command::ConfirmPayment { order, buyer } => {
            Reply::Payment(refused(ledger.confirm_payment(order, buyer).await))
        }
        Command::Cancel { order, buyer } => Reply::Cancelled(refused(ledger.cancel(order, buyer).await)),
        Command::ExpireDue { max } => Reply::Expired(ledger.expire_due(max).await.unwrap()),
        Command::FindOrder { order, buyer } => Reply::Found(ledger.find_order(order, buyer).await.unwrap()),
        Command::OrdersOf { buyer, max } => Reply::Orders(ledger.orders_of(buyer, max).await.unwrap()),
        Command::Join { sale, buyer, quantity } => {
            Reply::Joined(refused(ledger.join_waitlist(sale, buyer, quantity).await))
        }
        Command::Leave { sale, buyer } => Reply::Left(ledger.leave_waitlist(sale, buyer).await.unwrap()),
        Command::FindPlace { sale, buyer } => {
            Reply::Place(ledger.place_on_waitlist(sale, buyer).await.unwrap())
        }
    }
}

async fn compare_ends(ledger: &Ledger, model: &Model, heard: &Heard) {
    for (sale, (book, decisions)) in &model.sales {
        let stream = sale.to_string();
        let Some(status) = book.status(*sale) else {
            assert_eq!(ledger.feed().head(&stream), 0, "{sale} was never published");
            continue;
        };
        assert_eq!(heard.0.lock().unwrap().get(sale), Some(&status));
        assert_eq!(ledger.feed().head(&stream), decisions.len() as u64);
        let piece = ledger.feed().read(&stream, Cursor::default(), usize::MAX).await.unwrap();
        assert_eq!(piece.decisions, *decisions);
        let mut state = ledger.feed().state(&stream).await.unwrap();
        let expected = book.snapshot();
        // In Redis, a batch that decides nothing leaves the sale's clock alone; in `Book` it moves the clock.
        assert!(state.clock <= expected.clock);
        state.clock = expected.clock;
        assert_eq!(state, expected);
    }
}

/// Asks all of it at once, and returns the number of commands.
async fn compare_replies(ledger: &Ledger, together: Vec<(Command, Reply)>, round: u64) -> usize {
    let replies = join_all(together.iter().map(|(command, _)| ask(ledger, command.clone()))).await;
    for ((command, expected), reply) in together.iter().zip(replies) {
        assert_eq!(reply, *expected, "round {round}, {command:?}");
    }
    together.len()
}

/// Plays a round, and returns how many offers were made to waiters.
async fn play(servers: &Arc<Servers>, round: u64, mut random: Random) -> usize {
    let count = if round.is_multiple_of(3) { 1 } else { 4 };
    let sales = (0..count).map(|_| SaleId::from_random(random.next())).collect();
    let mut chance = Chance { random, sales };
    let (time, heard, mut model) =
        (Arc::new(AtomicI64::new(OPENING)), Arc::<Heard>::default(), Model::default());
    let clock = {
        let time = time.clone();
        Arc::new(move || Timestamp::from_millis(time.load(SeqCst)))
    };
    let corner = Corner::of(servers.clone());
    let ledger = corner.open_ledger(BatcherOptions::default(), Some(clock), heard.clone()).await;
    assert_eq!(ledger.recovered().await, Health::Ready);
    let mut sent = 0;
    while sent < COMMANDS_OF_A_ROUND {
        let now = Timestamp::from_millis(time.load(SeqCst));
        let mut together = Vec::new();
        for _ in 0..1 + chance.random.below(60) {
            let command = chance.command(&model, now);
            // A command that goes aside is decided before or after the others, so it is sent alone.
            let goes_aside = match command {
                Command::Publish(_) | Command::OrdersOf { .. } => true,
                // So is a command about the sales of several masters.
                Command::ExpireDue { .. } => servers.is_cluster(),
                _ => false,
            };
            if goes_aside {
                sent += compare_replies(&ledger, std::mem::take(&mut together), round).await;
            }
            let expected = model.execute(&command, now);
            together.push((command, expected));
            if goes_aside {
                sent += compare_replies(&ledger, std::mem::take(&mut together), round).await;
            }
        }
        sent += compare_replies(&ledger, together, round).await;
        time.fetch_add(chance.random.below(20_000) as i64, SeqCst);
    }
    compare_ends(&ledger, &model, &heard).await;
    ledger.stop().await;
    model.offers()
}

async fn compare(test: &str, servers: Servers) {
    let (mut random, servers) = (Random::new(seed_of_the_day(test)), Arc::new(servers));
    let mut offers = 0;
    for round in 0..ROUNDS {
        offers += play(&servers, round, random.fork()).await;
    }
    assert!(offers > 0, "there was no offer to compare");
}

#[tokio::test]
async fn one_redis_decides_as_the_book_does() {
    compare("one_redis_decides_as_the_book_does", Servers::one()).await;
}

#[tokio::test]
async fn redis_with_sentinels_decides_as_the_book_does() {
    compare("redis_with_sentinels_decides_as_the_book_does", Servers::sentinel()).await;
}

#[tokio::test]
async fn a_redis_cluster_decides_as_the_book_does() {
    compare("a_redis_cluster_decides_as_the_book_does", Servers::cluster()).await;
}
