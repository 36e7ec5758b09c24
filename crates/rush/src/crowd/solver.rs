//! Finds proofs of work on threads of their own, so that no request waits for one.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    sync::{
        Arc,
        mpsc::{Receiver, SyncSender, TrySendError, sync_channel},
    },
    thread::{self, Scope},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use sha2::{Digest as _, Sha256};

use super::answers::Puzzle;

/// The most puzzles in the queue; more of them wait with their event loops.
const QUEUE: usize = 1_024;
/// Solvers give way to the event loops: a late proof matters less than a late request.
const NICENESS: i32 = 5;

/// A puzzle of one buyer.
struct SolverJob {
    buyer: u32,
    puzzle: Puzzle,
    asked_at: Instant,
    outbox: Arc<Outbox>,
}

/// A proof that was found.
#[derive(Clone, Copy, Debug)]
pub(super) struct Solved {
    pub(super) buyer: u32,
    pub(super) answer: u64,
    /// How long the puzzle waited for a CPU.
    pub(super) waited: Duration,
}

/// Where an event loop finds its proofs.
#[derive(Debug)]
pub(super) struct Outbox {
    solved: Mutex<Vec<Solved>>,
    waker: mio::Waker,
}

impl Outbox {
    pub(super) fn new(waker: mio::Waker) -> Arc<Self> {
        Arc::new(Self { solved: Mutex::default(), waker })
    }

    pub(super) fn take(&self) -> Vec<Solved> {
        std::mem::take(&mut *self.solved.lock())
    }

    fn put(&self, solved: Solved) {
        self.solved.lock().push(solved);
        // If this fails, the loop finds the proof a little later by itself.
        let _ = self.waker.wake();
    }
}

/// Hands out puzzles. The solver threads end when the last handle is dropped.
pub(super) struct Handle {
    sender: SyncSender<SolverJob>,
    outbox: Arc<Outbox>,
    /// Puzzles that the queue had no room for.
    backlog: VecDeque<SolverJob>,
}

#[derive(Clone)]
pub(super) struct Solvers {
    sender: SyncSender<SolverJob>,
}

impl Solvers {
    /// One thread for each core: in a real crowd every buyer brings a CPU.
    pub(super) fn start<'scope>(scope: &'scope Scope<'scope, '_>) -> Self {
        let (sender, receiver) = sync_channel(QUEUE);
        let receiver = Arc::new(Mutex::new(receiver));
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            let receiver = Arc::clone(&receiver);
            scope.spawn(move || solve_all(&receiver));
        }
        Self { sender }
    }

    pub(super) fn handle(&self, outbox: Arc<Outbox>) -> Handle {
        Handle { sender: self.sender.clone(), outbox, backlog: VecDeque::new() }
    }
}

impl Handle {
    pub(super) fn solve(&mut self, buyer: u32, puzzle: Puzzle) {
        let outbox = Arc::clone(&self.outbox);
        self.backlog.push_back(SolverJob { buyer, puzzle, asked_at: Instant::now(), outbox });
        self.hand_over();
    }

    fn hand_over(&mut self) {
        while let Some(job) = self.backlog.pop_front() {
            match self.sender.try_send(job) {
                Ok(()) => {}
                Err(TrySendError::Full(job) | TrySendError::Disconnected(job)) => {
                    self.backlog.push_front(job);
                    return;
                }
            }
        }
    }

    pub(super) fn take(&mut self) -> Vec<Solved> {
        let solved = self.outbox.take();
        self.hand_over();
        solved
    }
}

fn solve_all(receiver: &Mutex<Receiver<SolverJob>>) {
    // If this is not allowed, the proofs compete with the requests.
    let _ = rustix::process::setpriority_process(None, NICENESS);
    loop {
        let received = receiver.lock().recv();
        let Ok(job) = received else { return };
        let waited = job.asked_at.elapsed();
        let answer = solve(&job.puzzle);
        job.outbox.put(Solved { buyer: job.buyer, answer, waited });
    }
}

/// The first number for which the digest of salt and number begins with the wanted zero bits.
fn solve(puzzle: &Puzzle) -> u64 {
    let salted = Sha256::new_with_prefix(&puzzle.salt);
    let mut text = itoa::Buffer::new();
    let solves = |answer: &u64| {
        let digest = salted.clone().chain_update(text.format(*answer)).finalize();
        leading_zero_bits(&digest) >= u32::from(puzzle.difficulty)
    };
    (0..u64::MAX).find(solves).unwrap_or(u64::MAX)
}

fn leading_zero_bits(digest: &[u8]) -> u32 {
    let zero_bytes = digest.iter().take_while(|byte| **byte == 0).count();
    let rest = digest.get(zero_bytes).map_or(0, |byte| byte.leading_zeros());
    u32::try_from(zero_bytes).map_or(u32::MAX, |bytes| bytes * 8) + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_begins_with_its_zero_bits() {
        let puzzle = Puzzle { salt: "salt".to_owned(), difficulty: 11 };
        let answer = solve(&puzzle);
        let digest = Sha256::digest(format!("salt{answer}"));
        assert!(digest[0] == 0 && digest[1] < 0b0010_0000, "{digest:?}");
        assert_eq!(leading_zero_bits(&[0, 0b0001_0000]), 11);
        assert_eq!(leading_zero_bits(&[0, 0]), 16);
    }
}
