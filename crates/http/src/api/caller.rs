//! Who sends a request: reads the headers and cookies that say so, and asks the application.

use axum::{extract::FromRequestParts, http::request::Parts};
use hyper::{
    HeaderMap,
    header::{AUTHORIZATION, COOKIE, HeaderValue},
};
use penstock_domain::Timestamp;
use penstock_shop::{
    Code, Shop,
    gate::Peer,
    identity::{Caller, IdentityRefusal},
};

use super::{Api, origin::SentBy};
use crate::contract::{problem::Problem, refusals::Refuses};

pub(crate) const SESSION_COOKIE: &str = "penstock_session";
pub(crate) const DEVICE_COOKIE: &str = "penstock_device";

/// The headers of a request that say who sends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Credentials<'a> {
    pub(crate) authorization: Option<&'a [u8]>,
    /// The header that has the session cookie.
    pub(crate) cookies: Option<&'a [u8]>,
    pub(crate) sent_by: SentBy<'a>,
}

impl<'a> Credentials<'a> {
    pub(crate) fn read(headers: &'a HeaderMap) -> Self {
        Self {
            authorization: headers.get(AUTHORIZATION).map(HeaderValue::as_bytes),
            cookies: cookies_with(headers, SESSION_COOKIE),
            sent_by: SentBy::read(headers),
        }
    }

    /// The caller; a refusal if there is none or they can't be verified. A cookie is not enough for a request that
    /// changes something: browsers send it along with what pages of other sites make them send.
    pub(crate) fn caller(&self, shop: &Shop, is_change: bool, now: Timestamp) -> Result<Caller, Problem> {
        if let Some(authorization) = self.authorization {
            let token = bearer(authorization).ok_or(IdentityRefusal::NotSignedIn)?;
            return Ok(shop.identity.by_token(token, now)?);
        }
        let token = self.cookies.and_then(|cookies| cookie_in(cookies, SESSION_COOKIE));
        let caller = shop.identity.by_session(token.ok_or(IdentityRefusal::NotSignedIn)?, now)?;
        if is_change {
            OwnPage::check(&self.sent_by)?;
        }
        Ok(caller)
    }
}

fn bearer(authorization: &[u8]) -> Option<&str> {
    let (scheme, token) = authorization.split_at_checked(7)?;
    if !scheme.eq_ignore_ascii_case(b"bearer ") {
        return None;
    }
    str::from_utf8(token).ok().map(str::trim)
}

/// The value of a cookie.
pub(crate) fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    cookie_in(cookies_with(headers, name)?, name)
}

fn cookies_with<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a [u8]> {
    let mut all = headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes);
    all.find(|cookies| cookie_in(cookies, name).is_some())
}

/// The value of a cookie in one `Cookie` header.
fn cookie_in<'a>(cookies: &'a [u8], name: &str) -> Option<&'a str> {
    str::from_utf8(cookies).ok()?.split(';').find_map(|pair| {
        let (known, value) = pair.split_once('=')?;
        (known.trim() == name).then(|| value.trim())
    })
}

impl FromRequestParts<Api> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        Credentials::read(&parts.headers).caller(&api.shop, !parts.method.is_safe(), api.shop.now())
    }
}

impl FromRequestParts<Api> for Peer {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().copied().ok_or(Code::Internal.into())
    }
}

/// Whether a trusted proxy says that the visitor came to it by HTTPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CameByHttps(pub(crate) bool);

impl FromRequestParts<Api> for CameByHttps {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        parts.extensions.get::<Self>().copied().ok_or(Code::Internal.into())
    }
}

/// Proof that the request was not sent by a page of another site.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OwnPage;

impl OwnPage {
    fn check(sent_by: &SentBy<'_>) -> Result<Self, Problem> {
        match sent_by.another_site() {
            Some(why) => Err(Problem::with_detail(Code::CrossSite, why.detail())),
            None => Ok(Self),
        }
    }
}

impl FromRequestParts<Api> for OwnPage {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, _: &Api) -> Result<Self, Problem> {
        Self::check(&SentBy::read(&parts.headers))
    }
}

/// Proof that the caller has the admin role.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Admin;

impl Admin {
    /// Call this before `verify`, which looks up an account, and anybody can have one. An account that had
    /// the role when it signed in is not limited, because the console asks often.
    pub(crate) fn within_limits(caller: &Caller, peer: Peer, shop: &Shop) -> Result<(), Problem> {
        match caller {
            Caller::Account(session) if !session.admin => {
                let now = shop.now();
                shop.gate.check_reads_from(peer, now)?;
                Ok(shop.gate.check_reads_of(&caller.buyer()?, now)?)
            }
            _ => Ok(()),
        }
    }

    /// Looks up an account's role, so that it can be granted and revoked at any time. While the records are
    /// down, the role at sign-in counts: a merchant must be able to pause a sale even then.
    pub(crate) async fn verify(caller: &Caller, shop: &Shop) -> Result<Self, Problem> {
        let is_admin = match caller {
            Caller::Operator => true,
            Caller::Subject(_) => false,
            Caller::Account(session) => match shop.records.account(session.account).await {
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

impl FromRequestParts<Api> for Admin {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let caller = Caller::from_request_parts(parts, api).await?;
        Self::within_limits(&caller, Peer::from_request_parts(parts, api).await?, &api.shop)?;
        Self::verify(&caller, &api.shop).await
    }
}

impl Refuses for OwnPage {
    fn codes() -> Vec<Code> {
        vec![Code::CrossSite]
    }
}

impl Refuses for Caller {
    fn codes() -> Vec<Code> {
        [IdentityRefusal::codes(), OwnPage::codes()].concat()
    }
}

impl Refuses for Admin {
    fn codes() -> Vec<Code> {
        [Caller::codes(), vec![Code::RateLimited]].concat()
    }
}
