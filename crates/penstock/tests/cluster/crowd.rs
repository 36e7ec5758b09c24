//! A steady crowd: people come, buy, press twice, pay and cancel, and ask again with the same key until they
//! get a verdict, whatever fails meanwhile. The auditor gets the answers.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use penstock_testkit::{AnswerLost, Auditor, Client, ClientAnswer, Random, buyer_token};

use crate::trial::until;

const PEOPLE_AT_ONCE: usize = 8;
/// The average pause between two purchases of a person, so that the crowd is steady and leaves the machine
/// some room.
const PAUSE_MILLISECONDS: u64 = 40;
const TRY_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Longer than nginx takes to give up a node.
const ANSWER_PATIENCE: Duration = Duration::from_secs(8);
/// Nobody waits this long: no verdict within this time is a failure.
const VERDICT_PATIENCE: Duration = Duration::from_secs(90);

/// What the crowd has seen so far.
#[derive(Default)]
struct Seen {
    /// Tells people of this crowd from those of another.
    name: u64,
    stop: AtomicBool,
    people: AtomicU64,
    /// When each order was first answered 201.
    sold: Mutex<Vec<Instant>>,
    /// Answers that never came, and refusals after which a person asked again.
    asked_again: AtomicU64,
}

/// People who buy until they are sent home.
pub(crate) struct Crowd {
    seen: Arc<Seen>,
    threads: Vec<JoinHandle<Auditor>>,
}

impl Crowd {
    /// They connect to `front` and want `sale`. The limit of a buyer is two units.
    pub(crate) fn gather(front: SocketAddr, sale: &str, random: &mut Random) -> Self {
        let seen = Arc::new(Seen { name: random.next(), ..Seen::default() });
        let threads = (0..PEOPLE_AT_ONCE).map(|_| {
            let (seen, sale, random) = (Arc::clone(&seen), sale.to_owned(), random.fork());
            let client = Client::new(front).with_timeout(ANSWER_PATIENCE);
            thread::spawn(move || Person { client, sale, random, seen, auditor: Auditor::default() }.trade())
        });
        Self { threads: threads.collect(), seen }
    }

    /// Orders that were answered 201 so far.
    pub(crate) fn sold(&self) -> usize {
        self.seen.sold.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Waits until `more` further orders are sold, and returns how long that took.
    pub(crate) fn until_more_are_sold(&self, more: usize) -> Duration {
        let (began, before) = (Instant::now(), self.sold());
        until("the crowd buys", || (self.sold() >= before + more).then_some(()));
        began.elapsed()
    }

    /// Orders that were answered in this time.
    pub(crate) fn sold_between(&self, from: Instant, to: Instant) -> usize {
        let sold = self.seen.sold.lock().unwrap_or_else(PoisonError::into_inner);
        sold.iter().filter(|moment| from <= **moment && **moment < to).count()
    }

    /// The longest time in which nobody got an order.
    pub(crate) fn longest_silence(&self) -> Duration {
        let mut sold = self.seen.sold.lock().unwrap_or_else(PoisonError::into_inner).clone();
        sold.sort_unstable();
        sold.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }

    pub(crate) fn asked_again(&self) -> u64 {
        self.seen.asked_again.load(Ordering::Relaxed)
    }

    /// Lets everybody finish what they are doing, and returns what they saw.
    pub(crate) fn go_home(self) -> Auditor {
        self.seen.stop.store(true, Ordering::Relaxed);
        let mut all = Auditor::default();
        for thread in self.threads {
            all.merge(thread.join().unwrap());
        }
        all
    }
}

struct Person {
    client: Client,
    sale: String,
    random: Random,
    seen: Arc<Seen>,
    auditor: Auditor,
}

impl Person {
    fn trade(mut self) -> Auditor {
        while !self.seen.stop.load(Ordering::Relaxed) {
            let number = self.seen.people.fetch_add(1, Ordering::Relaxed);
            let name = self.seen.name;
            let (buyer, key) = (format!("buyer-{name:x}-{number}"), format!("key-{name:x}-{number}"));
            self.client.set_token(&buyer_token(&buyer));
            let quantity = 1 + self.random.below(2) as u32;
            self.auditor.sends(&self.sale, &buyer, quantity, &key);
            if let Some(order) = self.claim(quantity, &key) {
                self.seen.sold.lock().unwrap_or_else(PoisonError::into_inner).push(Instant::now());
                self.afterwards(&order, quantity, &key);
            }
            thread::sleep(Duration::from_millis(self.random.below(2 * PAUSE_MILLISECONDS)));
        }
        self.auditor
    }

    fn claim(&mut self, quantity: u32, key: &str) -> Option<String> {
        let sale = self.sale.clone();
        let answer = self.insist(|client| client.claim(&sale, quantity, key));
        assert!(matches!(answer.status, 201 | 409), "{} {}", answer.status, answer.text());
        self.auditor.saw(&sale, key, &answer)
    }

    /// Some press twice, some pay, some change their mind.
    fn afterwards(&mut self, order: &str, quantity: u32, key: &str) {
        match self.random.below(8) {
            0 => drop(self.claim(quantity, key)),
            1..4 => {
                let path = format!("/api/v1/orders/{order}/pay");
                if self.insist(|client| client.post_nothing(&path)).status == 200 {
                    self.auditor.saw_payment(order);
                }
            }
            4 => {
                let path = format!("/api/v1/orders/{order}/cancel");
                if self.insist(|client| client.post_nothing(&path)).status == 200 {
                    self.auditor.saw_cancellation(order);
                }
            }
            _ => {}
        }
    }

    /// Asks again until there is a verdict: after no answer, and after one that says "later".
    fn insist(&mut self, ask: impl Fn(&mut Client) -> Result<ClientAnswer, AnswerLost>) -> ClientAnswer {
        let began = Instant::now();
        loop {
            match ask(&mut self.client) {
                Ok(answer) if !matches!(answer.status, 429 | 502 | 503 | 504) => return answer,
                other => {
                    assert!(began.elapsed() < VERDICT_PATIENCE, "there is no verdict: {other:?}");
                }
            }
            self.seen.asked_again.fetch_add(1, Ordering::Relaxed);
            thread::sleep(TRY_AGAIN_AFTER);
        }
    }
}
