//! The settings of identity, and the port that delivers one-time codes.

use std::{fmt, num::NonZeroU32, sync::Arc, time::Duration};

use futures_util::future::BoxFuture;
use penstock_gate::LimitOptions;

use super::phone::Country;

const DAY_SECONDS: u32 = 24 * 3600;

#[derive(Clone)]
pub struct IdentityOptions {
    pub session_seconds: u32,
    /// A bearer token with the admin role.
    pub admin_token: Option<String>,
    /// If set, a shop's own tokens are accepted as identity.
    pub jwt: Option<JwtOptions>,
    pub one_time_codes: OneTimeCodeOptions,
    pub code_sender: Arc<dyn CodeSender>,
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
}

impl Default for IdentityOptions {
    fn default() -> Self {
        Self {
            session_seconds: 30 * DAY_SECONDS,
            admin_token: None,
            jwt: None,
            one_time_codes: OneTimeCodeOptions::default(),
            code_sender: Arc::new(LogSender),
            default_country: Country::default(),
            otp_by_address: limit(10, Duration::from_secs(30)),
            sign_up_by_address: limit(30, Duration::from_secs(5)),
            sign_in_by_address: limit(30, Duration::from_secs(5)),
            sign_in_by_phone: limit(50, Duration::from_secs(60)),
            sign_in_by_phone_and_address: limit(10, Duration::from_secs(600)),
            sign_in_by_device: limit(10, Duration::from_secs(30)),
            sign_in_by_account: limit(30, Duration::from_secs(20)),
            password_hashes_at_once: 2,
            password_core_percent: 25,
            password_hashes_waiting: 64,
        }
    }
}

fn limit(burst: u32, one_per: Duration) -> LimitOptions {
    LimitOptions { burst: NonZeroU32::new(burst).unwrap_or(NonZeroU32::MIN), one_per, max_keys: 100_000 }
}

impl fmt::Debug for IdentityOptions {
    /// Leaves out the secrets.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("IdentityOptions")
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
