//! The gate as the server runs it: what all requests share, and each sale's part. The rules are in the crate
//! of the same name; here they meet the requests.

mod alone;
mod archive;
mod door;
mod in_flight;
mod options;
mod reasons;
pub(crate) mod rooms;
mod visit;

use std::{
    num::NonZeroU32,
    sync::{Arc, OnceLock},
};

use arc_swap::ArcSwap;
use penstock_domain::{BuyerId, ChallengeKind, GateTerms, SaleId, SaleState, Timestamp};
use penstock_gate::{
    AddressKey, ChallengeOptions, Challenges, KeyRing, KeyedLimit, LimitOptions, PassRefusal, Pictures,
    SingleLimit, check_pass,
};
use tokio::sync::Mutex;

pub use self::archive::RoomArchive;
pub use self::door::{Applicant, Door, DoorOptions, DoorRefusal, Doors, PassFigures};
pub use self::options::{GateOptions, Rate, RoomStore, RoomsInMemory};
pub(crate) use self::reasons::{Reason, TurnedAway};
pub(crate) use self::visit::{Acting, Looking, Visit};
use self::{alone::Alone, in_flight::ClaimsInFlight, rooms::Room};
use crate::{
    app::App,
    peer::Peer,
    problem::{Code, Problem},
    secrets::Secrets,
    storefront::Shelf,
};

/// A list of orders costs more than another read: the ledger collects it from every sale in which the buyer
/// has orders.
const LOOKS_FOR_A_LIST: u32 = 20;

pub(crate) struct Gate {
    pub(crate) keys: ArcSwap<KeyRing>,
    pub(crate) challenges: Arc<Challenges>,
    pub(crate) pictures: Pictures,
    /// Claims that are being decided.
    pub(crate) in_flight: ClaimsInFlight,
    pub(crate) turned_away: TurnedAway,
    /// Held while a waiting room is opened, so that there is never a second seed beside the first.
    opening: Mutex<()>,
    tickets_by_buyer: KeyedLimit<(SaleId, BuyerId)>,
    by_buyer: KeyedLimit<BuyerId>,
    by_address: KeyedLimit<AddressKey>,
    reads_by_buyer: KeyedLimit<BuyerId>,
    lists_by_buyer: KeyedLimit<BuyerId>,
    reads_by_address: KeyedLimit<AddressKey>,
    by_node: SingleLimit,
    into_ledger: SingleLimit,
    pub(crate) options: GateOptions,
}

impl Gate {
    pub(crate) fn new(options: GateOptions, secrets: &Secrets, started_at: Timestamp) -> Self {
        let instance = match options.doors {
            // Used challenges are remembered by all nodes together, and outlast each single one.
            Some(_) => 0,
            None => getrandom::u64().unwrap_or(started_at.as_millis() as u64),
        };
        Self {
            keys: ArcSwap::from_pointee(key_ring(secrets)),
            challenges: Arc::new(Challenges::new(ChallengeOptions {
                lifetime_seconds: options.challenge_seconds,
                min_bits: options.pow_min_bits,
                max_bits: options.pow_max_bits,
                easy_per_second: options.pow_easy_per_second,
                max_used: options.max_used_challenges,
                instance,
            })),
            pictures: Pictures::new(options.captcha_pool),
            in_flight: ClaimsInFlight::new(options.in_flight),
            turned_away: TurnedAway::default(),
            opening: Mutex::default(),
            tickets_by_buyer: KeyedLimit::new(options.tickets_by_buyer),
            by_buyer: KeyedLimit::new(options.by_buyer),
            by_address: KeyedLimit::new(options.by_address),
            reads_by_buyer: KeyedLimit::new(options.reads_by_buyer),
            lists_by_buyer: KeyedLimit::new(limit_of_lists(options.reads_by_buyer)),
            reads_by_address: KeyedLimit::new(options.reads_by_address),
            by_node: SingleLimit::new(options.by_node.burst, options.by_node.one_per()),
            into_ledger: SingleLimit::new(options.into_ledger.burst, options.into_ledger.one_per()),
            options,
        }
    }

    /// The secret has changed. Signatures of the previous one stay valid.
    pub(crate) fn rekey(&self, secrets: &Secrets) {
        self.keys.store(Arc::new(key_ring(secrets)));
    }

    /// The limits that depend only on where a request comes from.
    pub(crate) fn check_origin(&self, peer: Peer, now: Timestamp) -> Result<(), Problem> {
        // The address first: requests over the limit of one address must not count against everybody.
        self.counted(Reason::Address, peer.within(&self.by_address, now))?;
        self.counted(Reason::Node, self.by_node.check(now).map_err(Problem::from))
    }

    pub(crate) fn check_buyer(&self, buyer: &BuyerId, now: Timestamp) -> Result<(), Problem> {
        self.counted(Reason::Buyer, self.by_buyer.check(buyer, now).map_err(Problem::from))
    }

    /// Reads have their own limits: people who look at their orders too often, and people who share an
    /// address with them, can still buy.
    pub(crate) fn check_reads_from(&self, peer: Peer, now: Timestamp) -> Result<(), Problem> {
        self.counted(Reason::ReadsAddress, peer.within(&self.reads_by_address, now))
    }

    pub(crate) fn check_reads_of(&self, buyer: &BuyerId, now: Timestamp) -> Result<(), Problem> {
        self.counted(Reason::ReadsBuyer, self.reads_by_buyer.check(buyer, now).map_err(Problem::from))
    }

    pub(crate) fn check_lists_of(&self, buyer: &BuyerId, now: Timestamp) -> Result<(), Problem> {
        self.counted(Reason::ReadsBuyer, self.lists_by_buyer.check(buyer, now).map_err(Problem::from))
    }

