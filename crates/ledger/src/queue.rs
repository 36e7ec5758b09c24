//! The bounded queue between the many askers and the one writer: how a batch is formed, and how its answers
//! get back. It depends on no engine, and on no time except the writer's rest.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::Relaxed},
    },
    thread::ThreadId,
    time::Instant,
};

use parking_lot::Mutex;
use penstock_domain::{Command, Reply};
use tokio::sync::{Notify, oneshot};

/// Why a request got no reply.
#[derive(Clone, Debug)]
pub(crate) enum Failure {
    Busy,
    Unavailable(Arc<str>),
}

pub(crate) type Answer = Result<Reply, Failure>;

#[derive(Debug)]
pub(crate) struct Queue {
    state: Mutex<State>,
    wake: Notify,
    max_queued: usize,
    max_batch: usize,
    /// Commands that the writer has taken out and not yet begun to decide.
    sorted: AtomicUsize,
}

#[derive(Debug)]
struct State {
    commands: Vec<Command>,
    askers: Vec<Asker>,
    door: QueueDoor,
}

#[derive(Clone, Debug)]
enum QueueDoor {
    Open,
    /// Newcomers get this answer at once.
    Shut(Arc<str>),
    /// Like `Shut`, and the writer ends when the queue is empty.
    Stopping,
}

/// Where an answer goes.
#[derive(Debug)]
pub(crate) struct Asker {
    thread: ThreadId,
    answer: oneshot::Sender<Delivery>,
}

/// What the writer takes at once.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) commands: Vec<Command>,
    pub(crate) askers: Vec<Asker>,
}

impl Queue {
    pub(crate) fn new(max_queued: usize, max_batch: usize) -> Self {
        let state = State { commands: Vec::new(), askers: Vec::new(), door: QueueDoor::Open };
        let sorted = AtomicUsize::new(0);
        Self { state: Mutex::new(state), wake: Notify::new(), max_queued, max_batch, sorted }
    }

    /// Asks and waits for the answer. Also tells when it was given: a busy caller may take it much later.
    ///
    /// A caller that finds the queue empty wakes the writer, but first lets its runtime go around once:
    /// everything that is ready to run joins the batch. A writer that is woken by the first request of a
    /// burst commits batches of one, and a machine has no time to sync those.
    pub(crate) async fn ask(&self, command: Command) -> (Answer, Instant) {
        let (answer, delivery) = oneshot::channel();
        match self.push(command, Asker { thread: std::thread::current().id(), answer }) {
            Ok(Pushed::First) => {
                let _wake = WakeOnDrop(&self.wake);
                tokio::task::yield_now().await;
            }
            Ok(Pushed::Behind) => {}
            Ok(Pushed::BatchFull) => self.wake.notify_one(),
            Err(failure) => return (Err(failure), Instant::now()),
        }
        match delivery.await {
            Ok(mut delivery) => (delivery.take(), delivery.given_at),
            Err(_) => (Err(Failure::Unavailable("the ledger's writer is gone".into())), Instant::now()),
        }
    }

    fn push(&self, command: Command, asker: Asker) -> Result<Pushed, Failure> {
        let mut state = self.state.lock();
        match &state.door {
            QueueDoor::Open => {}
            QueueDoor::Shut(reason) => return Err(Failure::Unavailable(reason.clone())),
            QueueDoor::Stopping => return Err(Failure::Unavailable("the ledger is stopping".into())),
        }
        if state.commands.len() >= self.max_queued {
            return Err(Failure::Busy);
        }
        state.commands.push(command);
        state.askers.push(asker);
        Ok(match state.commands.len() {
            1 => Pushed::First,
            length if length == self.max_batch => Pushed::BatchFull,
            _ => Pushed::Behind,
        })
    }

    /// Waits for the next batch, and then until `rest_until`, unless a full batch has gathered. None if the
    /// queue was stopped and is empty.
    pub(crate) async fn take(&self, rest_until: Option<Instant>) -> Option<Batch> {
        let mut woken = false;
        loop {
            {
                let mut state = self.state.lock();
                // Commands that the last batch left behind have waited long enough: a full batch needs no
                // wake.
                if woken && !state.commands.is_empty() || state.commands.len() >= self.max_batch {
                    return Some(self.take_from(&mut state));
                }
                if matches!(state.door, QueueDoor::Stopping) {
                    return (!state.commands.is_empty()).then(|| self.take_from(&mut state));
                }
            }
            self.wake.notified().await;
            woken = true;
            if let Some(until) = rest_until {
                self.rest(until);
            }
        }
    }

