//! The settings of the server, and the ports to everything outside.

use std::{
    fmt,
    net::SocketAddr,
    num::NonZeroU32,
    sync::{Arc, atomic::AtomicBool},
    time::Duration,
};

use futures_util::future::BoxFuture;
use ipnet::IpNet;
use penstock_gate::LimitOptions;
use penstock_ledger::Clock;
use tokio::sync::watch;

use crate::{
    gate::GateOptions,
    neighbours::{Alone, Neighbours},
    pages::PageFile,
    parts::Part,
    phone::Country,
    secrets::Secrets,
    shared_cache::{NoSharedCache, SharedCache},
    shared_figures::{NoSharedFigures, SharedFigures},
};

const DAY_SECONDS: u32 = 24 * 3600;

#[derive(Clone)]
pub struct Options {
    pub listen: SocketAddr,
    /// Threads that serve, each with its own listener; 0 means one per core.
    pub workers: usize,
    /// The server's only source of time.
    pub clock: Clock,
    /// Sign sessions, passes, tickets and challenges. A change takes effect at once.
    pub secrets: watch::Receiver<Secrets>,
    /// Whether there may be a newer secret that this node could not learn of. Then a forged session can't be
    /// told from one that another node has just begun.
    pub is_secret_in_doubt: Arc<AtomicBool>,
    pub session_seconds: u32,
    /// Always marks the session cookie `Secure`; for servers that are reached by HTTPS only. If a trusted
    /// proxy says that a visitor came by HTTPS, the cookie is marked in any case.
    pub secure_cookies: bool,
    /// A bearer token with the admin role.
    pub admin_token: Option<String>,
    /// If set, a shop's own tokens are accepted as identity.
    pub jwt: Option<JwtOptions>,
    pub one_time_codes: OneTimeCodeOptions,
    pub code_sender: Arc<dyn CodeSender>,
    /// Returns one-time codes in the answer, so that anybody can sign up with any phone: for rehearsals and
    /// demos only.
    pub codes_in_answers: bool,
    /// The country of phone numbers that are sent without one.
    pub default_country: Country,
    /// Requests for one-time codes from one address.
    pub otp_by_address: LimitOptions,
    /// Sign-ups from one address.
    pub sign_up_by_address: LimitOptions,
    /// Sign-ins from one address.
    pub sign_in_by_address: LimitOptions,
    /// Wrong passwords for one account by all strangers.
    pub sign_in_by_phone: LimitOptions,
    /// Wrong passwords for one account from one address by strangers.
    pub sign_in_by_phone_and_address: LimitOptions,
    /// Wrong passwords by a device that has signed in to the account before.
    pub sign_in_by_device: LimitOptions,
    /// Passwords, right or wrong, by all devices that have signed in to one account before. It exceeds the
    /// wrong passwords that a single device may try, so that a stolen device leaves something to the others.
    pub sign_in_by_account: LimitOptions,
    /// Passwords that are hashed at the same time, each in 19 MiB of memory.
    pub password_hashes_at_once: usize,
    /// The share of all cores that hashing may use, once a burst is over.
    pub password_core_percent: u32,
    /// The most sign-ins of strangers that may wait for hashing, and as many sign-ins of known people, and as
    /// many new passwords. Beyond that, the line with the most waiting gets `busy`.
    pub password_hashes_waiting: usize,
    /// The most open connections over all workers. A further one takes the place of the one that has been
    /// idle longest.
    pub max_connections: usize,
    /// The most open connections of one address. A further one is closed at once. Loopback and trusted
    /// proxies are exempt.
    pub max_connections_per_address: usize,
    /// The most bytes of answers that may wait for one client to read them. Until it does, no more of its
    /// requests are looked at. The last answer may exceed it.
    pub max_unread_bytes_per_connection: usize,
    /// Memory for answers that clients have not read, over all connections. When it is full, the connections
    /// whose clients have read nothing for longest are cut.
    pub max_unread_bytes: usize,
    /// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a request may take to arrive, from its first byte to its last.
    pub request_timeout: Duration,
    /// How long a connection may go without completing the next request, or without reading any of our
    /// answer.
    pub idle_timeout: Duration,
    /// How long `Server::stop` waits for requests under way.
    pub drain_timeout: Duration,
    /// The prefix of a code in a problem's `type`. This server serves `/errors/`.
    pub problem_type_base: String,
    /// Challenges, passes, waiting rooms and limits.
    pub gate: GateOptions,
    /// The progress of settlement, for the metrics.
    pub settlement: Arc<dyn Fn() -> SettlementView + Send + Sync>,
    /// The name of this node; empty for a shop with a single node.
    pub node: String,
    /// The other nodes.
    pub neighbours: Arc<dyn Neighbours>,
    /// The cache for items and sales that the nodes share.
    pub shared_cache: Arc<dyn SharedCache>,
    /// The files of the shop and the console. Without any there are no pages.
    pub pages: Vec<PageFile>,
    /// The counters that the nodes show each other.
    pub shared_figures: Arc<dyn SharedFigures>,
    /// Further parts that `/readyz` and `/metrics` show.
    pub parts: Vec<Arc<dyn Part>>,
}

