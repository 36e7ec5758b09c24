//! The caller's identity: a session, a shop's token, or the admin token. Nothing here looks anything up.

mod device;
mod jwt;
mod origin;
mod revocations;
mod session;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use arc_swap::ArcSwap;
use axum::{extract::FromRequestParts, http::request::Parts};
use hyper::{
    HeaderMap, Method,
    header::{AUTHORIZATION, COOKIE},
};
use penstock_domain::{AccountId, BuyerId, Timestamp};
use subtle::ConstantTimeEq;

pub use self::jwt::InvalidJwtKey;
use self::{device::DeviceSigner, jwt::JwtVerifier, revocations::Ended, session::SessionSigner};
pub(crate) use self::{
    device::{DEVICE_COOKIE, DEVICE_SECONDS, DeviceId, KnownDevice},
    revocations::Revocations,
    session::{Session, SessionId, keyed},
};
use crate::{
    app::App,
    options::Options,
    problem::{Code, Problem},
    secrets::Secrets,
};

pub(crate) const SESSION_COOKIE: &str = "penstock_session";

/// A verified identity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Caller {
    /// The holder of the admin token.
    Operator,
    Account(Session),
    /// The subject of a shop's token.
    Subject(BuyerId),
}

impl Caller {
    /// The buyer to whom an order would belong. The operator can't own one.
    pub(crate) fn buyer(&self) -> Result<BuyerId, Problem> {
        match self {
            Self::Operator => {
                Err(Problem::with_detail(Code::Forbidden, "The admin token is not a buyer. Use an account."))
            }
            Self::Account(session) => Ok(BuyerId::of_account(session.account)),
            Self::Subject(buyer) => Ok(buyer.clone()),
        }
    }

    /// The session, for calls that only one of our accounts can make.
    pub(crate) fn session(&self) -> Result<&Session, Problem> {
        match self {
            Self::Account(session) => Ok(session),
            _ => Err(Problem::with_detail(Code::Forbidden, "Only an account can do this.")),
        }
    }
}

pub(crate) struct Identity {
    /// The signers of the current secret first, then those of the previous one.
    signers: ArcSwap<Vec<Signers>>,
    /// There may be a newer secret that we don't know.
    is_secret_in_doubt: Arc<AtomicBool>,
    session_seconds: u32,
    admin_token: Option<String>,
    jwt: Option<JwtVerifier>,
    pub(crate) revocations: Revocations,
}

impl Identity {
    pub(crate) fn new(options: &Options) -> Result<Self, InvalidJwtKey> {
        Ok(Self {
            signers: ArcSwap::from_pointee(signers(&options.secrets.borrow())),
            is_secret_in_doubt: Arc::clone(&options.is_secret_in_doubt),
            session_seconds: options.session_seconds,
            // An empty token would let in everybody who sends an empty bearer.
            admin_token: options.admin_token.clone().filter(|token| !token.is_empty()),
            jwt: options.jwt.as_ref().map(JwtVerifier::new).transpose()?,
            revocations: Revocations::default(),
        })
    }

    /// The secret has changed. Sessions signed with the previous one continue.
    pub(crate) fn rekey(&self, secrets: &Secrets) {
        self.signers.store(Arc::new(signers(secrets)));
    }

    /// Begins a session and returns its token.
    pub(crate) fn sign_in(
        &self,
        account: AccountId,
        admin: bool,
        now: Timestamp,
    ) -> Result<(String, Session), Problem> {
        let id = SessionId::random().map_err(|_| Problem::from(Code::Internal))?;
        let expires_at = now.plus_seconds(self.session_seconds);
        let session = Session { account, id, issued_at: now, expires_at, admin };
        let token = self.signers.load().first().map(|signers| signers.session.token(&session));
        Ok((token.ok_or(Code::Internal)?, session))
    }

    /// The device, if it has signed in to an account with this phone before.
    pub(crate) fn known_device(
        &self,
        headers: &HeaderMap,
        phone: &str,
        now: Timestamp,
    ) -> Option<KnownDevice> {
        let cookie = cookie(headers, DEVICE_COOKIE)?;
        let signers = self.signers.load();
        device::known(signers.iter().map(|signers| &signers.device), cookie, phone, now)
    }

