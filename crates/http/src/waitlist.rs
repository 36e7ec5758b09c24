//! The waitlist of a sale that is sold out: joining, looking and leaving. Whose turn it is the ledger decides; what it
//! offers is an order like any other.

use std::{num::NonZeroU32, sync::Arc};

use axum::extract::State;
use hyper::StatusCode;
use penstock_domain::{Place, SaleId, SaleState};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    app::App,
    gate::Visit,
    json::Json,
    problem::{Code, Problem},
    wire::Rfc3339,
};

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct WaitlistRequest {
    /// How many units. You may be offered fewer, if fewer come back.
    #[schema(value_type = u32, minimum = 1, example = 1)]
    quantity: NonZeroU32,
}

/// A place on a waitlist.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = WaitlistPlace)]
pub(crate) struct PlaceView {
    sale_id: String,
    /// How many units you wait for.
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

/// Wait for units
///
/// Only when the sale is sold out. Units that come back are held for who waits first: you find them as a new order in the
/// state `held`, with a `pay_before` of its own, and your place is gone. As long as you wait, joining again changes
/// nothing; to wait for another quantity, leave first. If no answer came, look for your place and your orders before you
/// join again: after an offer that would be a new place, or `limit_reached`.
#[utoipa::path(post, path = "/api/v1/sales/{id}/waitlist", tag = "orders", params(("id" = String, Path)),
    request_body = WaitlistRequest, security(("bearer" = []), ("session" = [])),
    responses((status = 201, body = PlaceView)))]
pub(crate) async fn join_waitlist(
    State(app): State<Arc<App>>,
    Visit { now, buyer, shelf, status }: Visit,
    Json(WaitlistRequest { quantity }): Json<WaitlistRequest>,
) -> Result<(StatusCode, axum::Json<PlaceView>), Problem> {
    // A ledger may have forgotten a sale that is over.
    if status.state(now) == SaleState::Closed {
        return Err(Code::Closed.into());
    }
    // Everybody comes at once when the last unit is gone, as they came for the first.
    let _in_flight = app.enter(&shelf)?;
    app.gate.pour(now)?;
    let place = app.ledger.join_waitlist(shelf.id, buyer, quantity.get()).await?;
    Ok((StatusCode::CREATED, axum::Json(PlaceView::new(shelf.id, place))))
}

/// Your place on the waitlist
#[utoipa::path(get, path = "/api/v1/sales/{id}/waitlist", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = PlaceView)))]
pub(crate) async fn get_waitlist_place(
    State(app): State<Arc<App>>,
    Visit { now, buyer, shelf, status }: Visit,
) -> Result<axum::Json<PlaceView>, Problem> {
    if status.state(now) == SaleState::Closed {
        return Err(Problem::with_detail(Code::NotWaiting, "The sale is over, and with it the waitlist."));
    }
    let place = app.ledger.place_on_waitlist(shelf.id, buyer).await?.ok_or(Code::NotWaiting)?;
    Ok(axum::Json(PlaceView::new(shelf.id, place)))
}

/// Wait no more
///
/// Leaving twice changes nothing. An order that was offered stays: cancel it if you don't want it.
#[utoipa::path(delete, path = "/api/v1/sales/{id}/waitlist", tag = "orders", params(("id" = String, Path)),
    security(("bearer" = []), ("session" = [])), responses((status = 204)))]
pub(crate) async fn leave_waitlist(
    State(app): State<Arc<App>>,
    Visit { buyer, shelf, .. }: Visit,
) -> Result<StatusCode, Problem> {
    app.ledger.leave_waitlist(shelf.id, buyer).await?;
    Ok(StatusCode::NO_CONTENT)
}