    /// Blocks the writer's thread, which has nothing else to do. By the runtime's clock it would sleep twice
    /// as long.
    fn rest(&self, until: Instant) {
        let rest = until.saturating_duration_since(Instant::now());
        if !rest.is_zero() && self.len() < self.max_batch {
            std::thread::sleep(rest);
        }
    }

    fn take_from(&self, state: &mut State) -> Batch {
        let length = state.commands.len().min(self.max_batch);
        let mut rest = (state.commands.split_off(length), state.askers.split_off(length));
        if rest.0.is_empty() {
            // The next batch is likely to be as long as this one.
            rest = (Vec::with_capacity(length), Vec::with_capacity(length));
        } else {
            self.wake.notify_one();
        }
        let commands = std::mem::replace(&mut state.commands, rest.0);
        let askers = std::mem::replace(&mut state.askers, rest.1);
        Batch { commands, askers }
    }

    pub(crate) fn open(&self) {
        let mut state = self.state.lock();
        if matches!(state.door, QueueDoor::Shut(_)) {
            state.door = QueueDoor::Open;
        }
    }

    /// From now on newcomers get the answer `reason`, and so does everyone who waits.
    pub(crate) fn shut(&self, reason: &Arc<str>) {
        let askers = {
            let mut state = self.state.lock();
            if !matches!(state.door, QueueDoor::Stopping) {
                state.door = QueueDoor::Shut(reason.clone());
            }
            state.commands.clear();
            std::mem::take(&mut state.askers)
        };
        refuse(askers, reason);
    }

    pub(crate) fn stop(&self) {
        self.state.lock().door = QueueDoor::Stopping;
        self.wake.notify_one();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        matches!(self.state.lock().door, QueueDoor::Stopping)
    }

    /// Returns when `stop` may have been called.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }

    pub(crate) fn max_queued(&self) -> usize {
        self.max_queued
    }

    pub(crate) fn max_batch(&self) -> usize {
        self.max_batch
    }

    fn len(&self) -> usize {
        self.state.lock().commands.len()
    }

    /// How many commands the writer has sorted by home, where they wait.
    pub(crate) fn set_sorted(&self, sorted: usize) {
        self.sorted.store(sorted, Relaxed);
    }

    pub(crate) fn depth(&self) -> usize {
        self.len() + self.sorted.load(Relaxed)
    }
}

enum Pushed {
    First,
    Behind,
    BatchFull,
}

/// Wakes the writer even if the task that has to do it is dropped half-way.
struct WakeOnDrop<'a>(&'a Notify);

impl Drop for WakeOnDrop<'_> {
    fn drop(&mut self) {
        self.0.notify_one();
    }
}

/// One asker's answer. For one asker of each thread, also the answers of all others on that thread: waking a
/// task of another thread costs a system call, waking a neighbour costs nothing. So the writer wakes one task
/// per thread and batch, and that one wakes its neighbours.
#[derive(Debug)]
pub(crate) struct Delivery {
    answer: Option<Answer>,
    neighbours: Vec<(Asker, Answer)>,
    given_at: Instant,
}

impl Delivery {
    fn take(&mut self) -> Answer {
        self.answer.take().unwrap_or_else(|| Err(Failure::Unavailable("the answer was lost".into())))
    }
}

/// A delivery that nobody picks up still reaches the neighbours.
impl Drop for Delivery {
    fn drop(&mut self) {
        let given_at = self.given_at;
        for (asker, answer) in self.neighbours.drain(..) {
            // The asker may be gone.
            drop(asker.answer.send(Delivery { answer: Some(answer), neighbours: Vec::new(), given_at }));
        }
    }
}

pub(crate) fn deliver(askers: Vec<Asker>, answers: impl IntoIterator<Item = Answer>) {
    let mut threads: Vec<(ThreadId, Vec<(Asker, Answer)>)> = Vec::new();
    let expected = askers.len();
    for (asker, answer) in askers.into_iter().zip(answers) {
        match threads.iter_mut().find(|(thread, _)| *thread == asker.thread) {
            Some((_, waiting)) => waiting.push((asker, answer)),
            None => {
                let mut waiting = Vec::with_capacity(expected);
                let thread = asker.thread;
                waiting.push((asker, answer));
                threads.push((thread, waiting));
            }
        }
    }
    let given_at = Instant::now();
    for (_, mut neighbours) in threads {
        if let Some((asker, answer)) = neighbours.pop() {
            // If the receiver is gone, dropping the delivery serves the neighbours from here.
            drop(asker.answer.send(Delivery { answer: Some(answer), neighbours, given_at }));
        }
    }
}

pub(crate) fn refuse(askers: Vec<Asker>, reason: &Arc<str>) {
    let answers = std::iter::repeat_n(Err(Failure::Unavailable(reason.clone())), askers.len());
    deliver(askers, answers);
}
