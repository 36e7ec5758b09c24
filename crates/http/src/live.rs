//! The live view: shows the people who run a sale once a second what is happening in the shop.

mod figures;
mod sample;
mod sums;
mod view;

use std::{
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use axum::{
    extract::State,
    response::{
        IntoResponse as _, Response,
        sse::{Event, KeepAlive, Sse},
    },
};
use futures_util::stream::{self, Stream};
use hyper::{
    HeaderMap, Method,
    header::{CACHE_CONTROL, HeaderValue},
};
use penstock_domain::SaleId;
use serde::Deserialize;
use tokio::{
    sync::{Notify, OwnedSemaphorePermit, Semaphore, watch},
    time::timeout,
};
use utoipa::IntoParams;

use self::{sample::Sample, view::LiveSale};
pub(crate) use self::{sample::run, view::LiveFigures};
use crate::{
    app::{Admin, App},
    gate::Reason,
    json::Query,
    problem::{Code, Problem},
    sales,
    tickets::{HEARTBEAT, X_ACCEL_BUFFERING},
};

/// Each stream computes sums every second, so there can't be many.
const MAX_STREAMS: usize = 32;
const MAX_LISTED_SALES: usize = 50;
/// A person who loses the admin role or signs out sees nothing more after this time.
const LOOK_AGAIN_AFTER: Duration = Duration::from_secs(5);
const LOOK_PATIENCE: Duration = Duration::from_millis(700);

/// The state that all watchers share.
#[derive(Debug)]
pub(crate) struct Live {
    samples: watch::Sender<Arc<Sample>>,
    /// Notified when somebody begins to watch.
    wanted: Notify,
    streams: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            samples: watch::Sender::default(),
            wanted: Notify::new(),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
        }
    }
}

impl Live {
    fn is_watched(&self) -> bool {
        self.streams.available_permits() < MAX_STREAMS
    }
}

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
    responses((status = 200, content_type = "text/event-stream", body = LiveFigures)))]
pub(crate) async fn watch_shop(
    State(app): State<Arc<App>>,
    _admin: Admin,
    Query(LiveQuery { sale }): Query<LiveQuery>,
    headers: HeaderMap,
) -> Result<Response, Problem> {
    let sale = match sale {
        Some(sale) => Some(known_sale(&app, &sale).await?),
        None => None,
    };
    let permit = Arc::clone(&app.live.streams).try_acquire_owned();
    let permit = permit.map_err(|_| app.gate.turned_away.because(Reason::Watchers))?;
    let mut samples = app.live.samples.subscribe();
    samples.mark_unchanged();
    app.live.wanted.notify_one();
    // A stream that is silent for too long would look idle, to us or to a proxy.
    let heartbeat = HEARTBEAT.min(app.options.idle_timeout / 3);
    let watcher = Watcher {
        stopping: app.stopping.clone(),
        app,
        sale,
        samples,
        headers,
        admitted: Instant::now(),
        told: None,
        _permit: permit,
    };
    let events = Sse::new(events(watcher)).keep_alive(KeepAlive::new().interval(heartbeat));
    let headers = [
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    Ok((headers, events).into_response())
}

/// A sale that has figures to show.
async fn known_sale(app: &App, sale: &str) -> Result<SaleId, Problem> {
    let id: SaleId = sale.parse().map_err(|_| Code::SaleNotFound)?;
    if app.storefront.shelf(id).is_none_or(|shelf| shelf.status().is_none()) {
        return Err(sales::uncounted(app, id).await);
    }
    Ok(id)
}

struct Watcher {
    app: Arc<App>,
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

/// Ends when the server stops. A browser then reconnects by itself, to any node that serves.
fn events(watcher: Watcher) -> impl Stream<Item = Result<Event, Infallible>> + Send + 'static {
    stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok(event), watcher))
    })
}

impl Watcher {
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
        let caller = self.app.identity.caller(&Method::GET, &self.headers, self.app.now())?;
        Admin::verify(&caller, &self.app).await.map(drop)
    }

    fn view(&self, sample: &Sample) -> LiveFigures {
        let now = self.app.now();
        let asked = self.sale.as_ref().map_or(sample.listed.as_slice(), std::slice::from_ref);
        let shelves = asked.iter().filter_map(|sale| self.app.storefront.shelf(*sale));
        let sales = shelves.filter_map(|shelf| LiveSale::new(&shelf, sample, now));
        LiveFigures::new(sample, sales.collect(), now)
    }
}
