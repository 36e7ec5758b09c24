//! Several nodes in front of one server, each with a limit of its own, in simulated time. A trial cut by one
//! node shortens the queue at the server only by that node's part, which may look like a floor. But only some
//! batches of each node wait at the server. The rest wait in the node, and depend only on its own limit.

use std::collections::VecDeque;

use super::{simulation::TARGET, *};

/// The batches one node has under way at one master, as on Redis. A full batch takes about 5 ms there.
const BATCHES_AT_ONCE: usize = 3;
/// A real batch has 1,024 claims. All limits here are scaled in the same proportion.
const MAX_BATCH: usize = 32;
const CLAIM_MICROS: u64 = 150;

struct QueuedClaim {
    entered: InFlight,
    arrived_at_micros: u64,
}

struct SimulatedNode {
    shedding: Arc<Shedding>,
    waiting: VecDeque<QueuedClaim>,
    batches: usize,
    answered: u64,
}

struct NodesSimulation {
    now_micros: u64,
    nodes: Vec<SimulatedNode>,
    /// The server's queue; `working_on` is the batch in progress.
    queue: VecDeque<(usize, Vec<QueuedClaim>)>,
    done_at_micros: u64,
    /// The time of a sync, which covers all waiting batches at once, however few they are.
    sync_micros: u64,
    working_on: Vec<(usize, Vec<QueuedClaim>)>,
    next_arrival_micros: u64,
    latency_micros: u64,
    seed: u64,
}

impl NodesSimulation {
    fn new(nodes: usize, sync_micros: u64, seed: u64) -> Self {
        let options = SheddingOptions { min: 2, max: 1_024, initial: 1_024, target_latency: TARGET };
        let node = |_| SimulatedNode {
            shedding: Arc::new(Shedding::new(options)),
            waiting: VecDeque::new(),
            batches: 0,
            answered: 0,
        };
        Self {
            now_micros: 0,
            nodes: (0..nodes).map(node).collect(),
            queue: VecDeque::new(),
            done_at_micros: u64::MAX,
            sync_micros,
            working_on: Vec::new(),
            next_arrival_micros: 0,
            latency_micros: 0,
            seed,
        }
    }

    fn random(&mut self) -> u64 {
        self.seed = self.seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.seed >> 33
    }

    /// Claims per second at full load. With a sync, that means all nodes have as many batches under way as
    /// they may.
    fn capacity(&self) -> u64 {
        let claims = (self.nodes.len() * BATCHES_AT_ONCE * MAX_BATCH) as u64;
        1_000_000 * claims / (self.sync_micros + claims * CLAIM_MICROS)
    }

    /// Runs at ten times the load. Returns the mean latency as a multiple of the target, and the number of
    /// answers.
    fn run(&mut self, seconds: u64) -> (f64, u64) {
        let end = self.now_micros + seconds * 1_000_000;
        self.latency_micros = 0;
        self.nodes.iter_mut().for_each(|node| node.answered = 0);
        while self.now_micros < end {
            let next_micros = self.next_arrival_micros.min(self.done_at_micros);
            self.now_micros = self.now_micros.max(next_micros);
            if next_micros == self.done_at_micros {
                self.answer();
            } else {
                self.arrive();
            }
            if self.working_on.is_empty() && !self.queue.is_empty() {
                self.work();
            }
        }
        let answered: u64 = self.nodes.iter().map(|node| node.answered).sum();
        let mean_micros = self.latency_micros as f64 / answered as f64;
        (mean_micros / TARGET.as_micros() as f64, answered)
    }

    fn arrive(&mut self) {
        let number = self.random() as usize % self.nodes.len();
        let node = &mut self.nodes[number];
        let arrived_at_micros = self.now_micros;
        node.waiting
            .extend(node.shedding.try_enter().map(|entered| QueuedClaim { entered, arrived_at_micros }));
        self.send(number);
        self.next_arrival_micros += CLAIM_MICROS / 10;
    }

    fn send(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        while node.batches < BATCHES_AT_ONCE && !node.waiting.is_empty() {
            let batch = node.waiting.drain(..node.waiting.len().min(MAX_BATCH)).collect();
            node.batches += 1;
            self.queue.push_back((number, batch));
        }
    }

    /// Takes one batch, or all waiting ones if the server syncs.
    fn work(&mut self) {
        let count = if self.sync_micros > 0 { self.queue.len() } else { 1 };
        self.working_on.extend(self.queue.drain(..count));
        let claims: usize = self.working_on.iter().map(|(_, batch)| batch.len()).sum();
        let micros = self.sync_micros + claims as u64 * CLAIM_MICROS;
        // Between half and one and a half of the usual time.
        self.done_at_micros = self.now_micros + micros / 2 + micros * (self.random() % 1_024) / 1_024;
    }

    fn answer(&mut self) {
        let now = Timestamp::from_millis(self.now_micros as i64 / 1_000);
        for (number, batch) in std::mem::take(&mut self.working_on) {
            let node = &mut self.nodes[number];
            node.batches -= 1;
            node.answered += batch.len() as u64;
            for claim in batch {
                let latency_micros = self.now_micros - claim.arrived_at_micros;
                self.latency_micros += latency_micros;
                claim.entered.finished(Duration::from_micros(latency_micros), now);
            }
            self.send(number);
        }
        self.done_at_micros = u64::MAX;
    }
}

#[test]
fn nodes_that_share_a_server_wait_longer_than_one_node_but_sell_as_much_in_fair_shares() {
    for (nodes, sync_micros, most) in [(1, 0, 1.2), (3, 0, 2.0), (8, 0, 7.0), (3, 20_000, 7.5)] {
        for seed in 1..=2 {
            let mut simulation = NodesSimulation::new(nodes, sync_micros, seed);
            simulation.run(30);
            let (latency, answered) = simulation.run(30);
            let case =
                format!("{nodes} nodes, syncs of {sync_micros} µs, seed {seed}: {latency:.2} × the target");
            eprintln!("{case}");
            assert!(latency <= most, "{case}");
            let best = simulation.capacity() * 30;
            assert!(answered * 10 >= 9 * best, "{case}, {answered} of {best} answered");
            let least = simulation.nodes.iter().map(|node| node.answered).min().unwrap_or_default();
            assert!(
                least * nodes as u64 * 10 >= 9 * answered,
                "{case}, a node answered {least} of {answered}"
            );
        }
    }
}
