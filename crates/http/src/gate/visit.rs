//! Somebody who asks for a challenge, a ticket or a pass: the same checks come first for all three.

use std::sync::Arc;

use axum::{extract::FromRequestParts, http::request::Parts};
use penstock_domain::{BuyerId, SaleId, SaleStatus, Timestamp};

use crate::{app::App, identity::Caller, json::PathId, peer::Peer, problem::Problem, storefront::Shelf};

/// A buyer within the limits, at the gate of a published sale.
pub(crate) struct Visit {
    pub(crate) now: Timestamp,
    pub(crate) buyer: BuyerId,
    pub(crate) shelf: Arc<Shelf>,
    pub(crate) status: SaleStatus,
}

impl FromRequestParts<Arc<App>> for Visit {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, app: &Arc<App>) -> Result<Self, Problem> {
        let PathId(sale) = PathId::<SaleId>::from_request_parts(parts, app).await?;
        let peer = Peer::from_request_parts(parts, app).await?;
        let now = app.now();
        app.gate.check_origin(peer, now)?;
        let buyer = Caller::from_request_parts(parts, app).await?.buyer()?;
        app.gate.check_buyer(&buyer, now)?;
        let shelf = app.storefront.shelf(sale).ok_or_else(|| app.missing_sale())?;
        let status = shelf.status().ok_or_else(|| app.missing_sale())?;
        Ok(Self { now, buyer, shelf, status })
    }
}
