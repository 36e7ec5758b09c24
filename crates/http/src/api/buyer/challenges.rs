//! Challenges: a little work or a picture before a pass. Giving one out costs next to nothing, and the server
//! need not remember it.

use std::sync::Arc;

use axum::extract::State;
use base64::{Engine as _, engine::general_purpose::STANDARD};
use hyper::StatusCode;
use penstock_domain::{BuyerId, ChallengeKind, SaleId, SaleState, Timestamp};
use penstock_gate::Picture;
use penstock_shop::{Code, Shop};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::{
    api::visit::Visit,
    contract::{
        json::OptionalJson, problem::Problem, refusals::refusals, wire::Rfc3339, words::ChallengeKindWord,
    },
};

const ALGORITHM: &str = "sha256";

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct ChallengeRequest {
    /// `pow` to get a proof of work where the sale has a captcha, for people who can't see pictures.
    #[schema(value_type = Option<ChallengeKindWord>)]
    kind: Option<String>,
}

/// A challenge to solve. The answer goes into `POST …/pass`.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Challenge)]
pub(crate) struct ChallengeView {
    id: String,
    #[schema(value_type = ChallengeKindWord)]
    kind: &'static str,
    /// Only for a proof of work; `sha256`: find an answer of at most 64 bytes such that the SHA-256 of
    /// `salt`, followed by the answer, begins with `difficulty` zero bits.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>, example = "sha256")]
    algorithm: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    salt: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    difficulty: Option<u8>,
    /// Only for a captcha: a PNG as a data URL, with five characters to read, in upper or lower case.
    #[serde(skip_serializing_if = "Option::is_none")]
    image: Option<String>,
    #[schema(value_type = String, format = DateTime)]
    expires_at: Rfc3339,
}

/// Get a challenge
///
/// It is good for one try, by this buyer, in this sale, until it expires. If the sale has a captcha but
/// pictures are requested faster than they can be drawn, you get a proof of work: go by the `kind` of the
/// answer.
#[utoipa::path(post, path = "/api/v1/sales/{id}/challenge", tag = "gate", params(("id" = String, Path)),
    request_body = Option<ChallengeRequest>, security(("bearer" = []), ("session" = [])),
    responses((status = 201, body = ChallengeView)),
    extensions(("x-refusals" = json!(refusals!(Visit, OptionalJson<ChallengeRequest>; NotGated, SoldOut, Closed)))))]
pub(crate) async fn create_challenge(
    State(shop): State<Arc<Shop>>,
    Visit { now, buyer, shelf, status }: Visit,
    OptionalJson(request): OptionalJson<ChallengeRequest>,
) -> Result<(StatusCode, axum::Json<ChallengeView>), Problem> {
    let sale = shelf.id;
    let terms = shelf.details().ok_or(Code::Unavailable)?.row.gate;
    match status.state(now) {
        SaleState::SoldOut => return Err(Code::SoldOut.into()),
        SaleState::Closed => return Err(Code::Closed.into()),
        _ => {}
    }
    let wants_pow = match request.kind.as_deref() {
        None => false,
        Some("pow") => true,
        Some("captcha") if terms.challenge == ChallengeKind::Captcha => false,
        Some(_) => return Err(Problem::invalid_field("kind", "has to be pow, or be left out")),
    };
    let view = match terms.challenge {
        ChallengeKind::None => {
            return Err(Problem::with_detail(Code::NotGated, "The sale has no challenge."));
        }
        ChallengeKind::Pow => proof_of_work(&shop, sale, &buyer, false, now)?,
        ChallengeKind::Captcha if wants_pow => proof_of_work(&shop, sale, &buyer, true, now)?,
        ChallengeKind::Captcha => match shop.gate.pictures.take(random()?, now) {
            Some(picture) => captcha(&shop, sale, &buyer, &picture, now)?,
            // Anybody can get a proof of work anyway. So using up the pictures gains an attacker nothing and
            // keeps nobody out.
            None => proof_of_work(&shop, sale, &buyer, true, now)?,
        },
    };
    Ok((StatusCode::CREATED, axum::Json(view)))
}

fn random() -> Result<u64, Problem> {
    getrandom::u64().map_err(|_| Code::Internal.into())
}

fn proof_of_work(
    shop: &Shop,
    sale: SaleId,
    buyer: &BuyerId,
    harder: bool,
    now: Timestamp,
) -> Result<ChallengeView, Problem> {
    let challenge =
        shop.gate.challenges.proof_of_work(&shop.gate.keys.load(), sale, buyer, harder, random()?, now);
    Ok(ChallengeView {
        id: challenge.id,
        kind: ChallengeKind::Pow.as_str(),
        algorithm: Some(ALGORITHM),
        salt: Some(challenge.salt),
        difficulty: Some(challenge.difficulty),
        image: None,
        expires_at: Rfc3339(challenge.expires_at),
    })
}

fn captcha(
    shop: &Shop,
    sale: SaleId,
    buyer: &BuyerId,
    picture: &Picture,
    now: Timestamp,
) -> Result<ChallengeView, Problem> {
    let keys = shop.gate.keys.load();
    let challenge = shop.gate.challenges.captcha(&keys, sale, buyer, &picture.answer, random()?, now);
    Ok(ChallengeView {
        id: challenge.id,
        kind: ChallengeKind::Captcha.as_str(),
        algorithm: None,
        salt: None,
        difficulty: None,
        image: Some(format!("data:image/png;base64,{}", STANDARD.encode(&picture.png))),
        expires_at: Rfc3339(challenge.expires_at),
    })
}
