//! The caller, and whether they ask too often: many calls begin with the same checks.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};
use penstock_shop::{Code, SaleMissing, gate::Peer, identity::Caller, storefront::Shelf};

use super::Api;
use crate::contract::{json::PathId, problem::Problem, refusals::Refuses};

/// A buyer within the limits who wants to do something.
pub(crate) struct Acting {
    pub(crate) now: Timestamp,
    pub(crate) buyer: BuyerId,
}

impl FromRequestParts<Api> for Acting {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let peer = Peer::from_request_parts(parts, api).await?;
        let now = api.shop.now();
        api.shop.gate.check_origin(peer, now)?;
        let buyer = Caller::from_request_parts(parts, api).await?.buyer()?;
        api.shop.gate.check_buyer(&buyer, now)?;
        Ok(Self { now, buyer })
    }
}

/// Somebody within the limits who reads their own data.
pub(crate) struct Looking(pub(crate) Caller);

impl FromRequestParts<Api> for Looking {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let peer = Peer::from_request_parts(parts, api).await?;
        let now = api.shop.now();
        api.shop.gate.check_reads_from(peer, now)?;
        let caller = Caller::from_request_parts(parts, api).await?;
        // The operator is not a buyer.
        if let Ok(buyer) = caller.buyer() {
            api.shop.gate.check_reads_of(&buyer, now)?;
        }
        Ok(Self(caller))
    }
}

/// A buyer within the limits, at the gate of a published sale: for a challenge, a ticket, a pass or the waitlist.
pub(crate) struct Visit {
    pub(crate) now: Timestamp,
    pub(crate) buyer: BuyerId,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) status: SaleStatus,
}

impl FromRequestParts<Api> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, api: &Api) -> Result<Self, Problem> {
        let shop = &api.shop;
        let PathId(sale) = PathId::<SaleId>::from_request_parts(parts, api).await?;
        let Acting { now, buyer } = Acting::from_request_parts(parts, api).await?;
        let shelf = shop.storefront.shelf(sale).ok_or_else(|| shop.missing_sale())?;
        let status = shelf.status().ok_or_else(|| shop.missing_sale())?;
        Ok(Self { now, buyer, shelf, status })
    }
}

impl Refuses for Acting {
    fn codes() -> Vec<Code> {
        [Caller::codes(), vec![Code::RateLimited]].concat()
    }
}

impl Refuses for Looking {
    fn codes() -> Vec<Code> {
        Acting::codes()
    }
}

impl Refuses for Visit {
    fn codes() -> Vec<Code> {
        [Acting::codes(), SaleMissing::codes()].concat()
    }
}
