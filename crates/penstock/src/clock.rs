//! The only place that reads the wall clock. Everything below is told the time.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use penstock_domain::Timestamp;

#[allow(clippy::disallowed_methods, reason = "this is the clock that everything else is handed")]
pub(crate) fn now() -> Timestamp {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since_epoch.as_millis()).unwrap_or(i64::MAX))
}

/// The clock in the form in which the components take it.
pub(crate) fn system() -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
    Arc::new(now)
}

/// A moment as the API writes it.
pub(crate) fn rfc3339(moment: Timestamp) -> String {
    jiff::Timestamp::from_millisecond(moment.as_millis()).map(|moment| moment.to_string()).unwrap_or_default()
}
