//! Items as buyers see them.

use std::sync::Arc;

use axum::{Json, extract::State};
use penstock_domain::ItemId;

use crate::{
    app::App,
    json::{PageQuery, PathId, Query},
    page::{ItemPage, Page},
    problem::{Code, Problem},
    wire::ItemView,
};

/// All items
///
/// Newest first.
#[utoipa::path(get, path = "/api/v1/items", tag = "items", params(PageQuery),
    responses((status = 200, body = ItemPage)))]
pub(crate) async fn list_items(
    State(app): State<Arc<App>>,
    Query(page): Query<PageQuery>,
) -> Result<Json<Page<ItemView>>, Problem> {
    let limit = page.limit()?;
    let items = app.catalogue.items(page.after()?, limit + 1).await?;
    let has_more = items.len() > limit as usize;
    let data: Vec<ItemView> = items.iter().take(limit as usize).map(ItemView::from).collect();
    let next = items.iter().take(limit as usize).next_back().filter(|_| has_more);
    Ok(Json(Page { data, next: next.map(|item| item.id.to_string()) }))
}

/// An item
#[utoipa::path(get, path = "/api/v1/items/{id}", tag = "items", params(("id" = String, Path)),
    responses((status = 200, body = ItemView)))]
pub(crate) async fn get_item(
    State(app): State<Arc<App>>,
    PathId(id): PathId<ItemId>,
) -> Result<Json<ItemView>, Problem> {
    let item = app.catalogue.item(id).await?.ok_or(Code::ItemNotFound)?;
    Ok(Json(ItemView::from(&*item)))
}
