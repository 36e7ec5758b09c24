//! Sales before they are published: creating and changing drafts.

use std::sync::Arc;

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use hyper::{StatusCode, header::CONTENT_TYPE};
use penstock_domain::{
    ChallengeKind, GateTerms, ItemId, MAX_HOLD_SECONDS, MAX_LIMIT_PER_BUYER, MAX_UNITS, SaleId, SaleState,
    Timestamp,
};
use penstock_records::{ChangeDraftError, Item, SaleRow};
use penstock_shop::{
    Code, Shop,
    complaints::Complaints,
    storefront::{SaleFacts, Scribe as _},
};
use serde::Deserialize;
use utoipa::ToSchema;

use crate::{
    api::{
        admin::items::{parse_money, present},
        caller::Admin,
    },
    contract::{
        answer::APPLICATION_JSON,
        json::{Json, PathId},
        problem::Problem,
        refusals::refusals,
        wire::{JsonScribe, MoneyView, SaleView, parse_time, sale_body},
        words::GateChallengeWord,
    },
};

const DEFAULT_HOLD_SECONDS: u32 = 900;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaleRequest {
    item_id: String,
    price: MoneyView,
    #[schema(minimum = 1, maximum = 100_000_000)]
    units: u32,
    #[schema(minimum = 1, maximum = 1_000_000)]
    limit_per_buyer: u32,
    /// Empty: open as soon as it is published.
    #[schema(format = DateTime)]
    opens_at: Option<String>,
    /// Empty: open until it is closed.
    #[schema(format = DateTime)]
    closes_at: Option<String>,
    /// How long an order is held until it is paid; 900 by default.
    #[schema(minimum = 1, maximum = 2_592_000)]
    hold_seconds: Option<u32>,
    gate: Option<GateRequest>,
}

/// Fields that are left out stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SaleChange {
    item_id: Option<String>,
    price: Option<MoneyView>,
    #[schema(minimum = 1, maximum = 100_000_000)]
    units: Option<u32>,
    #[schema(minimum = 1, maximum = 1_000_000)]
    limit_per_buyer: Option<u32>,
    /// `null`: open as soon as it is published.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = DateTime)]
    opens_at: Option<Option<String>>,
    /// `null`: open until it is closed.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>, format = DateTime)]
    closes_at: Option<Option<String>>,
    #[schema(minimum = 1, maximum = 2_592_000)]
    hold_seconds: Option<u32>,
    /// Replaces the whole gate; `{}` means no gate.
    gate: Option<GateRequest>,
}

/// The checks that a buyer has to pass before ordering.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct GateRequest {
    /// `none`, `pow` (a proof of work) or `captcha` (a picture to read); `none` by default.
    #[schema(value_type = Option<GateChallengeWord>)]
    challenge: Option<String>,
    /// Whether buyers queue for their turn. Those who come before the opening are ordered by a draw. False by
    /// default.
    waiting_room: Option<bool>,
    /// Whether an order needs a pass. A challenge or a waiting room always requires one.
    pass_required: Option<bool>,
}

impl GateRequest {
    fn check(&self, complaints: &mut Complaints) -> GateTerms {
        let challenge = match &self.challenge {
            None => Some(ChallengeKind::None),
            Some(name) => ChallengeKind::ALL.into_iter().find(|kind| kind.as_str() == name),
        };
        complaints.require(challenge.is_some(), "gate.challenge", "has to be none, pow or captcha");
        let challenge = challenge.unwrap_or_default();
        let waiting_room = self.waiting_room.unwrap_or(false);
        let leads_to_a_pass = challenge != ChallengeKind::None || waiting_room;
        complaints.require(
            !leads_to_a_pass || self.pass_required != Some(false),
            "gate.pass_required",
            "a challenge or a waiting room leads to a pass: leave it out or use true",
        );
        GateTerms {
            challenge,
            waiting_room,
            pass_required: leads_to_a_pass || self.pass_required == Some(true),
        }
    }
}

fn check_numbers(complaints: &mut Complaints, units: u32, limit_per_buyer: u32, hold_seconds: u32) {
    for (field, number, most) in [
        ("units", units, MAX_UNITS),
        ("limit_per_buyer", limit_per_buyer, MAX_LIMIT_PER_BUYER),
        ("hold_seconds", hold_seconds, MAX_HOLD_SECONDS),
    ] {
        complaints.require((1..=most).contains(&number), field, format!("has to be 1 to {most}"));
    }
}

fn check_window(complaints: &mut Complaints, opens_at: Option<Timestamp>, closes_at: Option<Timestamp>) {
    if let (Some(opens_at), Some(closes_at)) = (opens_at, closes_at) {
        complaints.require(opens_at < closes_at, "closes_at", "has to come after opens_at");
    }
}

fn read_time(complaints: &mut Complaints, field: &'static str, text: Option<&str>) -> Option<Timestamp> {
    text.and_then(|text| complaints.take(field, parse_time(text)))
}

fn no_item() -> Problem {
    Problem::invalid_field("item_id", "there is no such item")
}

async fn known_item(shop: &Shop, id: &str) -> Result<ItemId, Problem> {
    let id = id.parse().map_err(|_| no_item())?;
    shop.records.item(id).await?.map(|item| item.id).ok_or_else(no_item)
}

