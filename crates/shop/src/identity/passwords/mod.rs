//! Hashes passwords on a few dedicated threads. Each has the memory of one hash, so their number bounds the
//! memory. A budget bounds their use of the processors. Three queues bound what waits: one for strangers who
//! sign in, one for people who have given the right password before, and one for the passwords of new
//! accounts. So a flood in one queue does not delay the others.

mod budget;
mod hasher;
mod queue;

use std::{
    io,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use penstock_domain::AccountId;
use penstock_gate::AddressKey;
use penstock_ledger::{Precedence, take_precedence};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::oneshot;

use self::{budget::Budget, hasher::Hasher, queue::FairQueue};
use super::options::IdentityOptions;

pub(super) const MIN_PASSWORD_CHARACTERS: usize = 8;
pub const MAX_PASSWORD_BYTES: usize = 256;

/// The line in which a password waits.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum PasswordLine {
    /// Everybody at this address. Loopback has none, so everybody there shares a line.
    Address(Option<AddressKey>),
    /// All known devices of this phone, which don't wait behind others at their address. With a line for each
    /// device, one account could take all the lines that there is space for.
    Phone(String),
    /// A signed-in account.
    Account(AccountId),
}

/// Why a password was not hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PasswordRefusal {
    /// Too many wait.
    Busy,
    /// Hashing failed.
    NotHashed,
}

pub struct Passwords {
    shared: Arc<Shared>,
    threads: usize,
}

struct Shared {
    waiting: Mutex<Waiting>,
    /// Notified when a job waits, or when no further jobs will come.
    changed: Condvar,
}

struct Waiting {
    /// The queues take turns. A queue is found by the number of its `Queue`.
    queues: [FairQueue<PasswordLine, Job>; 3],
    /// The queue whose turn was last.
    turn: usize,
    budget: Budget,
    is_over: bool,
}

/// The queue of a password. However many strangers come from however many addresses, they take no places from
/// known people or from people with a one-time code.
#[derive(Clone, Copy)]
enum Queue {
    Strangers,
    Known,
    New,
}

impl Queue {
    fn of(line: &PasswordLine, is_new: bool) -> Self {
        match line {
            PasswordLine::Phone(_) | PasswordLine::Account(_) => Self::Known,
            PasswordLine::Address(_) if is_new => Self::New,
            PasswordLine::Address(_) => Self::Strangers,
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

    /// The caller may have gone away meanwhile.
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
    pub fn new(options: &IdentityOptions) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let queue = || FairQueue::new(options.password_hashes_waiting);
        let budget = Budget::new(cores, options.password_core_percent, Instant::now());
        let waiting = Waiting { queues: [queue(), queue(), queue()], turn: 0, budget, is_over: false };
        let shared = Shared { waiting: Mutex::new(waiting), changed: Condvar::new() };
        Self { shared: Arc::new(shared), threads: options.password_hashes_at_once.max(1) }
    }

    /// Starts the threads. They end when this is dropped.
    pub fn start(&self) -> io::Result<()> {
        for number in 0..self.threads {
            let shared = Arc::clone(&self.shared);
            thread::Builder::new().name(format!("password-{number}")).spawn(move || shared.work())?;
        }
        Ok(())
    }

    /// `busy` if a password of this line would not be checked. Called before the account is looked up, so
    /// that a flood causes look-ups only for passwords that are checked.
    pub fn have_place(&self, line: &PasswordLine) -> Result<(), PasswordRefusal> {
        let mut waiting = self.shared.waiting();
        if waiting.with_room(Queue::of(line, false)).has_place(line) {
            Ok(())
        } else {
            Err(PasswordRefusal::Busy)
        }
    }

    /// Which of `hashes` belongs to `password`, if any. With no hashes it takes as long as with one. `busy`
    /// if too many wait.
    pub async fn check(
        &self,
        line: PasswordLine,
        password: String,
        hashes: Vec<String>,
    ) -> Result<Option<usize>, PasswordRefusal> {
        let (answer, answered) = oneshot::channel();
        self.shared.enqueue(line, Job::Check { password, hashes, answer });
        answered.await.map_err(|_| PasswordRefusal::Busy)
    }

    /// The hash of a new password. `busy` if too many wait.
    pub async fn hash(&self, line: PasswordLine, password: String) -> Result<String, PasswordRefusal> {
        let (answer, answered) = oneshot::channel();
        self.shared.enqueue(line, Job::New { password, answer });
        let hashed = answered.await.map_err(|_| PasswordRefusal::Busy)?;
        hashed.ok_or(PasswordRefusal::NotHashed)
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
        self.waiting.lock()
    }

    /// A job without a place is dropped, and its caller notices that no answer comes.
    fn enqueue(&self, line: PasswordLine, job: Job) {
        let mut waiting = self.waiting();
        let queue = Queue::of(&line, job.is_new());
        waiting.with_room(queue).push(line, job);
        drop(waiting);
        self.changed.notify_all();
    }

    fn work(&self) {
        take_precedence(Precedence::Hashing);
        let mut hasher = Hasher::default();
        while let Some(job) = self.next() {
            let began = processor_time();
            job.run(&mut hasher);
            self.waiting().budget.charge(processor_time().saturating_sub(began));
        }
    }

    /// Waits for a job; None when hashing is over.
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
            match rest {
                Some(rest) => drop(self.changed.wait_for(&mut waiting, rest)),
                None => self.changed.wait(&mut waiting),
            }
        }
    }
}

impl Waiting {
    fn is_empty(&self) -> bool {
        self.queues.iter().all(FairQueue::is_empty)
    }

    /// The queue. If it is full, abandoned jobs are removed first.
    fn with_room(&mut self, queue: Queue) -> &mut FairQueue<PasswordLine, Job> {
        let queue = &mut self.queues[queue as usize];
        if queue.is_full() {
            queue.retain(Job::is_wanted);
        }
        queue
    }

    /// The next job that somebody still waits for.
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

/// The processor time that this thread has used so far. Time given to other threads does not count.
fn processor_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

/// Hashes a password right away, for an operator who creates an account.
pub(super) fn hash(password: &[u8]) -> Option<String> {
    Hasher::default().hash(password)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(places: usize) -> Waiting {
        let queue = || FairQueue::new(places);
        Waiting {
            queues: [queue(), queue(), queue()],
            turn: 0,
            budget: Budget::new(1, 100, Instant::now()),
            is_over: false,
        }
    }

    #[test]
    fn a_full_queue_takes_no_places_from_the_others() {
        let kinds = [
            (PasswordLine::Address(None), false),
            (PasswordLine::Phone("+8613800138000".to_owned()), false),
            (PasswordLine::Address(None), true),
        ];
        for full in &kinds {
            let mut waiting = waiting(2);
            let mut answers = Vec::new();
            while waiting.with_room(Queue::of(&full.0, full.1)).has_place(&full.0) {
                let (answer, answered) = oneshot::channel();
                answers.push(answered);
                let job = Job::New { password: String::new(), answer };
                waiting.with_room(Queue::of(&full.0, full.1)).push(full.0.clone(), job);
            }
            assert!(!answers.is_empty());
            for (line, is_new) in kinds.iter().filter(|kind| *kind != full) {
                let queue = waiting.with_room(Queue::of(line, *is_new));
                assert!(queue.has_place(line), "{full:?} took the places of {line:?}, new: {is_new}");
            }
        }
    }
}
