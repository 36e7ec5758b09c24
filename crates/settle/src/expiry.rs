//! The timers: expired holds go back on sale, and rows that expired long ago are deleted from the records.

use std::time::Duration;

use penstock_ledger::LedgerError;
use tokio::sync::watch;

use crate::{Settlement, pause};

const TIDY_EVERY: Duration = Duration::from_secs(3600);
/// Codes and revoked sessions are kept this long after their end, because a code's row also counts how many
/// were sent.
const KEEP_EXPIRED_MILLIS: i64 = 24 * 3600 * 1000;

impl Settlement {
    pub(crate) async fn expire_until(&self, mut stop: watch::Receiver<bool>) {
        loop {
            let answer = tokio::select! {
                answer = self.ledger.expire_due(self.options.expire_batch) => answer,
                // A ledger that is still recovering answers late; a stop does not wait for it.
                _ = stop.wait_for(|stop| *stop) => return,
            };
            let released = match answer {
                Ok(released) => released,
                // The next turn tries again. The ledger itself reports its trouble.
                Err(LedgerError::Busy | LedgerError::Unavailable(_)) => 0,
                Err(LedgerError::Refused(never)) => match never {},
            };
            self.stats.count(|figures| figures.expired += u64::from(released));
            let more_are_due = released > 0 && released == self.options.expire_batch;
            let wait = if more_are_due { Duration::ZERO } else { self.options.expire_every };
            if pause(&mut stop, wait).await {
                return;
            }
        }
    }

    pub(crate) async fn tidy_until(&self, mut stop: watch::Receiver<bool>) {
        while !pause(&mut stop, TIDY_EVERY).await {
            let before = (self.clock)().plus_millis(-KEEP_EXPIRED_MILLIS);
            if let Err(error) = self.records.forget_expired(before).await {
                tracing::warn!(%error, "expired codes and sessions could not be deleted; trying again in an hour");
            }
        }
    }
}
