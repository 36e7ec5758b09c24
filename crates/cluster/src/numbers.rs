//! Takes blocks of a waiting room's numbers for a node, so that a rush costs a call per hundreds of people. Whoever
//! finds no number waits for the next block together with all others.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use penstock_domain::Timestamp;
use penstock_gate::Blocks;
use penstock_http::DoorRefusal;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
};

use crate::gate_calls::GateCalls;

/// So many people may wait for a block; more are told to come back.
const MAX_WAITING: usize = 100_000;
/// A number that nobody got for so long is not given out any more, because it may be its turn soon.
const MAX_GOOD_MILLIS: i64 = 1_000;
/// Nor for more than this part of a turn.
const GOOD_PARTS_OF_TURN: i64 = 10;

type Answer = oneshot::Sender<Result<u64, DoorRefusal>>;

#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    blocks: Arc<Blocks>,
    waiting: mpsc::Sender<(Timestamp, Answer)>,
    /// The last block could not be had.
    is_cut_off: Arc<AtomicBool>,
}

impl Numbers {
    /// `opens_at`: what is taken before is early, and not given out after.
    pub(crate) fn start(
        runtime: &Handle,
        calls: GateCalls,
        opens_at: Option<Timestamp>,
        turn_seconds: u32,
    ) -> Self {
        let (waiting, asked) = mpsc::channel(MAX_WAITING);
        let numbers = Self { blocks: Arc::default(), waiting, is_cut_off: Arc::default() };
        let good_millis = MAX_GOOD_MILLIS.min(i64::from(turn_seconds) * 1_000 / GOOD_PARTS_OF_TURN);
        let taker = Taker {
            calls,
            blocks: Arc::clone(&numbers.blocks),
            is_cut_off: Arc::clone(&numbers.is_cut_off),
            opens_at: opens_at.unwrap_or(Timestamp::from_millis(i64::MIN)),
            good_millis,
        };
        runtime.spawn(taker.run(asked));
        numbers
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// As far as is known without asking.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.is_cut_off.load(Relaxed)
    }

    pub(crate) fn set_cut_off(&self, is_cut_off: bool) {
        self.is_cut_off.store(is_cut_off, Relaxed);
    }

    pub(crate) async fn take(&self, now: Timestamp) -> Result<u64, DoorRefusal> {
        if let Some(number) = self.blocks.take(now) {
            return Ok(number);
        }
        let (answer, answered) = oneshot::channel();
        self.waiting.try_send((now, answer)).map_err(|_| DoorRefusal::Busy)?;
        answered.await.unwrap_or(Err(DoorRefusal::Unavailable))
    }
}

struct Taker {
    calls: GateCalls,
    blocks: Arc<Blocks>,
    is_cut_off: Arc<AtomicBool>,
    opens_at: Timestamp,
    good_millis: i64,
}

impl Taker {
    async fn run(self, mut asked: mpsc::Receiver<(Timestamp, Answer)>) {
        let mut waiting = Vec::new();
        while asked.recv_many(&mut waiting, MAX_WAITING).await > 0 {
            let now = waiting.iter().map(|(now, _)| *now).max().unwrap_or(self.opens_at);
            let handed = self.calls.numbers(self.blocks.wanted(waiting.len() as u64, now)).await;
            self.is_cut_off.store(handed.is_err(), Relaxed);
            match handed {
                Ok(handed) => {
                    let late = handed.at.plus_millis(self.good_millis);
                    let good_until = if handed.is_early { self.opens_at } else { late };
                    self.blocks.put(handed.from, handed.to, good_until);
                    // The opening may have come between their asking and now: by the clock that all nodes share.
                    for (_, answer) in waiting.drain(..) {
                        // Who does not wait any more does not come.
                        let _ = answer.send(self.blocks.take_late(handed.at).ok_or(DoorRefusal::Busy));
                    }
                }
                Err(error) => {
                    tracing::debug!(%error, sale = %self.calls.sale, "no numbers can be had");
                    // Who came meanwhile would wait for the same again.
                    while let Ok(next) = asked.try_recv() {
                        waiting.push(next);
                    }
                    for (_, answer) in waiting.drain(..) {
                        let _ = answer.send(Err(DoorRefusal::Unavailable));
                    }
                }
            }
        }
    }
}
