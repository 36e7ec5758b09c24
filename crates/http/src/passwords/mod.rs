//! Hashes passwords on a few threads of their own. Each has the memory of one hash, so memory is bounded by their number; what they
//! take of the processors is bounded by a budget, and what waits for them by two queues: one for those who sign in and one for
//! new passwords, so that a flood of one does not keep the other waiting.

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

/// A thread that has had nothing to do for this long gives its memory back.
const IDLE_AFTER: Duration = Duration::from_secs(10);

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
    checks: FairQueue<Line, Job>,
    new: FairQueue<Line, Job>,
    /// The two queues take turns.
    is_turn_of_new: bool,
    budget: Budget,
    is_over: bool,
}

enum Job {
    Check { password: String, hashes: Vec<String>, answer: oneshot::Sender<Option<usize>> },
    New { password: String, answer: oneshot::Sender<Option<String>> },
}

impl Job {
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
        let waiting =
            Waiting { checks: queue(), new: queue(), is_turn_of_new: false, budget, is_over: false };
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
        if waiting.checks.is_full() {
            waiting.checks.retain(Job::is_wanted);
        }
        if waiting.checks.has_place(line) { Ok(()) } else { Err(Code::Busy.into()) }
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
        let queue = match &job {
            Job::Check { .. } => &mut waiting.checks,
            Job::New { .. } => &mut waiting.new,
        };
        if queue.is_full() {
            queue.retain(Job::is_wanted);
        }
        queue.push(line, job);
        drop(waiting);
        self.changed.notify_all();
    }

    fn work(&self) {
        take_turn(Turn::Hashing);
        let mut hasher = Hasher::default();
        while let Some(job) = self.next(&mut hasher) {
            let began = processor_time();
            job.run(&mut hasher);
            self.waiting().budget.charge(processor_time().saturating_sub(began));
        }
    }

    /// Waits for something to hash; None when it is over.
    fn next(&self, hasher: &mut Hasher) -> Option<Job> {
        let mut waiting = self.waiting();
        let mut has_memory = true;
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
            let patience = rest.or(has_memory.then_some(IDLE_AFTER));
            waiting = match patience {
                Some(patience) => {
                    let woken = self.changed.wait_timeout(waiting, patience);
                    let (waiting, timeout) = woken.unwrap_or_else(PoisonError::into_inner);
                    if timeout.timed_out() && waiting.is_empty() {
                        hasher.give_back_memory();
                        has_memory = false;
                    }
                    waiting
                }
                None => self.changed.wait(waiting).unwrap_or_else(PoisonError::into_inner),
            };
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.new.is_empty()
    }

    /// The next that somebody still waits for.
    fn pop(&mut self) -> Option<Job> {
        loop {
            self.is_turn_of_new = !self.is_turn_of_new;
            let (first, second) = match self.is_turn_of_new {
                true => (&mut self.new, &mut self.checks),
                false => (&mut self.checks, &mut self.new),
            };
            let job = first.pop().or_else(|| second.pop())?;
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
