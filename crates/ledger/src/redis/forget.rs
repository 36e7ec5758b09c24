//! Forgetting: a sale that was closed long ago and is settled leaves Redis, to free its memory. Later
//! questions about it are answered from the records.

use std::{sync::Arc, time::Duration};

use penstock_domain::{SaleId, Timestamp};
use penstock_redis_client::Script;
use redis::Value;

use super::{
    adopt::Settled,
    decide::Decider,
    layout::{SALE_FIELDS, SaleHash},
    store::Store,
};
use crate::Unavailable;

/// How many times within that period all closed sales are checked, within the bounds below.
const LOOKS_IN_THAT_TIME: u32 = 60;
const MIN_INTERVAL: Duration = Duration::from_secs(1);
const MAX_INTERVAL: Duration = Duration::from_secs(60);

pub(crate) struct Forgetting {
    pub(crate) store: Store,
    pub(crate) settled: Arc<dyn Settled>,
    pub(crate) decider: Arc<Decider>,
    pub(crate) after_seconds: u32,
}

impl Forgetting {
    /// Forgets what can be forgotten, again and again, while the runtime lives.
    pub(crate) async fn run(self) {
        let script = Script::new(include_str!("scripts/forget.lua"));
        self.store.link.learn(&script);
        let interval = Duration::from_secs(self.after_seconds.into()) / LOOKS_IN_THAT_TIME;
        loop {
            tokio::time::sleep(interval.clamp(MIN_INTERVAL, MAX_INTERVAL)).await;
            let Some(now) = self.decider.redis_time() else { continue };
            for sale in self.store.sales.over(now) {
                if let Err(error) = self.forget(&script, sale, now).await {
                    tracing::debug!(%sale, %error, "a closed sale can't be forgotten yet");
                }
            }
        }
    }

    async fn forget(&self, script: &Script, sale: SaleId, now: Timestamp) -> Result<(), Unavailable> {
        let key = self.store.keys.sale(sale);
        let mut read = redis::cmd("HMGET");
        read.arg(&key).arg(&SALE_FIELDS);
        let fields: Vec<Value> = self.store.link.call(&key, read).await?;
        let Some(stored) = SaleHash::read(sale, &fields)? else { return Ok(()) };
        if stored.known.forgotten {
            return self.unlist(sale).await;
        }
        let closed_at = stored.closed_at.or(stored.known.status.terms.closes_at);
        if closed_at.is_none_or(|closed_at| closed_at.plus_seconds(self.after_seconds) > now) {
            return Ok(());
        }
        // Decisions that were put aside are not in the records. Their orders would be lost, so such a sale
        // stays.
        let Some(settled) = self.settled.complete_up_to(sale).await? else { return Ok(()) };
        let (mut call, keys) = (script.call(), self.store.keys.of_adopt(sale));
        call.arg(keys.len()).arg(&keys).arg(settled.position).arg(&settled.mark.0);
        call.arg(i64::from(self.after_seconds) * 1000).arg("");
        if self.store.link.call::<u32>(&key, call).await? == 1 {
            tracing::info!(%sale, "a closed sale is settled and leaves Redis");
        }
        Ok(())
    }

    /// Takes the sale off the list of all sales. By now all nodes have heard that it is forgotten.
    async fn unlist(&self, sale: SaleId) -> Result<(), Unavailable> {
        let mut remove = redis::cmd("SREM");
        remove.arg(self.store.keys.sales()).arg(sale.to_string());
        self.store.link.call::<u32>(&self.store.keys.sales(), remove).await?;
        self.store.sales.forget(sale);
        Ok(())
    }
}
