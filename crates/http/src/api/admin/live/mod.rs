//! The live view: shows the people who run a sale once a second what is happening in the shop.

mod view;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::State,
    response::{Response, sse::Event},
};
use hyper::HeaderMap;
use penstock_domain::SaleId;
use penstock_shop::{
    Code, Shop,
    gate::{Reason, TurnedAway},
    live::Sample,
};
use serde::Deserialize;
use tokio::{
    sync::{OwnedSemaphorePermit, watch},
    time::timeout,
};
use utoipa::IntoParams;

use self::view::{LiveFigures, LiveSale};
use crate::{
    api::{
        Api,
        buyer::sales,
        caller::{Admin, Credentials},
        streams::{self, Watch},
    },
    contract::{json::Query, problem::Problem, refusals::refusals},
};

/// A person who loses the admin role or signs out sees nothing more after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);
const LOOK_PATIENCE: Duration = Duration::from_millis(700);

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct LiveQuery {
    /// Only this sale.
    sale: Option<String>,
}

/// Watch the shop live
///
/// Server-sent events named `figures`: one at once, and then one each second.
#[utoipa::path(get, path = "/api/v1/admin/live", tag = "admin", params(LiveQuery),
    security(("bearer" = []), ("session" = [])),
    responses((status = 200, content_type = "text/event-stream", body = LiveFigures)),
    extensions(("x-refusals" = json!(refusals!(Admin, Query<LiveQuery>, TurnedAway; SaleNotFound, NotPublished)))))]
pub(crate) async fn watch_shop(
    State(api): State<Api>,
    _admin: Admin,
    Query(LiveQuery { sale }): Query<LiveQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let shop = Arc::clone(&api.shop);
    let sale = match sale {
        Some(sale) => Some(known_sale(&shop, &sale).await?),
        None => None,
    };
    let watching = api.live.watch();
    let (samples, permit) = watching.ok_or_else(|| shop.gate.turned_away.because(Reason::Watchers))?;
    let watcher = Watcher {
        stopping: api.stopping.clone(),
        shop,
        sale,
        samples,
        headers,
        admitted: Instant::now(),
        told: None,
        _permit: permit,
    };
    Ok(streams::respond(&api, watcher))
}

/// A sale that has figures to show.
async fn known_sale(shop: &Shop, sale: &str) -> Result<SaleId, Problem> {
    let id: SaleId = sale.parse().map_err(|_| Code::SaleNotFound)?;
    if shop.storefront.shelf(id).is_none_or(|shelf| shelf.status().is_none()) {
        return Err(sales::uncounted(shop, id).await);
    }
    Ok(id)
}

struct Watcher {
    shop: Arc<Shop>,
    sale: Option<SaleId>,
    samples: watch::Receiver<Arc<Sample>>,
    stopping: watch::Receiver<bool>,
    /// The caller's headers, to check again whether they may still see it.
    headers: HeaderMap,
    /// When that was last checked.
    admitted: Instant,
    /// The number of the last sample that was sent.
    told: Option<u64>,
    _permit: OwnedSemaphorePermit,
}

impl Watch for Watcher {
    async fn next(&mut self) -> Option<Event> {
        let sample = self.next_sample().await?;
        if self.admitted.elapsed() > LOOK_AGAIN_AFTER {
            self.admitted = Instant::now();
            // While the records are slow, an admitted person stays admitted: the view must not stop when it
            // is needed most.
            if let Ok(looked) = timeout(LOOK_PATIENCE, self.look_again()).await {
                looked.ok()?;
            }
        }
        Event::default().event("figures").json_data(self.view(&sample)).ok()
    }
}

impl Watcher {
    async fn next_sample(&mut self) -> Option<Arc<Sample>> {
        loop {
            tokio::select! {
                _ = self.stopping.wait_for(|stopping| *stopping) => return None,
                changed = self.samples.changed() => changed.ok()?,
            }
            let sample = Arc::clone(&self.samples.borrow_and_update());
            // A sample that was under way when this stream began lacks the other nodes. A sample whose number
            // was already sent is there only because somebody else has begun to watch.
            if sample.is_whole && self.told != Some(sample.number) {
                self.told = Some(sample.number);
                return Some(sample);
            }
        }
    }

    async fn look_again(&self) -> Result<(), Problem> {
        let caller = Credentials::read(&self.headers).caller(&self.shop, false, self.shop.now())?;
        Admin::verify(&caller, &self.shop).await.map(drop)
    }

    fn view(&self, sample: &Sample) -> LiveFigures {
        let now = self.shop.now();
        let asked = self.sale.as_ref().map_or(sample.listed.as_slice(), std::slice::from_ref);
        let shelves = asked.iter().filter_map(|sale| self.shop.storefront.shelf(*sale));
        let sales = shelves.filter_map(|shelf| LiveSale::new(&shelf, sample, now));
        LiveFigures::new(sample, sales.collect(), now)
    }
}
