//! Decisions that could not be settled: listing and retrying them.

use std::sync::Arc;

use axum::{Json, extract::State};
use penstock_domain::Event;
use penstock_records::{Cause, DeadLetter, RetryError};
use penstock_shop::{Code, Shop};
use serde::Serialize;
use utoipa::ToSchema;

use crate::{
    api::caller::Admin,
    contract::{
        json::{PageQuery, PathId, Query, Resource},
        page::Page,
        problem::Problem,
        refusals::refusals,
        wire::Rfc3339,
        words::DecisionWord,
    },
};

#[derive(Clone, Copy, Debug)]
pub(crate) struct DeadLetterId(u64);

impl std::str::FromStr for DeadLetterId {
    type Err = std::num::ParseIntError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.parse().map(Self)
    }
}

impl Resource for DeadLetterId {
    const MISSING: Code = Code::DeadLetterNotFound;
}

#[derive(Debug, Serialize, ToSchema)]
#[schema(as = DeadLetter)]
pub(crate) struct DeadLetterView {
    id: String,
    /// The decision's position in the feed.
    position: u64,
    /// What was decided.
    #[schema(value_type = DecisionWord)]
    event: &'static str,
    sale_id: String,
    order_id: Option<String>,
    cause: Cause,
    /// Why it can't be settled, in words.
    reason: String,
    tries: u32,
    #[schema(value_type = String, format = DateTime)]
    decided_at: Rfc3339,
    #[schema(value_type = String, format = DateTime)]
    created_at: Rfc3339,
    #[schema(value_type = Option<String>, format = DateTime)]
    resolved_at: Option<Rfc3339>,
}

type DeadLetterPage = Page<DeadLetterView>;

impl From<&DeadLetter> for DeadLetterView {
    fn from(letter: &DeadLetter) -> Self {
        Self {
            id: letter.id.to_string(),
            position: letter.decision.position,
            event: event_name(&letter.decision.event),
            sale_id: letter.decision.event.sale().to_string(),
            order_id: letter.order().map(|order| order.to_string()),
            cause: letter.refusal.cause,
            reason: letter.refusal.reason.clone(),
            tries: letter.tries,
            decided_at: Rfc3339(letter.decision.at),
            created_at: Rfc3339(letter.created_at),
            resolved_at: letter.resolved_at.map(Rfc3339),
        }
    }
}

fn event_name(event: &Event) -> &'static str {
    match event {
        Event::Published(_) => "published",
        Event::Restocked { .. } => "restocked",
        Event::Paused(_) => "paused",
        Event::Resumed(_) => "resumed",
        Event::Closed(_) => "closed",
        Event::Held { .. } => "held",
        Event::Paid { .. } => "paid",
        Event::Released { .. } => "released",
        Event::RefundDue { .. } => "refund_due",
        Event::Joined { .. } => "joined",
        Event::Left { .. } => "left",
    }
}

/// List decisions that could not be settled
///
/// In the order in which they should be retried.
#[utoipa::path(get, path = "/api/v1/admin/dead-letters", tag = "admin", params(PageQuery),
    security(("bearer" = []), ("session" = [])), responses((status = 200, body = DeadLetterPage)),
    extensions(("x-refusals" = json!(refusals!(Admin, Query<PageQuery>)))))]
pub(crate) async fn list_dead_letters(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<DeadLetterView>>, Problem> {
    let limit = page.limit()?;
    let after: Option<DeadLetterId> = page.after()?;
    let mut letters = shop.records.dead_letters(after.map(|after| after.0), limit + 1).await?;
    let has_more = letters.len() > limit as usize;
    letters.truncate(limit as usize);
    let next = letters.last().filter(|_| has_more).map(|letter| letter.id.to_string());
    Ok(Json(Page { data: letters.iter().map(DeadLetterView::from).collect(), next }))
}

/// Try to settle a dead letter again
#[utoipa::path(post, path = "/api/v1/admin/dead-letters/{id}/retry", tag = "admin",
    params(("id" = String, Path)), security(("bearer" = []), ("session" = [])),
    responses((status = 200, body = DeadLetterView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<DeadLetterId>, RetryError)))))]
pub(crate) async fn retry_dead_letter(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<DeadLetterId>,
) -> Result<Json<DeadLetterView>, Problem> {
    let letter = shop.records.retry_dead_letter(id.0, shop.now()).await?;
    Ok(Json(DeadLetterView::from(&letter)))
}
