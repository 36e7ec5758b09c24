//! Maps calls to handlers.

use std::sync::Arc;

use axum::{Router, routing::get};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    accounts, admin_audit, admin_dead_letters, admin_drafts, admin_items, admin_orders, admin_sales,
    app::App, challenges, countries, docs, error_pages, health, items, live, me, metrics, openapi, orders,
    otp, pages, passes, pictures, sales, sessions, tickets, time, waitlist,
};

/// All calls of the API contract, with their documentation.
pub(crate) fn documented() -> OpenApiRouter<Arc<App>> {
    OpenApiRouter::with_openapi(openapi::skeleton())
        .routes(routes!(countries::list_countries))
        .routes(routes!(otp::request_otp))
        .routes(routes!(accounts::create_account))
        .routes(routes!(sessions::create_session))
        .routes(routes!(sessions::delete_session))
        .routes(routes!(me::get_me))
        .routes(routes!(me::change_password))
        .routes(routes!(items::list_items))
        .routes(routes!(items::get_item))
        .routes(routes!(time::get_time))
        .routes(routes!(sales::list_sales))
        .routes(routes!(sales::get_sale))
        .routes(routes!(challenges::create_challenge))
        .routes(routes!(tickets::create_ticket))
        .routes(routes!(tickets::get_ticket))
        .routes(routes!(tickets::watch_ticket))
        .routes(routes!(passes::create_pass))
        .routes(routes!(orders::place_order))
        .routes(routes!(orders::list_orders))
        .routes(routes!(orders::get_order))
        .routes(routes!(orders::pay_order))
        .routes(routes!(orders::cancel_order))
        .routes(routes!(waitlist::join_waitlist, waitlist::get_waitlist_place, waitlist::leave_waitlist))
        .routes(routes!(admin_items::create_item))
        .routes(routes!(admin_items::change_item))
        .routes(routes!(pictures::create_picture))
        .routes(routes!(pictures::get_picture))
        .routes(routes!(admin_sales::list_all_sales, admin_drafts::create_sale))
        .routes(routes!(admin_sales::get_any_sale, admin_drafts::change_sale))
        .routes(routes!(admin_sales::publish_sale))
        .routes(routes!(admin_sales::pause_sale))
        .routes(routes!(admin_sales::resume_sale))
        .routes(routes!(admin_sales::close_sale))
        .routes(routes!(admin_sales::restock_sale))
        .routes(routes!(admin_sales::sale_stats))
        .routes(routes!(admin_orders::list_all_orders))
        .routes(routes!(admin_orders::export_orders))
        .routes(routes!(admin_dead_letters::list_dead_letters))
        .routes(routes!(admin_dead_letters::retry_dead_letter))
        .routes(routes!(admin_audit::audit))
        .routes(routes!(live::watch_shop))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
}

pub(crate) fn router(app: Arc<App>) -> Router {
    let (calls, _) = documented().split_for_parts();
    calls
        .route("/openapi.json", get(openapi::serve))
        .route("/docs", get(docs::docs))
        .route("/docs/", get(docs::docs))
        .route("/docs/{*file}", get(docs::docs_file))
        .route("/errors/", get(error_pages::index))
        .route("/errors/style.css", get(error_pages::style))
        .route("/errors/{code}", get(error_pages::of_code))
        .merge(for_people())
        .fallback(pages::other)
        .with_state(app)
}

/// The paths of the pages of the shop and the console. The pages' own router has the same.
fn for_people() -> Router<Arc<App>> {
    let shop = ["/", "/orders", "/orders/{id}", "/sign-in", "/sign-up", "/account"];
    let sale = Router::new().route("/sales/{id}", get(pages::sale)).route("/sales/{id}/", get(pages::sale));
    let shop = shop.into_iter().fold(sale, |router, path| {
        let with_slash = format!("{}/", path.trim_end_matches('/'));
        let router = router.route(&with_slash, get(pages::shop));
        if path == with_slash { router } else { router.route(path, get(pages::shop)) }
    });
    ["/console", "/console/", "/console/{*rest}"]
        .into_iter()
        .fold(shop, |router, path| router.route(path, get(pages::console)))
}
