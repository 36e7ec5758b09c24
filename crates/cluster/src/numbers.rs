//! Takes blocks of a waiting room's numbers for a node, so that a rush costs a call per hundreds of people. Whoever
//! finds no number waits for the next block together with all others.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_domain::Timestamp;
use penstock_gate::Blocks;
use penstock_http::DoorRefusal;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::gate_calls::GateCalls;

/// So many people may wait for a block; more are told to come back.
const MAX_WAITING: usize = 100_000;
/// A number that nobody got for so long is not given out any more, because it may be its turn soon.
const MAX_GOOD_MILLIS: i64 = 1_000;
/// Nor for more than this part of a turn.
const GOOD_PARTS_OF_TURN: i64 = 10;

/// How soon a block that could not be had is asked for again.
const AGAIN: Duration = Duration::from_millis(200);

type Answer = oneshot::Sender<Result<u64, DoorRefusal>>;
type Asked = mpsc::Receiver<(Timestamp, Answer)>;

#[derive(Clone, Debug)]
pub(crate) struct Numbers {
    waiting: mpsc::Sender<(Timestamp, Answer)>,
    known: Arc<Known>,
}

/// What the node knows of the numbers.
#[derive(Debug, Default)]
struct Known {
    blocks: Blocks,
    /// The last block could not be had.
    has_no_block: AtomicBool,
    /// The room could not be looked at.
    is_out_of_sight: AtomicBool,
    /// Numbers below were handed to nodes, as far as this one has heard.
    issued: AtomicU64,
}

impl Numbers {
    /// `opens_at`: what is taken before is early, and not given out after.
    pub(crate) fn start(
        runtime: &Handle,
        calls: GateCalls,
        seed: [u8; 32],
        opens_at: Option<Timestamp>,
        turn_seconds: u32,
    ) -> Self {
        let (waiting, asked) = mpsc::channel(MAX_WAITING);
        let numbers = Self { waiting, known: Arc::default() };
        let good_millis = MAX_GOOD_MILLIS.min(i64::from(turn_seconds) * 1_000 / GOOD_PARTS_OF_TURN);
        let taker = Taker {
            calls,
            seed,
            known: Arc::clone(&numbers.known),
            opens_at: opens_at.unwrap_or(Timestamp::from_millis(i64::MIN)),
            good_millis,
            block: getrandom::u64().unwrap_or_default(),
        };
        runtime.spawn(taker.run(asked));
        numbers
    }

    pub(crate) fn blocks(&self) -> &Blocks {
        &self.known.blocks
    }

    /// As far as is known without asking.
    pub(crate) fn is_cut_off(&self) -> bool {
        self.known.has_no_block.load(Relaxed) || self.known.is_out_of_sight.load(Relaxed)
    }

    pub(crate) fn set_out_of_sight(&self, is_out_of_sight: bool) {
        self.known.is_out_of_sight.store(is_out_of_sight, Relaxed);
    }

    pub(crate) fn issued(&self) -> u64 {
        self.known.issued.load(Relaxed)
    }

    pub(crate) fn note_issued(&self, issued: u64) {
        self.known.issued.fetch_max(issued, Relaxed);
    }

    pub(crate) async fn take(&self, now: Timestamp) -> Result<u64, DoorRefusal> {
        if let Some(number) = self.known.blocks.take(now) {
            return Ok(number);
        }
        let (answer, answered) = oneshot::channel();
        self.waiting.try_send((now, answer)).map_err(|_| DoorRefusal::Busy)?;
        answered.await.unwrap_or(Err(DoorRefusal::Unavailable))
    }
}

struct Taker {
    calls: GateCalls,
    seed: [u8; 32],
    known: Arc<Known>,
    opens_at: Timestamp,
    good_millis: i64,
    /// The name of the next block. A block that may have been handed out is asked for by its name until it is had: one
    /// of which nobody knows would stand in the draw for people who don't exist.
    block: u64,
}

impl Taker {
    async fn run(mut self, mut asked: Asked) {
        let mut waiting = Vec::new();
        while asked.recv_many(&mut waiting, MAX_WAITING).await > 0 {
            let now = waiting.iter().map(|(now, _)| *now).max().unwrap_or(self.opens_at);
            match self.next_block(waiting.len() as u64, now).await {
                Some(at) => {
                    // The opening may have come between their asking and now: by the clock that all nodes share.
                    for (_, answer) in waiting.drain(..) {
                        // Who does not wait any more does not come.
                        let _ = answer.send(self.known.blocks.take_late(at).ok_or(DoorRefusal::Busy));
                    }
                }
                None => {
                    turn_away(&mut waiting, &mut asked);
                    self.until_there_is_a_block(&mut asked).await;
                }
            }
        }
    }

    /// Asks for the block that could not be had, so that it is known whether others can.
    async fn until_there_is_a_block(&mut self, asked: &mut Asked) {
        while !asked.is_closed() {
            sleep(AGAIN).await;
            if self.next_block(0, self.opens_at).await.is_some() {
                return;
            }
            turn_away(&mut Vec::new(), asked);
        }
    }

    /// Redis' time, if it handed out a block.
    async fn next_block(&mut self, waiting: u64, now: Timestamp) -> Option<Timestamp> {
        let wanted = match waiting {
            0 => 0,
            people => self.known.blocks.wanted(people, now),
        };
        let handed = self.calls.numbers(&self.seed, self.block, wanted).await;
        let handed = handed.unwrap_or_else(|error| {
            tracing::debug!(%error, sale = %self.calls.sale, "no numbers can be had");
            None
        });
        self.known.has_no_block.store(handed.is_none(), Relaxed);
        let handed = handed?;
        self.block = self.block.wrapping_add(1);
        self.known.issued.fetch_max(handed.to, Relaxed);
        let late = handed.first_at.plus_millis(self.good_millis);
        let good_until = if handed.is_early { self.opens_at } else { late };
        if handed.from < handed.to {
            self.known.blocks.put(handed.from, handed.to, good_until);
        }
        Some(handed.at)
    }
}

/// Who came meanwhile would wait for the same again.
fn turn_away(waiting: &mut Vec<(Timestamp, Answer)>, asked: &mut Asked) {
    while let Ok(next) = asked.try_recv() {
        waiting.push(next);
    }
    for (_, answer) in waiting.drain(..) {
        let _ = answer.send(Err(DoorRefusal::Unavailable));
    }
}
