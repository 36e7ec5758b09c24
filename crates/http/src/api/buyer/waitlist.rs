//! The waitlist of a sold-out sale: joining, looking and leaving. The ledger decides whose turn it is; its
//! offers are orders like any other.

use std::{convert::Infallible, num::NonZeroU32, sync::Arc};

use axum::extract::State;
use hyper::StatusCode;
use penstock_domain::{JoinRefusal, Place, SaleId, SaleState};
use penstock_ledger::LedgerError;
use penstock_shop::{Code, Shop, gate::TurnedAway};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::visit::Visit,
    contract::{json::Json, problem::Problem, refusals::refusals, wire::Rfc3339},
};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitlistRequest {
    /// The number of units. You may be offered fewer, if fewer come back.
    #[schema(value_type = u32, minimum = 1, example = 1)]
    quantity: NonZeroU32,
}

/// A place on a waitlist.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitlistPlace)]
pub(crate) struct PlaceView {
    sale_id: String,
    /// The number of units that you wait for.
    quantity: u32,
    /// 1 is next.
    #[schema(minimum = 1, example = 1)]
    position: u32,
    #[schema(value_type = String, format = DateTime)]
    joined_at: Rfc3339,
}

impl PlaceView {
    fn new(sale: SaleId, Place { position, quantity, joined_at }: Place) -> Self {
        Self { sale_id: sale.to_string(), quantity, position, joined_at: Rfc3339(joined_at) }
    }
}

/// Join the waitlist
///
/// Only while the sale is sold out. Units that come back are held for the first person on the waitlist: you
/// find them as a new order in the state `held`, with its own `pay_before`, and your place is gone. While you
/// wait, joining again changes nothing; to wait for another quantity, leave first. If you got no answer,
/// check your place and your orders before you join again: after an offer you would get a new place, or
/// `limit_reached`.
#[utoipa::path(post, path = "/api/v1/sales/{id}/waitlist", tag = "orders", params(("id" = String, Path)),
    request_body = WaitlistRequest, security(("bearer" = []), ("session" = [])),
    responses((status = 201, body = PlaceView)),
    extensions(("x-refusals" = json!(refusals!(Visit, Json<WaitlistRequest>, TurnedAway, LedgerError<JoinRefusal>)))))]
pub(crate) async fn join_waitlist(
    State(shop): State<Arc<Shop>>,
    Visit { now, buyer, shelf, status }: Visit,
    Json(WaitlistRequest { quantity }): Json<WaitlistRequest>,
) -> Result<(StatusCode, axum::Json<PlaceView>), Problem> {
    // The ledger may have forgotten a sale that is over.
    if status.state(now) == SaleState::Closed {
        return Err(Code::Closed.into());
    }
    // When the last unit is gone, everybody comes at once, as they did for the first.
    let _in_flight = shop.enter(&shelf)?;
    shop.gate.pour(now)?;
    let place = shop.ledger.join_waitlist(shelf.id, buyer, quantity.get()).await?;
    Ok((StatusCode::CREATED, axum::Json(PlaceView::new(shelf.id, place))))
}

/// Get your place on the waitlist
#[utoipa::path(get, path = "/api/v1/sales/{id}/waitlist", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = PlaceView)),
    extensions(("x-refusals" = json!(refusals!(Visit, LedgerError<Infallible>; NotWaiting)))))]
pub(crate) async fn get_waitlist_place(
    State(shop): State<Arc<Shop>>,
    Visit { now, buyer, shelf, status }: Visit,
) -> Result<axum::Json<PlaceView>, Problem> {
    if status.state(now) == SaleState::Closed {
        return Err(Problem::with_detail(Code::NotWaiting, "The sale is over, and so is its waitlist."));
    }
    let place = shop.ledger.place_on_waitlist(shelf.id, buyer).await?.ok_or(Code::NotWaiting)?;
    Ok(axum::Json(PlaceView::new(shelf.id, place)))
}

/// Leave the waitlist
///
/// Leaving twice changes nothing. An order that you were offered stays: cancel it if you don't want it.
#[utoipa::path(delete, path = "/api/v1/sales/{id}/waitlist", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 204)),
    extensions(("x-refusals" = json!(refusals!(Visit, LedgerError<Infallible>)))))]
pub(crate) async fn leave_waitlist(
    State(shop): State<Arc<Shop>>,
    Visit { buyer, shelf, .. }: Visit,
) -> Result<StatusCode, Problem> {
    shop.ledger.leave_waitlist(shelf.id, buyer).await?;
    Ok(StatusCode::NO_CONTENT)
}