    pub(crate) fn check_tickets_of(
        &self,
        sale: SaleId,
        buyer: &BuyerId,
        now: Timestamp,
    ) -> Result<(), Problem> {
        let checked = self.tickets_by_buyer.check(&(sale, buyer.clone()), now);
        self.counted(Reason::Tickets, checked.map_err(Problem::from))
    }

    /// No ticket was issued after all.
    pub(crate) fn give_ticket_back(&self, sale: SaleId, buyer: &BuyerId) {
        self.tickets_by_buyer.give_back(&(sale, buyer.clone()));
    }

    fn counted(&self, reason: Reason, checked: Result<(), Problem>) -> Result<(), Problem> {
        checked.inspect_err(|_| self.turned_away.count(reason))
    }

    /// The leaky bucket before the ledger: the last check of all.
    pub(crate) fn pour(&self, now: Timestamp) -> Result<(), Problem> {
        self.into_ledger.check(now).map_err(|_| self.turned_away.because(Reason::IntoLedger))
    }

    /// Checks the pass of a claim; returns its deadline.
    pub(crate) fn check_pass(
        &self,
        (sale, buyer): (SaleId, &BuyerId),
        pass: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Timestamp, Problem> {
        let pass = pass.ok_or(Code::PassRequired)?;
        check_pass(&self.keys.load(), sale, buyer, pass, now).map_err(|refusal| match refusal {
            PassRefusal::Invalid | PassRefusal::Expired => Code::PassInvalid.into(),
        })
    }

    /// The gate of a sale, if the sale needs passes. It is created at first use.
    pub(crate) fn of<'a>(&self, shelf: &'a Shelf) -> Option<&'a SaleGate> {
        if let Some(gate) = shelf.gate.get() {
            return Some(gate);
        }
        let terms = shelf.details()?.row.gate;
        terms.pass_required.then(|| {
            let new =
                || SaleGate { terms, door: self.door(shelf.id, terms.challenge), room: OnceLock::new() };
            shelf.gate.get_or_init(new)
        })
    }

    fn door(&self, sale: SaleId, challenge: ChallengeKind) -> Arc<dyn Door> {
        let options = self.options.door(challenge);
        match &self.options.doors {
            Some(doors) => doors.door(sale, options),
            None => Arc::new(Alone::new(sale, options, &self.challenges, &self.options.room_store)),
        }
    }
}

fn limit_of_lists(looks: LimitOptions) -> LimitOptions {
    LimitOptions {
        burst: NonZeroU32::new(looks.burst.get() / LOOKS_FOR_A_LIST).unwrap_or(NonZeroU32::MIN),
        one_per: looks.one_per * LOOKS_FOR_A_LIST,
        ..looks
    }
}

fn key_ring(secrets: &Secrets) -> KeyRing {
    KeyRing::new(&secrets.current, secrets.previous.as_ref())
}

/// One sale's part of the gate.
pub(crate) struct SaleGate {
    pub(crate) terms: GateTerms,
    pub(crate) door: Arc<dyn Door>,
    /// Empty without a waiting room, and until it is loaded.
    pub(crate) room: OnceLock<Room>,
}

impl SaleGate {
    /// The waiting room. It may still be loading.
    pub(crate) fn room(&self) -> Result<&Room, Problem> {
        if !self.terms.waiting_room {
            return Err(Problem::with_detail(Code::NotGated, "The sale has no waiting room."));
        }
        self.room.get().ok_or_else(|| {
            Problem::with_detail(
                Code::Unavailable,
                "The waiting room is being opened. Try again in a moment.",
            )
        })
    }
}

/// The people at the gate, in one sale or in all.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GateFigures {
    pub(crate) passes_issued: u64,
    pub(crate) passes_live: u64,
    pub(crate) tickets: u64,
    /// People who were called.
    pub(crate) let_in: u64,
    /// People who are waiting and present.
    pub(crate) waiting: u64,
    pub(crate) pending: u64,
}

impl GateFigures {
    pub(crate) fn of(app: &App) -> Self {
        let now = app.now();
        app.storefront.all().iter().fold(Self::default(), |sum, shelf| {
            let one = Self::of_sale(shelf, now);
            Self {
                passes_issued: sum.passes_issued + one.passes_issued,
                passes_live: sum.passes_live + one.passes_live,
                tickets: sum.tickets + one.tickets,
                let_in: sum.let_in + one.let_in,
                waiting: sum.waiting + one.waiting,
                pending: sum.pending + one.pending,
            }
        })
    }

    pub(crate) fn of_sale(shelf: &Shelf, now: Timestamp) -> Self {
        let Some(gate) = shelf.gate.get() else { return Self::default() };
        let room = gate.room.get().map(|room| room.waiting.figures());
        let passes = gate.door.passes(now);
        Self {
            passes_issued: passes.issued,
            passes_live: passes.live,
            tickets: room.map_or(0, |room| room.tickets),
            let_in: room.map_or(0, |room| room.let_in),
            waiting: room.map_or(0, |room| room.waiting),
            pending: room.map_or(0, |room| room.pending),
        }
    }
}

/// Why nothing can be bought in this state; None if it can.
pub(crate) fn refusal_of(state: SaleState) -> Option<Code> {
    match state {
        SaleState::Draft => Some(Code::NotPublished),
        SaleState::Scheduled => Some(Code::NotOpen),
        SaleState::Open => None,
        SaleState::Paused => Some(Code::Paused),
        SaleState::SoldOut => Some(Code::SoldOut),
        SaleState::Closed => Some(Code::Closed),
    }
}