impl SaleRequest {
    fn check(&self, id: SaleId, item: ItemId, now: Timestamp) -> Result<SaleRow, Problem> {
        let mut complaints = Complaints::default();
        let price = parse_money(&mut complaints, "price", &self.price);
        let hold_seconds = self.hold_seconds.unwrap_or(DEFAULT_HOLD_SECONDS);
        check_numbers(&mut complaints, self.units, self.limit_per_buyer, hold_seconds);
        let opens_at = read_time(&mut complaints, "opens_at", self.opens_at.as_deref());
        let closes_at = read_time(&mut complaints, "closes_at", self.closes_at.as_deref());
        check_window(&mut complaints, opens_at, closes_at);
        let gate = self.gate.as_ref().unwrap_or(&GateRequest::default()).check(&mut complaints);
        complaints.check()?;
        Ok(SaleRow {
            id,
            item_id: item,
            price: price.ok_or(Code::Internal)?,
            units: self.units,
            limit_per_buyer: self.limit_per_buyer,
            opens_at,
            closes_at,
            hold_seconds,
            gate,
            published_at: None,
            created_at: now,
        })
    }
}

impl SaleChange {
    /// The draft after the change.
    fn apply(&self, mut row: SaleRow) -> Result<SaleRow, Problem> {
        let mut complaints = Complaints::default();
        if let Some(price) = &self.price {
            row.price = parse_money(&mut complaints, "price", price).unwrap_or(row.price);
        }
        row.units = self.units.unwrap_or(row.units);
        row.limit_per_buyer = self.limit_per_buyer.unwrap_or(row.limit_per_buyer);
        row.hold_seconds = self.hold_seconds.unwrap_or(row.hold_seconds);
        check_numbers(&mut complaints, row.units, row.limit_per_buyer, row.hold_seconds);
        if let Some(opens_at) = &self.opens_at {
            row.opens_at = read_time(&mut complaints, "opens_at", opens_at.as_deref());
        }
        if let Some(closes_at) = &self.closes_at {
            row.closes_at = read_time(&mut complaints, "closes_at", closes_at.as_deref());
        }
        check_window(&mut complaints, row.opens_at, row.closes_at);
        if let Some(gate) = &self.gate {
            row.gate = gate.check(&mut complaints);
        }
        complaints.check()?;
        Ok(row)
    }
}

fn respond(status: StatusCode, row: &SaleRow, item: &Item, now: Timestamp) -> Response {
    let facts = SaleFacts { row, item, status: None, state: SaleState::Draft, draw: None, waitlist: None };
    let body = sale_body(&JsonScribe.sale(facts), now);
    (status, [(CONTENT_TYPE, APPLICATION_JSON)], body).into_response()
}

/// Draft a sale
#[utoipa::path(post, path = "/api/v1/admin/sales", tag = "admin", request_body = SaleRequest,
    security(("bearer" = []), ("session" = [])), responses((status = 201, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, Json<SaleRequest>)))))]
pub(crate) async fn create_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    Json(request): Json<SaleRequest>,
) -> Result<Response, Problem> {
    let item_id: ItemId = request.item_id.parse().map_err(|_| no_item())?;
    let now = shop.now();
    let id = SaleId::from_random(getrandom::u64().map_err(|_| Code::Internal)?);
    let row = request.check(id, item_id, now)?;
    let item = shop.records.item(item_id).await?.ok_or_else(no_item)?;
    shop.records.create_sale(&row).await?;
    Ok(respond(StatusCode::CREATED, &row, &item, now))
}

/// Change a draft
///
/// Fields that are left out stay as they are, even if somebody else changes them at the same time. Once a
/// sale is published, its terms are fixed.
#[utoipa::path(patch, path = "/api/v1/admin/sales/{id}", tag = "admin", params(("id" = String, Path)),
    request_body = SaleChange, security(("bearer" = []), ("session" = [])),
    responses((status = 200, body = SaleView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<SaleId>, Json<SaleChange>; AlreadyPublished)))))]
pub(crate) async fn change_sale(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<SaleId>,
    Json(change): Json<SaleChange>,
) -> Result<Response, Problem> {
    // An older version published sales without fixing their terms first, and this one may not be settled yet.
    if shop.storefront.shelf(id).is_some_and(|shelf| shelf.status().is_some()) {
        return Err(Code::AlreadyPublished.into());
    }
    let item_id = match &change.item_id {
        None => None,
        Some(item_id) => Some(known_item(&shop, item_id).await?),
    };
    let changed = shop.records.change_draft(id, |draft| {
        change.apply(SaleRow { item_id: item_id.unwrap_or(draft.item_id), ..draft })
    });
    let row = changed.await.map_err(|error| match error {
        ChangeDraftError::Unknown => Code::SaleNotFound.into(),
        ChangeDraftError::Fixed => Code::AlreadyPublished.into(),
        ChangeDraftError::Refused(problem) => problem,
        ChangeDraftError::Records(error) => error.into(),
    })?;
    let item = shop.records.item(row.item_id).await?.ok_or(Code::Internal)?;
    Ok(respond(StatusCode::OK, &row, &item, shop.now()))
}
