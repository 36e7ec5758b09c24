//! The gate as the shop runs it: what all requests share, and each sale's part. The rules are in the crate
//! `gate`; here they meet the requests.

mod archive;
mod door;
mod in_flight;
mod options;
mod peer;
mod reasons;
mod sale_gate;
mod single_door;

use std::{num::NonZeroU32, sync::Arc};

use arc_swap::ArcSwap;
use penstock_domain::{BuyerId, ChallengeKind, SaleId, Timestamp};
use penstock_gate::{
    AddressKey, ChallengeOptions, Challenges, KeyRing, KeyedLimit, LimitOptions, PassRefusal, Pictures,
    SingleLimit, TooMany, check_pass,
};

pub use self::{
    archive::{RoomArchive, StoredRoom},
    door::{Applicant, Door, DoorOptions, DoorRefusal, Doors, PassFigures},
    options::{GateOptions, Rate, RoomStore, RoomsInMemory},
    peer::Peer,
    reasons::{Reason, TurnedAway},
    sale_gate::{GateFigures, NoRoom, OpenRoom, SaleGate},
};
use self::{in_flight::ClaimsInFlight, reasons::Turnaways, single_door::SingleDoor};
use crate::secrets::Secrets;

/// A list of orders costs more than another read: the ledger collects it from every sale in which the buyer
/// has orders.
const LOOKS_FOR_A_LIST: u32 = 20;

pub struct Gate {
    pub keys: ArcSwap<KeyRing>,
    pub challenges: Arc<Challenges>,
    pub pictures: Pictures,
    /// Claims that are being decided.
    pub in_flight: ClaimsInFlight,
    pub turned_away: Turnaways,
    tickets_by_buyer: KeyedLimit<(SaleId, BuyerId)>,
    by_buyer: KeyedLimit<BuyerId>,
    by_address: KeyedLimit<AddressKey>,
    reads_by_buyer: KeyedLimit<BuyerId>,
    lists_by_buyer: KeyedLimit<BuyerId>,
    reads_by_address: KeyedLimit<AddressKey>,
    by_node: SingleLimit,
    into_ledger: SingleLimit,
    pub options: GateOptions,
}

impl Gate {
    pub fn new(options: GateOptions, secrets: &Secrets, started_at: Timestamp) -> Self {
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
            turned_away: Turnaways::default(),
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
    pub fn rekey(&self, secrets: &Secrets) {
        self.keys.store(Arc::new(key_ring(secrets)));
    }

    /// The limits that depend only on where a request comes from.
    pub fn check_origin(&self, peer: Peer, now: Timestamp) -> Result<(), TurnedAway> {
        // The address first: requests over the limit of one address must not count against everybody.
        self.counted(Reason::Address, peer.within(&self.by_address, now))?;
        self.counted(Reason::Node, self.by_node.check(now))
    }

    pub fn check_buyer(&self, buyer: &BuyerId, now: Timestamp) -> Result<(), TurnedAway> {
        self.counted(Reason::Buyer, self.by_buyer.check(buyer, now))
    }

    /// Reads have their own limits: people who look at their orders too often, and people who share an
    /// address with them, can still buy.
    pub fn check_reads_from(&self, peer: Peer, now: Timestamp) -> Result<(), TurnedAway> {
        self.counted(Reason::ReadsAddress, peer.within(&self.reads_by_address, now))
    }

    pub fn check_reads_of(&self, buyer: &BuyerId, now: Timestamp) -> Result<(), TurnedAway> {
        self.counted(Reason::ReadsBuyer, self.reads_by_buyer.check(buyer, now))
    }

    pub fn check_lists_of(&self, buyer: &BuyerId, now: Timestamp) -> Result<(), TurnedAway> {
        self.counted(Reason::ReadsBuyer, self.lists_by_buyer.check(buyer, now))
    }

    pub fn check_tickets_of(&self, sale: SaleId, buyer: &BuyerId, now: Timestamp) -> Result<(), TurnedAway> {
        self.counted(Reason::Tickets, self.tickets_by_buyer.check(&(sale, buyer.clone()), now))
    }

    /// No ticket was issued after all.
    pub fn give_ticket_back(&self, sale: SaleId, buyer: &BuyerId) {
        self.tickets_by_buyer.give_back(&(sale, buyer.clone()));
    }

    fn counted(&self, reason: Reason, checked: Result<(), TooMany>) -> Result<(), TurnedAway> {
        checked.map_err(|TooMany { retry_after_seconds }| {
            self.turned_away.count(reason);
            TurnedAway { reason, retry_after_seconds: Some(retry_after_seconds) }
        })
    }

    /// The leaky bucket before the ledger: the last check of all.
    pub fn pour(&self, now: Timestamp) -> Result<(), TurnedAway> {
        self.into_ledger.check(now).map_err(|_| self.turned_away.because(Reason::IntoLedger))
    }

    /// Checks the pass of a claim; returns its deadline.
    pub fn check_pass(
        &self,
        (sale, buyer): (SaleId, &BuyerId),
        pass: Option<&[u8]>,
        now: Timestamp,
    ) -> Result<Timestamp, NoPass> {
        let pass = pass.ok_or(NoPass::Missing)?;
        check_pass(&self.keys.load(), sale, buyer, pass, now).map_err(|refusal| match refusal {
            PassRefusal::Invalid | PassRefusal::Expired => NoPass::Invalid,
        })
    }

    /// The door of a sale with this challenge.
    pub fn door(&self, sale: SaleId, challenge: ChallengeKind) -> Arc<dyn Door> {
        let options = self.options.door(challenge);
        match &self.options.doors {
            Some(doors) => doors.door(sale, options),
            None => Arc::new(SingleDoor::new(sale, options, &self.challenges, &self.options.room_store)),
        }
    }
}

/// Why a claim has no pass that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoPass {
    Missing,
    /// Not this buyer's, not for this sale, expired or damaged.
    Invalid,
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
