//! Passes of one sale for one node: whoever asks while a call is under way is in the next one, so that a rush costs a
//! call per hundreds of people. Orders give their passes back behind everybody's back.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_domain::Timestamp;
use penstock_http::{Applicant, DoorOptions, DoorRefusal, PassFigures};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::{Instant, sleep, sleep_until},
};

use crate::gate_calls::{BuyerMark, GateCalls};

/// So many may wait; more are told to come back.
const MAX_WAITING: usize = 16_384;
/// Redis does nothing else while it decides on so many: about a millisecond.
const MAX_BATCH: usize = 500;
/// Calls that follow each other begin at least so far apart, which nobody notices who comes alone.
const BETWEEN_CALLS: Duration = Duration::from_millis(5);
/// Passes that were used are told together.
const USED_EVERY: Duration = Duration::from_millis(20);
/// How soon it is tried again when they could not be told.
const USED_AGAIN: Duration = Duration::from_millis(200);
/// So many are remembered to be told. Others count until their deadline.
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
        // One that is not told counts until its deadline, as if it were not used.
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
                tracing::debug!(%error, sale = %calls.sale, "no passes can be had");
                // Who came meanwhile would wait for the same again.
                while let Ok(next) = asked.try_recv() {
                    waiting.push(next);
                }
                Vec::new().into_iter()
            }
        };
        for (_, answer) in waiting.drain(..) {
            // Who does not wait any more gets the same pass when he asks again.
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
                tracing::debug!(%error, sale = %calls.sale, "used passes can't be told");
                sleep(USED_AGAIN).await;
            }
        }
    }
}
