//! Takes blocks of a waiting room's numbers for a node, so that a rush costs one call per hundreds of people.
//! People who find no number left wait together for the next block.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use penstock_domain::Timestamp;
use penstock_gate::Blocks;
use penstock_shop::gate::DoorRefusal;
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::sleep,
};

use crate::gate_calls::GateCalls;

/// The most people who may wait for a block. More are told to come back.
const MAX_WAITING: usize = 100_000;
/// How long an unused number may be given out; after that its turn may come soon.
const MAX_GOOD_MILLIS: i64 = 1_000;
/// A number is good for at most this part of a turn, too.
const GOOD_PARTS_OF_TURN: i64 = 10;

/// How soon to ask again after a failed call for a block.
const AGAIN: Duration = Duration::from_millis(200);

type Answer = oneshot::Sender<Result<u64, DoorRefusal>>;
type Asked = mpsc::Receiver<(Timestamp, Answer)>;

#[derive(Clone, Debug)]
pub(crate) struct SharedNumbers {
    waiting: mpsc::Sender<(Timestamp, Answer)>,
    known: Arc<Known>,
}

/// What the node knows about the numbers.
#[derive(Debug, Default)]
struct Known {
    blocks: Blocks,
    /// The last call for a block failed.
    has_no_block: AtomicBool,
    /// The last look at the room failed.
    is_out_of_sight: AtomicBool,
    /// As far as this node has heard, the numbers below this one were handed to nodes.
    issued: AtomicU64,
}

impl SharedNumbers {
    /// SharedNumbers taken before `opens_at` are early, and are not given out after it.
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

    /// As far as this node knows without asking.
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
    /// The name of the next block. If a call fails, the block may have been handed out all the same, so the
    /// node asks again by the same name. A forgotten block would fill the draw with people who don't exist.
    block: u64,
}

impl Taker {
    async fn run(mut self, mut asked: Asked) {
        let mut waiting = Vec::new();
        while asked.recv_many(&mut waiting, MAX_WAITING).await > 0 {
            let now = waiting.iter().map(|(now, _)| *now).max().unwrap_or(self.opens_at);
            match self.next_block(waiting.len() as u64, now).await {
                Some(at) => {
                    // The opening may have come since they asked, so the block is judged by the clock that
                    // all nodes share.
                    for (_, answer) in waiting.drain(..) {
                        // The person may have stopped waiting.
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

    /// Asks for the missing block until it comes, so that the node notices when numbers are available again.
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
            tracing::debug!(%error, sale = %self.calls.sale, "can't get numbers for the waiting room");
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

/// Also turns away people who asked in the meantime, because their call would fail the same way.
fn turn_away(waiting: &mut Vec<(Timestamp, Answer)>, asked: &mut Asked) {
    while let Ok(next) = asked.try_recv() {
        waiting.push(next);
    }
    for (_, answer) in waiting.drain(..) {
        let _ = answer.send(Err(DoorRefusal::Unavailable));
    }
}
