//! Passes of one sale for one node. Requests that come during a call share the next one, so that a rush costs
//! one call per hundreds of people. Orders give their passes back in the background.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_domain::Timestamp;
use penstock_shop::gate::{Applicant, DoorOptions, DoorRefusal, PassFigures};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};

use crate::gate_calls::{BuyerMark, GateCalls};

/// The most requests that may wait. More are told to come back.
const MAX_WAITING: usize = 16_384;
/// The most requests in one call. Redis decides on them in about a millisecond and does nothing else
/// meanwhile.
const MAX_BATCH: usize = 500;
/// The shortest time between the starts of two calls. A single request does not notice it.
const BETWEEN_CALLS: Duration = Duration::from_millis(5);
/// How long used passes are collected to be reported together.
const USED_EVERY: Duration = Duration::from_millis(20);
/// How soon to report again after a failure.
const USED_AGAIN: Duration = Duration::from_millis(200);
/// The most used passes that wait to be reported. Others count until their deadline.
const MAX_USED: usize = 100_000;

type Answer = oneshot::Sender<Result<Timestamp, DoorRefusal>>;

#[derive(Clone, Debug)]
pub(crate) struct Passes {
    waiting: mpsc::Sender<(Applicant, Answer)>,
    used: mpsc::Sender<(BuyerMark, u64)>,
    figures: Arc<Figures>,
}

#[derive(Debug, Default)]
struct Figures {
    issued: AtomicU64,
    live: AtomicU64,
}

impl Passes {
    pub(crate) fn start(runtime: &Handle, calls: &GateCalls, options: DoorOptions) -> Self {
        let (waiting, asked) = mpsc::channel(MAX_WAITING);
        let (used, accepted) = mpsc::channel(MAX_USED);
        let figures = Arc::<Figures>::default();
        runtime.spawn(decide(calls.clone(), options, asked, Arc::clone(&figures)));
        runtime.spawn(tell_used(calls.clone(), accepted, Arc::clone(&figures)));
        Self { waiting, used, figures }
    }

    pub(crate) async fn ask(&self, applicant: Applicant) -> Result<Timestamp, DoorRefusal> {
        let (answer, answered) = oneshot::channel();
        self.waiting.try_send((applicant, answer)).map_err(|_| DoorRefusal::Busy)?;
        let deadline = answered.await.unwrap_or(Err(DoorRefusal::Unavailable))?;
        self.figures.issued.fetch_add(1, Relaxed);
        Ok(deadline)
    }

    pub(crate) fn used(&self, buyer: BuyerMark, sale_version: u64) {
        // A used pass that is not reported counts until its deadline, as if it were unused.
        let _ = self.used.try_send((buyer, sale_version));
    }

    pub(crate) fn figures(&self) -> PassFigures {
        PassFigures { issued: self.figures.issued.load(Relaxed), live: self.figures.live.load(Relaxed) }
    }

    pub(crate) fn note_live(&self, live: u64) {
        self.figures.live.store(live, Relaxed);
    }
}

async fn decide(
    calls: GateCalls,
    options: DoorOptions,
    mut asked: mpsc::Receiver<(Applicant, Answer)>,
    figures: Arc<Figures>,
) {
    let mut waiting = Vec::new();
    let mut next_call = Instant::now();
    while asked.recv_many(&mut waiting, MAX_BATCH).await > 0 {
        if Instant::now() < next_call {
            sleep_until(next_call).await;
            while waiting.len() < MAX_BATCH
                && let Ok(next) = asked.try_recv()
            {
                waiting.push(next);
            }
        }
        next_call = Instant::now() + BETWEEN_CALLS;
        let applicants: Vec<&Applicant> = waiting.iter().map(|(applicant, _)| applicant).collect();
        let decided = calls.passes(&options, &applicants).await;
        if let Ok((live, _)) = &decided {
            figures.live.store(*live, Relaxed);
        }
        let mut answers = match decided {
            Ok((_, answers)) => answers.into_iter(),
            Err(error) => {
                tracing::debug!(%error, sale = %calls.sale, "can't get passes");
                // Also answer the requests that came in the meantime, because their call would fail the same
                // way.
                while let Ok(next) = asked.try_recv() {
                    waiting.push(next);
                }
                Vec::new().into_iter()
            }
        };
        for (_, answer) in waiting.drain(..) {
            // The client may have stopped waiting; it gets the same pass when it asks again.
            let _ = answer.send(answers.next().unwrap_or(Err(DoorRefusal::Unavailable)));
        }
    }
}

async fn tell_used(calls: GateCalls, mut accepted: mpsc::Receiver<(BuyerMark, u64)>, figures: Arc<Figures>) {
    let mut untold = Vec::new();
    loop {
        if untold.is_empty() && accepted.recv_many(&mut untold, MAX_USED).await == 0 {
            return;
        }
        sleep(USED_EVERY).await;
        while untold.len() < MAX_USED
            && let Ok(next) = accepted.try_recv()
        {
            untold.push(next);
        }
        let sale_version = untold.iter().map(|(_, version)| *version).max().unwrap_or(0);
        let buyers: Vec<BuyerMark> = untold.iter().map(|(buyer, _)| *buyer).collect();
        match calls.used(sale_version, &buyers).await {
            Ok(live) => {
                figures.live.store(live, Relaxed);
                untold.clear();
            }
            Err(error) => {
                tracing::debug!(%error, sale = %calls.sale, "can't report used passes; trying again");
                sleep(USED_AGAIN).await;
            }
        }
    }
}
