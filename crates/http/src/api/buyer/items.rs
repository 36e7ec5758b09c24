//! Items as buyers see them.

use std::sync::Arc;

use axum::{Json, extract::State, response::Response};
use penstock_domain::ItemId;
use penstock_shop::{Code, Shop};

use crate::contract::{
    json::{PageQuery, PathId, Query},
    page::{self, ItemPage},
    problem::Problem,
    refusals::refusals,
    wire::ItemView,
};

/// List all items
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/items", tag = "items", params(PageQuery),
    responses((status = 200, body = ItemPage)),
    extensions(("x-refusals" = json!(refusals!(Query<PageQuery>)))))]
pub(crate) async fn list_items(
    State(shop): State<Arc<Shop>>,
    Query(page): Query<PageQuery>,
) -> Result<Response, Problem> {
    let limit = page.limit()?;
    let items = shop.catalogue.items(page.after()?, limit + 1).await?;
    let shown = items.len().min(limit as usize);
    let next = items[..shown].last().filter(|_| items.len() > shown).map(|item| item.id.to_string());
    let entries = (0..shown).map(move |place| {
        let items = Arc::clone(&items);
        // Writing JSON into memory does not fail.
        move |body: &mut Vec<u8>| drop(serde_json::to_writer(body, &ItemView::from(&*items[place])))
    });
    Ok(page::streamed(entries, next))
}

/// Get an item
#[utoipa::path(get, path = "/api/v1/items/{id}", tag = "items", params(("id" = String, Path)),
    responses((status = 200, body = ItemView)),
    extensions(("x-refusals" = json!(refusals!(PathId<ItemId>)))))]
pub(crate) async fn get_item(
    State(shop): State<Arc<Shop>>,
    PathId(id): PathId<ItemId>,
) -> Result<Json<ItemView>, Problem> {
    let item = shop.catalogue.item_for_anybody(id).await?.ok_or(Code::ItemNotFound)?;
    Ok(Json(ItemView::from(&*item)))
}
