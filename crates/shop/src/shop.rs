//! Everything that the operations of a shop share.

use std::sync::Arc;

use hashbrown::HashSet;
use penstock_domain::Timestamp;
use penstock_gate::{AddressKey, InFlight, KeyedLimit, Shedding};
use penstock_ledger::{Health, Ledger};
use penstock_records::Records;
use tokio::sync::Mutex;

use crate::{
    gate::{Gate, GateFigures, Reason, SaleGate, TurnedAway},
    identity::{Attempts, Identity, InvalidJwtKey, Passwords},
    options::ShopOptions,
    storefront::{Catalogue, Loads, PictureCache, Shelf, Storefront},
    tally::Tally,
};

pub struct Shop {
    pub storefront: Arc<Storefront>,
    pub ledger: Ledger,
    pub records: Records,
    /// For reads only. To change something, ask the records.
    pub catalogue: Catalogue,
    pub pictures: PictureCache,
    /// Held while something is read again and shown.
    pub refreshing: Mutex<()>,
    pub identity: Identity,
    pub passwords: Passwords,
    pub otp_by_address: KeyedLimit<AddressKey>,
    pub sign_up_by_address: KeyedLimit<AddressKey>,
    pub attempts: Attempts,
    pub gate: Gate,
    /// One for each worker that serves.
    pub tallies: Vec<Arc<Tally>>,
    pub options: ShopOptions,
}

/// Why a sale can't be shown, or sold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SaleMissing {
    Unknown,
    /// The ledger is still recovering, so the sale may yet appear.
    Loading,
    /// The ledger can't be reached, and other nodes may know better.
    Dark,
}

impl Shop {
    /// For a server with this many workers.
    pub fn new(
        options: ShopOptions,
        workers: usize,
        storefront: Arc<Storefront>,
        ledger: Ledger,
        records: Records,
    ) -> Result<Self, InvalidJwtKey> {
        let loads = Arc::new(Loads::new(&records));
        let secrets = *options.secrets.borrow();
        let of_identity = &options.identity;
        Ok(Self {
            gate: Gate::new(options.gate.clone(), &secrets, (options.clock)()),
            storefront,
            ledger,
            catalogue: Catalogue::new(
                records.clone(),
                Arc::clone(&options.shared_cache),
                options.clock.clone(),
                Arc::clone(&loads),
            ),
            pictures: PictureCache::new(records.clone(), loads),
            records,
            refreshing: Mutex::default(),
            identity: Identity::new(of_identity, &secrets, &options.is_secret_in_doubt)?,
            passwords: Passwords::new(of_identity),
            otp_by_address: KeyedLimit::new(of_identity.otp_by_address),
            sign_up_by_address: KeyedLimit::new(of_identity.sign_up_by_address),
            attempts: Attempts::new(of_identity),
            tallies: (0..workers).map(|worker| Arc::new(Tally::of_worker(worker, workers))).collect(),
            options,
        })
    }

    pub fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// Sessions that began before this moment are over in any case.
    pub fn session_horizon(&self) -> Timestamp {
        self.now().plus_millis(-i64::from(self.options.identity.session_seconds) * 1000)
    }

    /// Takes a place among the claims that the server of this sale is deciding.
    pub fn enter(&self, shelf: &Shelf) -> Result<InFlight, TurnedAway> {
        // No reference is counted, because all cores would contend for the count.
        let place = match &*shelf.limit.load() {
            Some(limit) => Shedding::try_enter(limit),
            None => Shedding::try_enter(&self.gate.in_flight.of(self.ledger.home_of(shelf.id), &shelf.limit)),
        };
        place.ok_or_else(|| self.gate.turned_away.because(Reason::InFlight))
    }

    /// A sale may have moved to another server. Then that server's limit applies.
    pub fn look_where_sales_are_decided(&self) {
        let mut homes = HashSet::new();
        for shelf in self.storefront.all() {
            let home = self.ledger.home_of(shelf.id);
            self.gate.in_flight.of(home.clone(), &shelf.limit);
            homes.insert(home);
        }
        self.gate.in_flight.keep_only(&homes);
    }

    /// The gate of a sale, if the sale needs passes. It is created at first use.
    pub fn gate_of<'a>(&self, shelf: &'a Shelf) -> Option<&'a SaleGate> {
        if let Some(gate) = shelf.gate.get() {
            return Some(gate);
        }
        let terms = shelf.details()?.row.gate;
        let new = || SaleGate::new(terms, self.gate.door(shelf.id, terms.challenge));
        terms.pass_required.then(|| shelf.gate.get_or_init(new))
    }

    /// The people at the gates of all sales.
    pub fn gate_figures(&self) -> GateFigures {
        let now = self.now();
        let shelves = self.storefront.all();
        shelves.iter().fold(GateFigures::default(), |sum, shelf| sum.plus(shelf.gate_figures(now)))
    }

    /// Why a sale is not on the storefront.
    pub fn missing_sale(&self) -> SaleMissing {
        match self.ledger.health() {
            _ if self.storefront.is_dark() => SaleMissing::Dark,
            Health::Ready => SaleMissing::Unknown,
            _ => SaleMissing::Loading,
        }
    }

    /// Why the node can't sell; None if it can.
    pub fn trouble(&self) -> Option<String> {
        self.ledger_trouble().or_else(|| self.storefront_trouble())
    }

    pub fn ledger_trouble(&self) -> Option<String> {
        let kept_in = if self.catalogue.is_shared() { "redis" } else { "journal" };
        match self.ledger.health() {
            Health::Ready => None,
            Health::Recovering => Some("recovering".to_owned()),
            Health::Unavailable(reason) => Some(format!("{kept_in}: {reason}")),
            Health::Stopped => Some("stopped".to_owned()),
        }
    }

    pub fn storefront_trouble(&self) -> Option<String> {
        match self.storefront.incomplete().len() {
            0 => None,
            missing => Some(format!("{missing} sales are not loaded yet")),
        }
    }
}

impl std::fmt::Debug for Shop {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Shop").field("options", &self.options).finish_non_exhaustive()
    }
}