    /// The cookie for a device that has just signed in.
    pub(crate) fn device_cookie(
        &self,
        headers: &HeaderMap,
        known: Option<DeviceId>,
        phone: &str,
        now: Timestamp,
    ) -> Result<String, Problem> {
        let device = match known {
            Some(device) => device,
            None => DeviceId::random().map_err(|_| Code::Internal)?,
        };
        let kept = cookie(headers, DEVICE_COOKIE).unwrap_or_default();
        let signers = self.signers.load();
        let signer = signers.first().ok_or(Code::Internal)?;
        Ok(device::renewed(&signer.device, kept, device, phone, now))
    }

    /// The caller; 401 if there is none or they can't be verified.
    pub(crate) fn caller(
        &self,
        method: &Method,
        headers: &HeaderMap,
        now: Timestamp,
    ) -> Result<Caller, Problem> {
        if let Some(authorization) = headers.get(AUTHORIZATION) {
            return self.bearer(authorization.as_bytes(), now);
        }
        let token = cookie(headers, SESSION_COOKIE).ok_or(Code::Unauthorized)?;
        let session = self.verify_session(token, now)?;
        if !method.is_safe() {
            OwnPage::check(headers)?;
        }
        Ok(Caller::Account(session))
    }

    /// The caller that the `Authorization` header names.
    pub(crate) fn bearer(&self, authorization: &[u8], now: Timestamp) -> Result<Caller, Problem> {
        let token = bearer(authorization).ok_or(Code::Unauthorized)?;
        self.verify(token, now)
    }

    fn verify(&self, token: &str, now: Timestamp) -> Result<Caller, Problem> {
        if let Some(admin_token) = &self.admin_token
            && bool::from(admin_token.as_bytes().ct_eq(token.as_bytes()))
        {
            return Ok(Caller::Operator);
        }
        if token.starts_with(session::PREFIX) {
            return self.verify_session(token, now).map(Caller::Account);
        }
        let subject = self.jwt.as_ref().and_then(|jwt| jwt.verify(token, now));
        subject.map(Caller::Subject).ok_or(Code::Unauthorized.into())
    }

    fn verify_session(&self, token: &str, now: Timestamp) -> Result<Session, Problem> {
        let session = self.signers.load().iter().find_map(|signers| signers.session.verify(token));
        if session.is_none() && self.is_secret_in_doubt.load(Relaxed) {
            return Err(cannot_check());
        }
        let session = session.filter(|session| now < session.expires_at).ok_or(Code::Unauthorized)?;
        match self.revocations.of(&session) {
            Ended::No => Ok(session),
            Ended::Yes => Err(Code::Unauthorized.into()),
            Ended::Unknown => Err(cannot_check()),
        }
    }
}

/// Proof that the request was not sent by a page of another site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPage;

impl OwnPage {
    fn check(headers: &HeaderMap) -> Result<Self, Problem> {
        match origin::cross_site(headers) {
            Some(why) => Err(Problem::with_detail(Code::CrossSite, why.detail())),
            None => Ok(Self),
        }
    }
}

impl FromRequestParts<Arc<App>> for OwnPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _app: &Arc<App>) -> Result<Self, Problem> {
        Self::check(&parts.headers)
    }
}

fn cannot_check() -> Problem {
    Problem::with_detail(Code::Unavailable, "Sessions can't be checked until the database is back.")
}

/// The signers of one secret.
struct Signers {
    session: SessionSigner,
    device: DeviceSigner,
}

fn signers(secrets: &Secrets) -> Vec<Signers> {
    let of = |secret| Signers { session: SessionSigner::new(secret), device: DeviceSigner::new(secret) };
    [Some(secrets.current), secrets.previous].iter().flatten().map(of).collect()
}

fn bearer(authorization: &[u8]) -> Option<&str> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return None;
    }
    std::str::from_utf8(token).ok().map(str::trim)
}

fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let cookies = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
    cookies.flat_map(|value| value.split(';')).find_map(|pair| {
        let (known, value) = pair.split_once('=')?;
        (known.trim() == name).then(|| value.trim())
    })
}
