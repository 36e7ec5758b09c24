//! Creating and changing items.

use std::sync::Arc;

use axum::extract::State;
use hyper::StatusCode;
use penstock_domain::{ItemId, Money};
use penstock_records::Item;
use penstock_shop::{Code, Shop, complaints::Complaints, housekeeping::following, ports::Change};
use serde::{Deserialize, Deserializer};
use utoipa::ToSchema;

use crate::{
    api::caller::Admin,
    contract::{
        json::{Json, PathId},
        problem::Problem,
        refusals::refusals,
        wire::{ItemView, MoneyView},
    },
};

const MAX_TITLE_CHARACTERS: usize = 200;
const MAX_DESCRIPTION_CHARACTERS: usize = 10_000;
const MAX_PICTURE_BYTES: usize = 2_000;

#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemRequest {
    #[schema(min_length = 1, max_length = 200)]
    title: String,
    #[serde(default)]
    #[schema(max_length = 10_000)]
    description: String,
    /// The path of a picture on this server, for example an uploaded one, or an https address elsewhere, from
    /// which browsers fetch it.
    picture: Option<String>,
    regular_price: MoneyView,
}

/// Fields that are left out stay as they are.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ItemChange {
    #[schema(min_length = 1, max_length = 200)]
    title: Option<String>,
    #[schema(max_length = 10_000)]
    description: Option<String>,
    /// `null` removes the picture.
    #[serde(default, deserialize_with = "present")]
    #[schema(value_type = Option<String>)]
    picture: Option<Option<String>>,
    regular_price: Option<MoneyView>,
}

/// Tells a field that is null from one that is missing.
pub(crate) fn present<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Option<String>>, D::Error> {
    Option::deserialize(deserializer).map(Some)
}

pub(crate) fn parse_money(
    complaints: &mut Complaints,
    field: &'static str,
    money: &MoneyView,
) -> Option<Money> {
    complaints.take(field, Money::parse(&money.amount, &money.currency))
}

fn check_item(complaints: &mut Complaints, title: &str, description: &str, picture: Option<&str>) {
    let title_is_fine = (1..=MAX_TITLE_CHARACTERS).contains(&title.trim().chars().count());
    complaints.require(title_is_fine, "title", format!("has to have 1 to {MAX_TITLE_CHARACTERS} characters"));
    complaints.require(
        description.chars().count() <= MAX_DESCRIPTION_CHARACTERS,
        "description",
        format!("has to have at most {MAX_DESCRIPTION_CHARACTERS} characters"),
    );
    // Pages put it into an image element, and their policy allows nothing else. Something that begins with
    // two slashes is not a path: a browser takes the word after them for a host.
    let is_path =
        |picture: &str| picture.strip_prefix('/').is_some_and(|rest| !rest.starts_with(['/', '\\']));
    let is_address = |picture: &str| {
        picture.len() <= MAX_PICTURE_BYTES
            && (is_path(picture) || picture.starts_with("https://"))
            && !picture.chars().any(|character| character.is_control() || character.is_whitespace())
    };
    complaints.require(
        picture.is_none_or(is_address),
        "picture",
        "has to be a path on this server that begins with /, or an address that begins with https://; \
         browsers show no picture from http://",
    );
}

/// Create an item
#[utoipa::path(post, path = "/api/v1/admin/items", tag = "admin", request_body = ItemRequest,
    security(("bearer" = []), ("session" = [])), responses((status = 201, body = ItemView)),
    extensions(("x-refusals" = json!(refusals!(Admin, Json<ItemRequest>)))))]
pub(crate) async fn create_item(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    Json(request): Json<ItemRequest>,
) -> Result<(StatusCode, axum::Json<ItemView>), Problem> {
    let mut complaints = Complaints::default();
    check_item(&mut complaints, &request.title, &request.description, request.picture.as_deref());
    let regular_price = parse_money(&mut complaints, "regular_price", &request.regular_price);
    complaints.check()?;
    let item = Item {
        id: ItemId::from_random(getrandom::u64().map_err(|_| Code::Internal)?),
        title: request.title.trim().to_owned(),
        description: request.description,
        picture: request.picture,
        regular_price: regular_price.ok_or(Code::Internal)?,
        created_at: shop.now(),
    };
    shop.records.create_item(&item).await?;
    shop.catalogue.item_made(item.id).await;
    shop.options.neighbours.tell(Change::NewItem(item.id)).await;
    Ok((StatusCode::CREATED, axum::Json(ItemView::from(&item))))
}

/// Change an item
///
/// Sales of the item show the change at once; their prices don't change.
#[utoipa::path(patch, path = "/api/v1/admin/items/{id}", tag = "admin", params(("id" = String, Path)),
    request_body = ItemChange, security(("bearer" = []), ("session" = [])),
    responses((status = 200, body = ItemView)),
    extensions(("x-refusals" = json!(refusals!(Admin, PathId<ItemId>, Json<ItemChange>)))))]
pub(crate) async fn change_item(
    State(shop): State<Arc<Shop>>,
    _admin: Admin,
    PathId(id): PathId<ItemId>,
    Json(change): Json<ItemChange>,
) -> Result<axum::Json<ItemView>, Problem> {
    // From the records, because the change applies to the stored item.
    let mut item = shop.records.item(id).await?.ok_or(Code::ItemNotFound)?;
    let mut complaints = Complaints::default();
    item.title = change.title.map_or(item.title, |title| title.trim().to_owned());
    item.description = change.description.unwrap_or(item.description);
    // A picture that was accepted earlier must not keep the title from being changed.
    let new_picture = change.picture.as_ref().and_then(Option::as_deref);
    let new_picture = new_picture.filter(|picture| item.picture.as_deref() != Some(picture));
    check_item(&mut complaints, &item.title, &item.description, new_picture);
    item.picture = change.picture.unwrap_or(item.picture);
    if let Some(price) = &change.regular_price {
        item.regular_price =
            parse_money(&mut complaints, "regular_price", price).unwrap_or(item.regular_price);
    }
    complaints.check()?;
    if !shop.records.update_item(&item).await? {
        return Err(Code::ItemNotFound.into());
    }
    if following::refresh_item(&shop, id).await.is_err() {
        // It is stored, but can't be read again. What was written is just as good, unless somebody else
        // writes too.
        shop.storefront.item_changed(&item);
    }
    shop.options.neighbours.tell(Change::Item(id)).await;
    Ok(axum::Json(ItemView::from(&item)))
}
