//! The settings of the gate.

use std::{collections::HashMap, io, num::NonZeroU32, sync::Arc, time::Duration};

use parking_lot::Mutex;
use penstock_domain::{ChallengeKind, SaleId};
use penstock_gate::{HeadGateOptions, LimitOptions, RoomOptions, RoomState, SheddingOptions};

use super::door::{DoorOptions, Doors};

#[derive(Clone)]
pub struct GateOptions {
    /// How long a challenge is valid.
    pub challenge_seconds: u32,
    /// Zero bits that a proof of work asks for while it is quiet.
    pub pow_min_bits: u8,
    /// The most zero bits it ever asks for.
    pub pow_max_bits: u8,
    /// Up to this many challenges a second it counts as quiet. Each doubling adds a bit.
    pub pow_easy_per_second: u32,
    /// The most used challenges that are remembered. Beyond that, answers to challenges get `busy`.
    pub max_used_challenges: usize,
    /// Pictures drawn in advance.
    pub captcha_pool: usize,
    /// How long a pass is valid.
    pub pass_seconds: u32,
    /// Passes per remaining unit.
    pub pass_factor: u32,
    /// The most live passes of one sale, however many units it has.
    pub max_passes: usize,
    /// How long an admitted person may take to get their pass.
    pub turn_seconds: u32,
    /// The most tickets of one sale admitted in a second.
    pub admissions_per_second: u32,
    /// What this node shares with the other nodes of its shop. None for a single node.
    pub doors: Option<Arc<dyn Doors>>,
    /// Where a single node keeps its waiting rooms over a restart.
    pub room_store: Arc<dyn RoomStore>,
    /// Challenges, tickets, passes, orders and payments of one buyer.
    pub by_buyer: LimitOptions,
    /// The same from one address.
    pub by_address: LimitOptions,
    /// Reads of one buyer: orders, tickets, their account.
    pub reads_by_buyer: LimitOptions,
    /// The same from one address.
    pub reads_by_address: LimitOptions,
    /// Tickets of one buyer: each is a chance in the draw.
    pub tickets_by_buyer: LimitOptions,
    /// Challenges, tickets, passes and orders of everybody together.
    pub by_node: Rate,
    /// Claims that enter the ledger: a bucket that leaks at this rate.
    pub into_ledger: Rate,
    /// Claims that are being decided at the same time.
    pub in_flight: SheddingOptions,
}

impl GateOptions {
    pub(super) fn door(&self, challenge: ChallengeKind) -> DoorOptions {
        DoorOptions {
            head: HeadGateOptions {
                factor: self.pass_factor,
                pass_seconds: self.pass_seconds,
                max_live: self.max_passes,
            },
            room: RoomOptions {
                turn_seconds: self.turn_seconds,
                uptake_seconds: uptake_seconds(challenge),
                pass_seconds: self.pass_seconds,
                admissions_per_second: self.admissions_per_second,
            },
            challenge_seconds: self.challenge_seconds,
            max_used_challenges: self.max_used_challenges,
        }
    }
}

/// A page learns of its turn within a few seconds. Then it works on the challenge, or a person reads a
/// picture.
fn uptake_seconds(challenge: ChallengeKind) -> u32 {
    match challenge {
        ChallengeKind::Captcha => 20,
        ChallengeKind::None | ChallengeKind::Pow => 6,
    }
}

/// `per_second` of them, and up to `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub burst: NonZeroU32,
    pub per_second: NonZeroU32,
}

impl Rate {
    pub fn one_per(self) -> Duration {
        Duration::from_secs(1) / self.per_second.get()
    }
}

impl Default for GateOptions {
    fn default() -> Self {
        Self {
            challenge_seconds: 120,
            pow_min_bits: 14,
            pow_max_bits: 20,
            pow_easy_per_second: 100,
            max_used_challenges: 1_000_000,
            captcha_pool: 500,
            pass_seconds: 120,
            pass_factor: 5,
            max_passes: 1_000_000,
            turn_seconds: 60,
            admissions_per_second: 1_000,
            doors: None,
            room_store: Arc::new(RoomsInMemory::default()),
            by_buyer: limit(200, Duration::from_millis(50)),
            by_address: limit(2_000, Duration::from_millis(2)),
            reads_by_buyer: limit(1_000, Duration::from_millis(10)),
            reads_by_address: limit(10_000, Duration::from_micros(500)),
            tickets_by_buyer: limit(5, Duration::from_secs(600)),
            by_node: Rate { burst: count(50_000), per_second: count(500_000) },
            into_ledger: Rate { burst: count(20_000), per_second: count(200_000) },
            in_flight: SheddingOptions {
                min: 64,
                max: 32_768,
                initial: 32_768,
                target_latency: Duration::from_millis(50),
            },
        }
    }
}

impl std::fmt::Debug for GateOptions {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("GateOptions").field("pass_factor", &self.pass_factor).finish_non_exhaustive()
    }
}

fn count(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap_or(NonZeroU32::MIN)
}

fn limit(burst: u32, one_per: Duration) -> LimitOptions {
    LimitOptions { burst: count(burst), one_per, max_keys: 100_000 }
}

/// Where waiting rooms are stored. Their numbers must outlast the process, so that none is given out twice
/// and no draw is repeated. Calls may block.
pub trait RoomStore: Send + Sync + 'static {
    fn load(&self, sale: SaleId) -> io::Result<Option<RoomState>>;

    /// Returns when it is durable.
    fn save(&self, sale: SaleId, state: &RoomState) -> io::Result<()>;
}

/// Forgets everything when the process ends; for tests.
#[derive(Debug, Default)]
pub struct RoomsInMemory(Mutex<HashMap<SaleId, RoomState>>);

impl RoomStore for RoomsInMemory {
    fn load(&self, sale: SaleId) -> io::Result<Option<RoomState>> {
        Ok(self.0.lock().get(&sale).cloned())
    }

    fn save(&self, sale: SaleId, state: &RoomState) -> io::Result<()> {
        self.0.lock().insert(sale, state.clone());
        Ok(())
    }
}
