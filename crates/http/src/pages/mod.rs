//! Everything that people look at in a browser: the pages of the shop and the console, of the error codes and of the
//! API's documentation.

mod docs;
mod encoding;
mod error_pages;
mod files;
mod policy;
mod site;

use std::sync::Arc;

use axum::{Router, routing::get};
use penstock_shop::Shop;

use self::{files::Pages, site::Site};
use crate::options::PageFile;

/// The pages, and the answer for paths that nothing else has.
pub(crate) fn router(shop: Arc<Shop>, files: &'static [PageFile]) -> Router {
    Router::new()
        .route("/docs", get(docs::docs))
        .route("/docs/", get(docs::docs))
        .route("/docs/{*file}", get(docs::docs_file))
        .route("/errors/", get(error_pages::index))
        .route("/errors/style.css", get(error_pages::style))
        .route("/errors/{code}", get(error_pages::of_code))
        .merge(for_people())
        .fallback(site::other)
        .with_state(Site { shop, pages: Arc::new(Pages::new(files)) })
}

/// The paths of the pages of the shop and the console. The pages' own router has the same.
fn for_people() -> Router<Site> {
    let shop = ["/", "/orders", "/orders/{id}", "/sign-in", "/sign-up", "/account"];
    let sale = Router::new().route("/sales/{id}", get(site::sale)).route("/sales/{id}/", get(site::sale));
    let shop = shop.into_iter().fold(sale, |router, path| {
        let with_slash = format!("{}/", path.trim_end_matches('/'));
        let router = router.route(&with_slash, get(site::shop));
        if path == with_slash { router } else { router.route(path, get(site::shop)) }
    });
    ["/console", "/console/", "/console/{*rest}"]
        .into_iter()
        .fold(shop, |router, path| router.route(path, get(site::console)))
}
