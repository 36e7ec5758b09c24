//! The engine on Redis. The part that decides lives on the writer's thread, with its own connections, so that
//! a batch wakes no other thread. The stock itself is only in Redis.

use std::sync::Arc;

use parking_lot::Mutex;
use penstock_domain::{Command, Timestamp};
use tokio::time::Instant;

use super::{
    adopt::{Adoption, Settled},
    decide::{Committer, Decider},
    forget::Forgetting,
    news::{self, News},
    recovery,
    store::Store,
};
use crate::{Committed, Engine, Home, Homes, Listener, SaleNews, Unavailable};

pub(crate) struct RedisEngine {
    /// Its connections live on the caller's runtime.
    pub(crate) origin: Store,
    pub(crate) adoption: Arc<Adoption>,
    pub(crate) settled: Arc<dyn Settled>,
    pub(crate) forget_after_seconds: u32,
    /// True if the caller gives the time of a commit, as tests do. Otherwise Redis' clock is used.
    pub(crate) is_clock_given: bool,
    pub(crate) listener: Arc<dyn Listener>,
    /// Made at the first recovery, on the writer's thread.
    pub(crate) running: Option<Arc<RunningEngine>>,
}

pub(crate) struct RunningEngine {
    committer: Committer,
    news: Arc<News>,
}

impl Engine for RedisEngine {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        let running = self.running.clone();
        async move {
            let running = running.ok_or_else(|| Unavailable::new("Redis has not been reached yet"))?;
            let (replies, outcomes) = running.committer.commit(commands, now).await?;
            Ok(Committed { replies, news: running.news.decided(&outcomes) })
        }
    }

    /// Redis decides one batch while the next is on its way. A `WAIT` blocks what comes after it and may take
    /// its full time, so fewer batches are in flight then.
    fn max_in_flight(&self) -> usize {
        if self.origin.link.options().wait_replicas > 0 { 2 } else { 3 }
    }

    /// In a Cluster each master decides, and may hang, by itself.
    fn homes(&self) -> Homes {
        if !self.origin.link.is_cluster() {
            return Homes::One;
        }
        let store = self.origin.clone();
        Homes::Several(Arc::new(move |sale| Home(store.master_of(sale).unwrap_or_default())))
    }

    /// These commands reach beyond their own sales: to all sales, or to the records.
    fn goes_aside(&self, command: &Command) -> bool {
        matches!(command, Command::Publish(_) | Command::OrdersOf { .. })
    }

    /// All buyers share one question to all sales.
    fn gathers(&self, command: &Command) -> bool {
        matches!(command, Command::OrdersOf { .. })
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        let running = match &self.running {
            Some(running) => running.clone(),
            None => self.running.insert(Arc::new(self.start()?)).clone(),
        };
        let (Committer { store, decider, adoption, .. }, news) = (&running.committer, &running.news);
        let recovered = recovery::recover(store, decider, adoption, self.listener.wants_keys()).await?;
        news.recovered(&recovered);
        Ok(recovered)
    }
}

impl RedisEngine {
    fn start(&self) -> Result<RunningEngine, Unavailable> {
        let (store, adoption) = (self.origin.on_this_runtime()?, self.adoption.clone());
        let decider = Decider::new(store.clone(), adoption.clone());
        let forgetting = Forgetting {
            store: store.clone(),
            settled: self.settled.clone(),
            decider: decider.clone(),
            after_seconds: self.forget_after_seconds,
        };
        tokio::spawn(forgetting.run());
        let news = news::start(store.clone(), self.listener.clone(), adoption.clone())?;
        let (is_clock_given, ask_holders_at) = (self.is_clock_given, Mutex::new(Instant::now()));
        let committer = Committer { decider, store, adoption, is_clock_given, ask_holders_at };
        Ok(RunningEngine { committer, news })
    }
}