impl Options {
    pub fn new(clock: Clock, secret: [u8; 32]) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            workers: 0,
            clock,
            secrets: watch::channel(Secrets { current: secret, previous: None }).1,
            is_secret_in_doubt: Arc::default(),
            session_seconds: 30 * DAY_SECONDS,
            secure_cookies: false,
            admin_token: None,
            jwt: None,
            one_time_codes: OneTimeCodeOptions::default(),
            code_sender: Arc::new(LogSender),
            codes_in_answers: false,
            default_country: Country::default(),
            otp_by_address: limit(10, Duration::from_secs(30)),
            sign_in_by_address: limit(30, Duration::from_secs(5)),
            sign_up_by_address: limit(30, Duration::from_secs(5)),
            sign_in_by_phone: limit(50, Duration::from_secs(60)),
            sign_in_by_phone_and_address: limit(10, Duration::from_secs(600)),
            sign_in_by_device: limit(10, Duration::from_secs(30)),
            sign_in_by_account: limit(30, Duration::from_secs(20)),
            password_hashes_at_once: 2,
            password_core_percent: 25,
            password_hashes_waiting: 64,
            max_connections: 65_536,
            max_connections_per_address: 1_024,
            max_unread_bytes_per_connection: 64 << 10,
            max_unread_bytes: 256 << 20,
            trusted_proxies: Vec::new(),
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(30),
            problem_type_base: "/errors/".to_owned(),
            gate: GateOptions::default(),
            settlement: Arc::new(SettlementView::default),
            node: String::new(),
            neighbours: Arc::new(Alone),
            shared_cache: Arc::new(NoSharedCache),
            shared_figures: Arc::new(NoSharedFigures),
            pages: Vec::new(),
            parts: Vec::new(),
        }
    }
}

fn limit(burst: u32, one_per: Duration) -> LimitOptions {
    LimitOptions { burst: NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN), one_per, max_keys: 100_000 }
}

impl fmt::Debug for Options {
    /// Leaves out the secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("Options")
            .field("listen", &self.listen)
            .field("workers", &self.workers)
            .field("jwt", &self.jwt)
            .field("has_admin_token", &self.admin_token.is_some())
            .finish_non_exhaustive()
    }
}

#[derive(Clone, Debug)]
pub struct JwtOptions {
    pub key: JwtKey,
    /// If set, `iss` has to equal it.
    pub issuer: Option<String>,
    /// If set, `aud` has to contain it.
    pub audience: Option<String>,
    /// How far the shop's clock may be off.
    pub leeway_seconds: u32,
}

/// The kind of key determines the algorithm; the token can't.
#[derive(Clone)]
pub enum JwtKey {
    /// HS256.
    Secret(Vec<u8>),
    /// EdDSA or RS256, depending on the key.
    PublicKeyPem(String),
}

impl fmt::Debug for JwtKey {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Secret(_) => "Secret",
            Self::PublicKeyPem(_) => "PublicKeyPem",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OneTimeCodeOptions {
    pub lifetime_seconds: u32,
    /// The most codes sent to a phone in a window at the request of one address.
    pub max_per_window: u32,
    /// The same for all addresses together. The last half is reserved for addresses that have not requested
    /// one yet.
    pub max_per_phone: u32,
    pub window_seconds: u32,
}

impl Default for OneTimeCodeOptions {
    fn default() -> Self {
        Self { lifetime_seconds: 300, max_per_window: 5, max_per_phone: 20, window_seconds: 3600 }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the one-time code could not be sent: {0}")]
pub struct SendFailed(pub String);

/// Delivers a one-time code to a phone.
pub trait CodeSender: Send + Sync + 'static {
    fn send<'a>(&'a self, phone: &'a str, code: &'a str) -> BoxFuture<'a, Result<(), SendFailed>>;
}

/// The default sender: writes the code to the log, so that everything works before there is an SMS gateway.
#[derive(Clone, Copy, Debug)]
pub struct LogSender;

impl CodeSender for LogSender {
    fn send<'a>(&'a self, phone: &'a str, code: &'a str) -> BoxFuture<'a, Result<(), SendFailed>> {
        tracing::info!(
            phone,
            code,
            "one-time code written here by the default sender, not sent to the phone"
        );
        Box::pin(std::future::ready(Ok(())))
    }
}

/// The progress of settlement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SettlementView {
    pub position: u64,
    pub lag_decisions: u64,
    pub lag_seconds: f64,
    pub retries: u64,
    pub dead_letters: u64,
    pub expired: u64,
    /// Decisions that would have sold a unit that does not exist, or too many to one buyer.
    pub violations: u64,
    pub takeovers: u64,
    pub diverged: u64,
    /// Why something is not settled at the moment; None if nothing is wrong.
    pub trouble: Option<String>,
}
