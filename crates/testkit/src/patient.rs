//! People who buy while something else happens: how long they wait, and what they are told.

use std::{
    net::SocketAddr,
    sync::{Arc, Barrier},
    thread,
    time::{Duration, Instant},
};

use crate::{Client, Penstock, SlowSync, buyer_token};

/// The connections of the crowd. Each buys for one person after the other.
const CONNECTIONS: usize = 240;
/// About how long syncs are slow; a limit needs some seconds to fall.
const SLOW_TIME: Duration = Duration::from_secs(8);
/// How many people come over each connection while syncs are quick.
const PEOPLE_PER_CONNECTION: usize = 15;
/// How soon after syncs are quick again nearly everybody has to be served at once.
const QUICK_WITHIN: Duration = Duration::from_secs(60);
/// How often a person who is told to come back later does so.
const MAX_TRIES: usize = 5;

/// Longer than any answer takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Orders one unit after the other for some time, each for another buyer. Returns the longest time that one
/// took.
pub fn longest_order(penstock: &Penstock, sale: &str, time: Duration) -> Duration {
    let began = Instant::now();
    let mut longest = Duration::ZERO;
    for number in 0.. {
        let buyer = format!("buyer-{number}");
        let mut client = penstock.client().with_timeout(PATIENCE).with_token(&buyer_token(&buyer));
        let asked = Instant::now();
        let answer = client.claim(sale, 1, &buyer).unwrap_or_else(|lost| panic!("no answer: {lost:?}"));
        assert_eq!(answer.status, 201, "{}", answer.text());
        longest = longest.max(asked.elapsed());
        if began.elapsed() > time {
            break;
        }
        thread::sleep(Duration::from_millis(20));
    }
    longest
}

/// What people were told.
#[derive(Debug, Default)]
struct Told {
    served: usize,
    gave_up: usize,
    /// How often people were told to come back.
    busy: usize,
    /// How long each person who was served waited for the final answer.
    latencies: Vec<Duration>,
}

impl Told {
    /// The median wait of those who were served.
    fn median(&self) -> Duration {
        let mut latencies = self.latencies.clone();
        latencies.sort_unstable();
        latencies.get(latencies.len() / 2).copied().unwrap_or_default()
    }

    fn and(mut self, other: Self) -> Self {
        self.served += other.served;
        self.gave_up += other.gave_up;
        self.busy += other.busy;
        self.latencies.extend(other.latencies);
        self
    }

    /// Buys one unit, and comes back as long as the answer is `busy`. Any other refusal fails the test.
    fn buy(&mut self, client: &mut Client, sale: &str, name: &str) {
        for attempt in 1..=MAX_TRIES {
            let asked = Instant::now();
            let answer = client.claim(sale, 1, name).unwrap_or_else(|lost| panic!("no answer: {lost:?}"));
            if answer.status == 201 {
                self.served += 1;
                self.latencies.push(asked.elapsed());
                return;
            }
            assert_eq!(answer.code(), "busy", "{}", answer.text());
            self.busy += 1;
            self.gave_up += usize::from(attempt == MAX_TRIES);
            let seconds = answer.header("retry-after").and_then(|text| text.parse().ok()).unwrap_or(1);
            thread::sleep(Duration::from_secs(seconds));
        }
    }
}

/// Sells while syncs are slow and afterwards. Hardly anybody may be told to come back or give up, and orders
/// have to be quick again once the syncs are. Returns how many bought.
pub fn sell_behind_slow_syncs(slow: &SlowSync, addresses: &[SocketAddr], sale: &str) -> usize {
    // An order waits for the sync that is under way and for its own.
    let people = (SLOW_TIME.as_millis() / (2 * slow.delay()).as_millis()) as usize;
    let all = CONNECTIONS * people;
    slow.begin().unwrap_or_else(|error| panic!("{error}"));
    let behind_it = sell(addresses, sale, "slow", people);
    let (busy, median) = (behind_it.busy, behind_it.median());
    eprintln!("behind slow syncs: {} of {all} served, {busy} × busy, median {median:?}", behind_it.served);
    assert!(median >= slow.delay(), "nothing is delayed: {median:?}");
    assert_eq!(behind_it.served + behind_it.gave_up, all);
    // None on a quiet machine. If the processors are busy with something else, not only syncs are slow. A
    // limit that falls to its minimum tells everybody to come back several times, and a quarter give up.
    assert!(behind_it.gave_up * 10 <= all, "{} of {all} gave up", behind_it.gave_up);
    assert!(busy <= all, "{busy} of {all} were told to come back");

    slow.end().unwrap_or_else(|error| panic!("{error}"));
    behind_it.served + sell_until_quick(addresses, sale)
}

/// On a quiet machine, no trace of slow syncs is left after about a second; on a busy one it takes longer.
/// Returns how many bought until then.
fn sell_until_quick(addresses: &[SocketAddr], sale: &str) -> usize {
    let all = CONNECTIONS * PEOPLE_PER_CONNECTION;
    let (mut served, began) = (0, Instant::now());
    for round in 1.. {
        let after_it = sell(addresses, sale, &format!("round-{round}"), PEOPLE_PER_CONNECTION);
        let busy = after_it.busy;
        eprintln!("after it, round {round}: {busy} × busy, median {:?}", after_it.median());
        served += after_it.served;
        if after_it.served == all && busy * 20 <= all {
            break;
        }
        assert!(began.elapsed() < QUICK_WITHIN, "still {busy} of {all} are told to come back");
    }
    served
}

/// People come one after the other on each connection, and on all connections at once. The connections are
/// spread over the addresses.
fn sell(addresses: &[SocketAddr], sale: &str, name: &str, people: usize) -> Told {
    let start = Arc::new(Barrier::new(CONNECTIONS));
    let buyers = addresses.iter().cycle().take(CONNECTIONS).enumerate().map(|(connection, address)| {
        let (mut client, sale, start) = (Client::new(*address), sale.to_owned(), Arc::clone(&start));
        let names = (0..people).map(|person| format!("{name}-{connection}-{person}"));
        let people: Vec<_> = names.map(|name| (buyer_token(&name), name)).collect();
        thread::spawn(move || {
            let connected = client.connect();
            start.wait();
            assert!(connected.is_ok(), "{connected:?}");
            let mut told = Told::default();
            for (token, name) in people {
                client.set_token(&token);
                told.buy(&mut client, &sale, &name);
            }
            told
        })
    });
    let buyers: Vec<_> = buyers.collect();
    let told = buyers.into_iter().map(|buyer| buyer.join().unwrap_or_else(|_| panic!("a buyer failed")));
    told.fold(Told::default(), Told::and)
}
