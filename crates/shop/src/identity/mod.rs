//! The caller's identity: a session, a shop's token, or the admin token. Nothing here looks anything up.

mod accounts;
mod attempts;
mod device;
mod jwt;
mod one_time_code;
mod options;
mod passwords;
mod phone;
mod revocations;
mod session;
mod signature;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arc_swap::{ArcSwap, ArcSwapOption};
use penstock_domain::{AccountId, BuyerId, Timestamp};
use subtle::ConstantTimeEq;

pub use self::{
    accounts::{
        InvalidAccount, Registrant, account_of, check_password, check_registrant, new_account, phone_forms,
    },
    attempts::{Attempts, PasswordAttempt},
    device::{DEVICE_SECONDS, DeviceId, KnownDevice},
    jwt::InvalidJwtKey,
    one_time_code::{digest as digest_of_code, is_code, random as random_code},
    options::{CodeSender, IdentityOptions, JwtKey, JwtOptions, LogSender, OneTimeCodeOptions, SendFailed},
    passwords::{MAX_PASSWORD_BYTES, PasswordLine, PasswordRefusal, Passwords},
    phone::{Country, Phone, UnknownCountry},
    revocations::Revocations,
    session::{Session, SessionId},
};
use self::{device::DeviceSigner, jwt::JwtVerifier, revocations::Ended, session::SessionSigner};
use crate::secrets::Secrets;

/// A verified identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Caller {
    /// The holder of the admin token.
    Operator,
    Account(Session),
    /// The subject of a shop's token.
    Subject(BuyerId),
}

/// Why a caller can't be identified, or can't do something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdentityRefusal {
    /// No valid token.
    NotSignedIn,
    /// Whether a session is valid can't be told at the moment.
    CannotCheck,
    /// The operator can't own an order.
    NotABuyer,
    /// Only one of our own accounts can do this.
    NotAnAccount,
    /// The system gave no random bytes.
    NoRandomness,
}

impl Caller {
    /// The buyer to whom an order would belong.
    pub fn buyer(&self) -> Result<BuyerId, IdentityRefusal> {
        match self {
            Self::Operator => Err(IdentityRefusal::NotABuyer),
            Self::Account(session) => Ok(BuyerId::of_account(session.account)),
            Self::Subject(buyer) => Ok(buyer.clone()),
        }
    }

    /// The session, for calls that only one of our accounts can make.
    pub fn session(&self) -> Result<&Session, IdentityRefusal> {
        match self {
            Self::Account(session) => Ok(session),
            _ => Err(IdentityRefusal::NotAnAccount),
        }
    }
}

pub struct Identity {
    /// The signers of the current secret.
    current: ArcSwap<Signers>,
    /// Those of the previous one, whose tokens are still valid.
    previous: ArcSwapOption<Signers>,
    /// There may be a newer secret that we don't know.
    is_secret_in_doubt: Arc<AtomicBool>,
    session_seconds: u32,
    admin_token: Option<String>,
    jwt: Option<JwtVerifier>,
    pub revocations: Revocations,
}

impl Identity {
    pub fn new(
        options: &IdentityOptions,
        secrets: &Secrets,
        is_secret_in_doubt: &Arc<AtomicBool>,
    ) -> Result<Self, InvalidJwtKey> {
        Ok(Self {
            current: ArcSwap::from_pointee(Signers::new(&secrets.current)),
            previous: ArcSwapOption::from_pointee(secrets.previous.as_ref().map(Signers::new)),
            is_secret_in_doubt: Arc::clone(is_secret_in_doubt),
            session_seconds: options.session_seconds,
            // An empty token would let in everybody who sends an empty bearer.
            admin_token: options.admin_token.clone().filter(|token| !token.is_empty()),
            jwt: options.jwt.as_ref().map(JwtVerifier::new).transpose()?,
            revocations: Revocations::default(),
        })
    }

    /// The secret has changed. Sessions signed with the previous one continue.
    pub fn rekey(&self, secrets: &Secrets) {
        self.previous.store(secrets.previous.as_ref().map(|secret| Arc::new(Signers::new(secret))));
        self.current.store(Arc::new(Signers::new(&secrets.current)));
    }

    /// Begins a session and returns its token.
    pub fn sign_in(
        &self,
        account: AccountId,
        admin: bool,
        now: Timestamp,
    ) -> Result<(String, Session), IdentityRefusal> {
        let id = SessionId::random().map_err(|_| IdentityRefusal::NoRandomness)?;
        let expires_at = now.plus_seconds(self.session_seconds);
        let session = Session { account, id, issued_at: now, expires_at, admin };
        Ok((self.current.load().session.token(&session), session))
    }

    /// The device, if it has signed in to an account with this phone before. `kept` is what the browser keeps.
    pub fn known_device(&self, kept: &str, phone: &str, now: Timestamp) -> Option<KnownDevice> {
        let known = |signers: &Signers| device::known(&signers.device, kept, phone, now);
        known(&self.current.load()).or_else(|| self.previous.load().as_deref().and_then(known))
    }

    /// What a device that has just signed in keeps from now on.
    pub fn device_to_keep(
        &self,
        kept: &str,
        known: Option<DeviceId>,
        phone: &str,
        now: Timestamp,
    ) -> Result<String, IdentityRefusal> {
        let device = match known {
            Some(device) => device,
            None => DeviceId::random().map_err(|_| IdentityRefusal::NoRandomness)?,
        };
        Ok(device::renewed(&self.current.load().device, kept, device, phone, now))
    }

    /// The caller with this token: the admin token, a session's, or a shop's own.
    pub fn by_token(&self, token: &str, now: Timestamp) -> Result<Caller, IdentityRefusal> {
        if let Some(admin_token) = &self.admin_token
            && bool::from(admin_token.as_bytes().ct_eq(token.as_bytes()))
        {
            return Ok(Caller::Operator);
        }
        if token.starts_with(session::PREFIX) {
            return self.by_session(token, now);
        }
        let subject = self.jwt.as_ref().and_then(|jwt| jwt.verify(token, now));
        subject.map(Caller::Subject).ok_or(IdentityRefusal::NotSignedIn)
    }

    /// The caller with this session's token; no other token counts.
    pub fn by_session(&self, token: &str, now: Timestamp) -> Result<Caller, IdentityRefusal> {
        let signed = |signers: &Signers| signers.session.verify(token);
        let session = signed(&self.current.load());
        let session = session.or_else(|| self.previous.load().as_deref().and_then(signed));
        if session.is_none() && self.is_secret_in_doubt.load(Relaxed) {
            return Err(IdentityRefusal::CannotCheck);
        }
        let session =
            session.filter(|session| now < session.expires_at).ok_or(IdentityRefusal::NotSignedIn)?;
        match self.revocations.of(&session) {
            Ended::No => Ok(Caller::Account(session)),
            Ended::Yes => Err(IdentityRefusal::NotSignedIn),
            Ended::Unknown => Err(IdentityRefusal::CannotCheck),
        }
    }
}

/// The signers of one secret.
struct Signers {
    session: SessionSigner,
    device: DeviceSigner,
}

impl Signers {
    fn new(secret: &[u8; 32]) -> Self {
        Self { session: SessionSigner::new(secret), device: DeviceSigner::new(secret) }
    }
}
