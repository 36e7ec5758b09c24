//! Everything that the handlers share, and how a handler finds out who its caller is.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use bytes::Bytes;
use hashbrown::HashSet;
use penstock_domain::Timestamp;
use penstock_gate::{AddressKey, InFlight, KeyedLimit, Shedding};
use penstock_ledger::{Health, Ledger};
use penstock_records::Records;
use tokio::sync::{Mutex, Semaphore, watch};

use crate::{
    attempts::Attempts,
    catalogue::Catalogue,
    countries,
    gate::{Gate, Reason},
    identity::{Caller, Identity, InvalidJwtKey},
    lane::Refusals,
    live::Live,
    loads::Loads,
    options::Options,
    pages::Pages,
    passwords::Passwords,
    peer::Peer,
    pictures::Pictures,
    problem::{Code, Problem},
    storefront::{Shelf, Storefront},
    tally::Tally,
};

pub(crate) struct App {
    pub(crate) storefront: Arc<Storefront>,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    /// For reads only. To change something, ask the records.
    pub(crate) catalogue: Catalogue,
    pub(crate) pictures: Pictures,
    /// Held while something is read again and shown.
    pub(crate) refreshing: Mutex<()>,
    pub(crate) identity: Identity,
    pub(crate) passwords: Passwords,
    pub(crate) otp_by_address: KeyedLimit<AddressKey>,
    pub(crate) sign_up_by_address: KeyedLimit<AddressKey>,
    pub(crate) attempts: Attempts,
    pub(crate) gate: Gate,
    pub(crate) refusals: Refusals,
    pub(crate) pages: Pages,
    /// The body of `GET /countries`, which is the same for everybody.
    pub(crate) countries: Bytes,
    pub(crate) tallies: Vec<Arc<Tally>>,
    pub(crate) live: Live,
    /// One audit at a time: it reads everything.
    pub(crate) auditing: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
    pub(crate) options: Options,
}

impl App {
    pub(crate) fn new(
        options: Options,
        workers: usize,
        storefront: Arc<Storefront>,
        ledger: Ledger,
        records: Records,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, InvalidJwtKey> {
        let loads = Arc::new(Loads::new(&records));
        let gate = Gate::new(options.gate.clone(), &options.secrets.borrow(), (options.clock)());
        Ok(Self {
            gate,
            stopping,
            storefront,
            ledger,
            catalogue: Catalogue::new(
                records.clone(),
                Arc::clone(&options.shared_cache),
                options.clock.clone(),
                Arc::clone(&loads),
            ),
            pictures: Pictures::new(records.clone(), loads),
            records,
            refreshing: Mutex::default(),
            identity: Identity::new(&options)?,
            passwords: Passwords::new(&options),
            otp_by_address: KeyedLimit::new(options.otp_by_address),
            sign_up_by_address: KeyedLimit::new(options.sign_up_by_address),
            attempts: Attempts::new(&options),
            refusals: Refusals::new(&options.problem_type_base),
            pages: Pages::new(&options.pages),
            countries: countries::listed(options.default_country),
            tallies: (0..workers).map(|worker| Arc::new(Tally::of_worker(worker, workers))).collect(),
            live: Live::default(),
            auditing: Arc::new(Semaphore::new(1)),
            options,
        })
    }

    pub(crate) fn now(&self) -> Timestamp {
        (self.options.clock)()
    }

    /// Sessions that began before this moment are over in any case.
    pub(crate) fn session_horizon(&self) -> Timestamp {
        self.now().plus_millis(-i64::from(self.options.session_seconds) * 1000)
    }

    /// Passes on the limit on claims of the server that decides the sale.
    pub(crate) fn with_limit<T>(&self, shelf: &Shelf, see: impl FnOnce(&Arc<Shedding>) -> T) -> T {
        // No reference is counted, because all cores would contend for the count.
        match &*shelf.limit.load() {
            Some(limit) => see(limit),
            None => see(&self.gate.in_flight.of(self.ledger.home_of(shelf.id), &shelf.limit)),
        }
    }

    /// Takes a place among the claims that are being decided.
    pub(crate) fn enter(&self, shelf: &Shelf) -> Result<InFlight, Problem> {
        let place = self.with_limit(shelf, Shedding::try_enter);
        place.ok_or_else(|| self.gate.turned_away.because(Reason::InFlight))
    }

    /// A sale may have moved to another server. Then that server's limit applies.
    pub(crate) fn look_where_sales_are_decided(&self) {
        let mut homes = HashSet::new();
        for shelf in self.storefront.all() {
            let home = self.ledger.home_of(shelf.id);
            self.gate.in_flight.of(home.clone(), &shelf.limit);
            homes.insert(home);
        }
        self.gate.in_flight.keep_only(&homes);
    }

    /// The answer for a sale that is not on the storefront. Until recovery is done it may still appear.
    pub(crate) fn missing_sale(&self) -> Problem {
        match self.ledger.health() {
            _ if self.storefront.is_dark() => {
                Problem::with_detail(Code::Unavailable, "The state of the sales can't be read at the moment.")
            }
            Health::Ready => Code::SaleNotFound.into(),
            _ => Problem::with_detail(Code::Unavailable, "The sales are being loaded."),
        }
    }
}

impl std::fmt::Debug for App {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("App").field("options", &self.options).finish_non_exhaustive()
    }
}

impl FromRequestParts<Arc<App>> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        app.identity.caller(&parts.method, &parts.headers, app.now())
    }
}

/// Proof that the caller has the admin role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin;

impl Admin {
    /// Call this before `verify`, which looks up an account, and anybody can have one. An account that had
    /// the role when it signed in is not limited, because the console asks often.
    pub(crate) fn within_limits(caller: &Caller, peer: Peer, app: &App) -> Result<(), Problem> {
        match caller {
            Caller::Account(session) if !session.admin => {
                let now = app.now();
                app.gate.check_reads_from(peer, now)?;
                app.gate.check_reads_of(&caller.buyer()?, now)
            }
            _ => Ok(()),
        }
    }

    /// Looks up an account's role, so that it can be granted and revoked at any time. While the records are
    /// down, the role at sign-in counts: a merchant must be able to pause a sale even then.
    pub(crate) async fn verify(caller: &Caller, app: &App) -> Result<Self, Problem> {
        let is_admin = match caller {
            Caller::Operator => true,
            Caller::Subject(_) => false,
            Caller::Account(session) => match app.records.account(session.account).await {
                Ok(account) => account.is_some_and(|account| account.admin),
                Err(_) => session.admin,
            },
        };
        if is_admin {
            Ok(Self)
        } else {
            Err(Problem::with_detail(Code::Forbidden, "This needs the admin role."))
        }
    }
}

impl FromRequestParts<Arc<App>> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, app).await?;
        Self::within_limits(&caller, Peer::from_request_parts(parts, app).await?, app)?;
        Self::verify(&caller, app).await
    }
}
