//! Hashes passwords on a few threads of their own. Each has the memory of one hash, so memory is bounded by their number; what they
//! take of the processors is bounded by a budget, and what waits for them by three queues: one for strangers who sign in, one for people
//! who have given the right password before, and one for the passwords of new accounts. So a flood of one keeps nobody in the others waiting.

mod budget;
mod hasher;
mod queue;

use std::{
    io,
    sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

use penstock_domain::AccountId;
use penstock_gate::AddressKey;
use penstock_ledger::{Turn, take_turn};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use self::{budget::Budget, hasher::Hasher, queue::FairQueue};
use crate::{
    options::Options,
    problem::{Code, Problem},
};

pub(crate) const MIN_PASSWORD_CHARACTERS: usize = 8;
pub(crate) const MAX_PASSWORD_BYTES: usize = 256;

/// Whose passwords wait in one line.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Line {
    /// All of this address; those of loopback have none and share a line.
    Address(Option<AddressKey>),
    /// All known devices of this phone, which don't wait behind others of their address. With a line for each device, one account could
    /// have all the lines that there is place for.
    Phone(String),
    /// Somebody who is signed in.
    Account(AccountId),
}

pub(crate) struct Passwords {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    waiting: Mutex<Waiting>,
    /// Something waits, or there is nothing to wait for any more.
    changed: Condvar,
}

struct Waiting {
    /// The queues take turns. One is found by the number of its `Queue`.
    queues: [FairQueue<Line, Job>; 3],
    /// Whose turn it was last.
    turn: usize,
    budget: Budget,
    is_over: bool,
}

/// Where something waits. However many strangers come from however many addresses, they take no place from people who are known, and none
/// from people who have a one-time code.
#[derive(Clone, Copy)]
enum Queue {
    Strangers,
    Known,
    New,
}

impl Queue {
    fn of(line: &Line, is_new: bool) -> Self {
        match line {
            Line::Phone(_) | Line::Account(_) => Self::Known,
            Line::Address(_) if is_new => Self::New,
            Line::Address(_) => Self::Strangers,
        }
    }
}

enum Job {
    Check { password: String, hashes: Vec<String>, answer: oneshot::Sender<Option<usize>> },
    New { password: String, answer: oneshot::Sender<Option<String>> },
}

impl Job {
    fn is_new(&self) -> bool {
        matches!(self, Self::New { .. })
    }

    fn is_wanted(&self) -> bool {
        match self {
            Self::Check { answer, .. } => !answer.is_closed(),
            Self::New { answer, .. } => !answer.is_closed(),
        }
    }

    /// Whoever asked may have gone away meanwhile.
    fn run(self, hasher: &mut Hasher) {
        match self {
            Self::Check { password, hashes, answer } => {
                let password = password.as_bytes();
                if hashes.is_empty() {
                    hasher.verify_nobody(password);
                }
                let _ = answer.send(hashes.iter().position(|hash| hasher.verify(password, hash)));
            }
            Self::New { password, answer } => {
                let _ = answer.send(hasher.hash(password.as_bytes()));
            }
        }
    }
}

impl Passwords {
    pub(crate) fn new(options: &Options) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let queue = || FairQueue::new(options.password_hashes_waiting);
        let budget = Budget::new(cores, options.password_core_percent, Instant::now());
        let waiting = Waiting { queues: [queue(), queue(), queue()], turn: 0, budget, is_over: false };
        let shared = Shared { waiting: Mutex::new(waiting), changed: Condvar::new() };
        Self { shared: Arc::new(shared), threads: options.password_hashes_at_once.max(1) }
    }

    /// Starts the threads; they end with this.
    pub(crate) fn start(&self) -> io::Result<()> {
        for number in 0..self.threads {
            let shared = Arc::clone(&self.shared);
            thread::Builder::new().name(format!("password-{number}")).spawn(move || shared.work())?;
        }
        Ok(())
    }

    /// `busy` if a password of this line would not be checked. Asked before the account is looked up, so that a flood costs no look-ups but
    /// those of the passwords that are checked.
    pub(crate) fn have_place(&self, line: &Line) -> Result<(), Problem> {
        let mut waiting = self.shared.waiting();
        if waiting.with_room(Queue::of(line, false)).has_place(line) {
            Ok(())
        } else {
            Err(Code::Busy.into())
        }
    }

    /// Which of `hashes` is of `password`, if one is. Without any it takes as long as with one. `busy` if too many wait.
    pub(crate) async fn check(
        &self,
        line: Line,
        password: String,
        hashes: Vec<String>,
    ) -> Result<Option<usize>, Problem> {
        let (answer, answered) = oneshot::channel();
        self.shared.enqueue(line, Job::Check { password, hashes, answer });
        answered.await.map_err(|_| Code::Busy.into())
    }

    /// The hash of a new password. `busy` if too many wait.
    pub(crate) async fn hash(&self, line: Line, password: String) -> Result<String, Problem> {
        let (answer, answered) = oneshot::channel();
        self.shared.enqueue(line, Job::New { password, answer });
        let hashed = answered.await.map_err(|_| Problem::from(Code::Busy))?;
        hashed.ok_or(Code::Internal.into())
    }
}

impl Drop for Passwords {
    fn drop(&mut self) {
        self.shared.waiting().is_over = true;
        self.shared.changed.notify_all();
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A job that has no place is dropped, and whoever asked for it hears that nobody answers.
    fn enqueue(&self, line: Line, job: Job) {
        let mut waiting = self.waiting();
        let queue = Queue::of(&line, job.is_new());
        waiting.with_room(queue).push(line, job);
        drop(waiting);
        self.changed.notify_all();
    }

    fn work(&self) {
        take_turn(Turn::Hashing);
        let mut hasher = Hasher::default();
        while let Some(job) = self.next() {
            let began = processor_time();
            job.run(&mut hasher);
            self.waiting().budget.charge(processor_time().saturating_sub(began));
        }
    }

    /// Waits for something to hash; None when it is over.
    fn next(&self) -> Option<Job> {
        let mut waiting = self.waiting();
        loop {
            if waiting.is_over {
                return None;
            }
            let rest = waiting.budget.rest(Instant::now()).filter(|_| !waiting.is_empty());
            if rest.is_none()
                && let Some(job) = waiting.pop()
            {
                return Some(job);
            }
            waiting = match rest {
                Some(rest) => {
                    self.changed.wait_timeout(waiting, rest).unwrap_or_else(PoisonError::into_inner).0
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.queues.iter().all(FairQueue::is_empty)
    }

    /// The queue, without those that nobody waits for any more if it would be full with them.
    fn with_room(&mut self, queue: Queue) -> &mut FairQueue<Line, Job> {
        let queue = &mut self.queues[queue as usize];
        if queue.is_full() {
            queue.retain(Job::is_wanted);
        }
        queue
    }

    /// The next that somebody still waits for.
    fn pop(&mut self) -> Option<Job> {
        loop {
            let count = self.queues.len();
            let mut turns = (1..=count).map(|step| (self.turn + step) % count);
            self.turn = turns.find(|turn| !self.queues[*turn].is_empty())?;
            let job = self.queues[self.turn].pop()?;
            if job.is_wanted() {
                return Some(job);
            }
        }
    }
}

/// What this thread has used of a processor so far. Time in which others had it does not count.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// The hash of a password at once, for an operator who makes an account.
pub(crate) fn hash(password: &[u8]) -> Option<String> {
    Hasher::default().hash(password)
}
