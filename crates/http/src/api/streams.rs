//! Streams of server-sent events.

use std::{convert::Infallible, time::Duration};

use axum::response::{
    IntoResponse as _, Response,
    sse::{Event, KeepAlive, Sse},
};
use futures_util::stream;
use hyper::header::{CACHE_CONTROL, HeaderName, HeaderValue};

use super::Api;

/// Keeps proxies from taking a quiet stream for a dead one.
const HEARTBEAT: Duration = Duration::from_secs(15);
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Somebody who watches, and what they have been told.
pub(crate) trait Watch: Send + 'static {
    /// The next event. None at the end of the stream: a browser then reconnects by itself, to any node that
    /// serves.
    fn next(&mut self) -> impl Future<Output = Option<Event>> + Send;
}

pub(crate) fn respond(api: &Api, watcher: impl Watch) -> Response {
    let events = stream::unfold(watcher, |mut watcher| async move {
        let event = watcher.next().await?;
        Some((Ok::<_, Infallible>(event), watcher))
    });
    // A stream that is silent for too long would look idle, to us or to a proxy.
    let heartbeat = HEARTBEAT.min(api.options.idle_timeout / 3);
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(heartbeat));
    // Proxies that buffer would hold the events back.
    let headers = [
        (CACHE_CONTROL, HeaderValue::from_static("no-store")),
        (X_ACCEL_BUFFERING, HeaderValue::from_static("no")),
    ];
    (headers, events).into_response()
}
