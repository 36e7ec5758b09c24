//! The engine on Redis: it sends a batch's commands as one call of the script `decide` for each sale, all
//! sales at once, and turns the answers into replies and news. The stock itself is only in Redis.

use std::{
    fmt,
    sync::{Arc, Mutex},
};

use futures_util::future::join;
use penstock_domain::{Command, Reply, SaleId, Timestamp};
use tokio::time::Instant;

use super::{
    adopt::Adoption,
    batch::{Outcome, SaleBatch},
    decider::{Decider, Failure},
    forget::Forgetting,
    keys::Keys,
    link::Link,
    news::News,
    plan::{Known, Plan, shares},
    recovery,
    sales::Sales,
    settled::Settled,
};
use crate::{Committed, Engine, Home, Homes, Listener, SaleNews, Unavailable};

/// The most rounds of calls that release due holds. Holds that are left are released the next time.
const MAX_EXPIRY_ROUNDS: usize = 8;

pub(super) struct RedisEngine {
    /// Its connections live on the caller's runtime.
    pub(super) origin: Link,
    pub(super) keys: Keys,
    pub(super) sales: Arc<Sales>,
    pub(super) adoption: Adoption,
    pub(super) settled: Arc<dyn Settled>,
    pub(super) forget_after_seconds: u32,
    /// True if the caller gives the time of a commit, as tests do. Otherwise Redis' clock is used.
    pub(super) is_clock_given: bool,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) running: Option<Arc<Running>>,
}

/// The part that lives on the writer's thread, with its own connections, so that a batch wakes no other
/// thread. Made at the first recovery.
pub(super) struct Running {
    pub(super) decider: Decider,
    pub(super) keys: Keys,
    pub(super) sales: Arc<Sales>,
    pub(super) adoption: Adoption,
    is_clock_given: bool,
    news: News,
    /// Before this moment the sales are not asked again which buyers have orders in them.
    pub(super) ask_holders_at: Mutex<Instant>,
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedisEngine").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Engine for RedisEngine {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        let running = self.running.clone();
        async move {
            match running {
                Some(running) => running.commit(commands, now).await,
                None => Err(Unavailable::new("Redis has not been reached yet")),
            }
        }
    }

    /// Redis decides one batch while the next is on its way. A `WAIT` blocks what comes after it and may take
    /// its full time, so fewer batches are in flight then.
    fn max_in_flight(&self) -> usize {
        if self.origin.options().wait_replicas > 0 { 2 } else { 3 }
    }

    /// In a Cluster each master decides, and may hang, by itself.
    fn homes(&self) -> Homes {
        if !self.origin.is_cluster() {
            return Homes::One;
        }
        let (link, keys) = (self.origin.clone(), self.keys.clone());
        Homes::Several(Arc::new(move |sale| Home(link.master_of(&keys.sale(sale)).unwrap_or_default())))
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
        let wants_keys = self.listener.wants_keys();
        let recovered = recovery::recover(&running.decider, &self.keys, &self.adoption, wants_keys).await?;
        running.news.recovered(&recovered);
        Ok(recovered)
    }
}

impl RedisEngine {
    fn start(&self) -> Result<Running, Unavailable> {
        let link = self.origin.on_this_runtime()?;
        let (keys, sales, adoption) = (&self.keys, &self.sales, &self.adoption);
        let decider = Decider::new(link.clone(), keys.clone(), sales.clone(), Arc::new(adoption.clone()));
        let forgetting = Forgetting {
            link: link.clone(),
            keys: keys.clone(),
            sales: sales.clone(),
            settled: self.settled.clone(),
            decider: decider.clone(),
            after_seconds: self.forget_after_seconds,
        };
        tokio::spawn(forgetting.run());
        let news = News::start(link, keys.clone(), sales.clone(), self.listener.clone(), adoption.clone())?;
        let (keys, sales, adoption) = (keys.clone(), sales.clone(), adoption.clone());
        Ok(Running {
            decider,
            keys,
            sales,
            adoption,
            is_clock_given: self.is_clock_given,
            news,
            ask_holders_at: Mutex::new(Instant::now()),
        })
    }
}

impl Running {
    async fn commit(&self, commands: Vec<Command>, now: Timestamp) -> Result<Committed, Unavailable> {
        let deadline = self.decider.link().deadline();
        let now = self.is_clock_given.then_some(now);
        let due = self.due(now, &commands);
        let (holders, unannounced) =
            join(self.holders(&commands, deadline), self.announce(&commands, deadline)).await;
        let most = commands.iter().map(most_released).fold(0, u32::saturating_add);
        let plan = Plan::new(commands, &Known { due, holders, unannounced });
        let mut outcomes = self.decider.decide_by(&plan.batches, now, deadline).await;
        give_up_if_nothing_works(&self.decider, &outcomes)?;
        let later = release_rest(&self.decider, most, &outcomes, now, deadline).await;
        let released_later = later.iter().map(released_in).sum();
        let replies = plan.replies(&mut outcomes, released_later);
        let news = news_of(&self.news, outcomes.iter().flatten().chain(&later));
        Ok(Committed { replies, news })
    }

    /// The sales that may have holds to release, if a command asks for it.
    fn due(&self, now: Option<Timestamp>, commands: &[Command]) -> Vec<SaleId> {
        let asked = commands.iter().any(|command| most_released(command) > 0);
        if !asked {
            return Vec::new();
        }
        // A node that has decided nothing yet does not know the time; for example, a worker that started
        // before the first sale. Redis knows it, and tells it with its answer.
        let now = now.or_else(|| self.decider.redis_time()).unwrap_or(Timestamp::from_millis(i64::MAX));
        self.sales.due(now)
    }
}

fn most_released(command: &Command) -> u32 {
    match command {
        Command::ExpireDue { max } => *max,
        _ => 0,
    }
}

/// If no sale can be reached, it is better to turn callers away at once until the link works again.
fn give_up_if_nothing_works(
    decider: &Decider,
    outcomes: &[Result<Outcome, Failure>],
) -> Result<(), Unavailable> {
    let is_broken = |outcome: &Result<Outcome, Failure>| matches!(outcome, Err(Failure::Link(_)));
    if outcomes.iter().any(Result::is_ok) || !outcomes.iter().any(is_broken) {
        return Ok(());
    }
    if decider.is_cluster() && !decider.is_everything_resting() {
        return Ok(());
    }
    match outcomes.iter().find(|outcome| is_broken(outcome)) {
        Some(Err(failure)) => Err(failure.clone().into()),
        _ => Ok(()),
    }
}

/// Each sale got a share of the holds that may be released. What it did not need is left for others.
async fn release_rest(
    decider: &Decider,
    most: u32,
    outcomes: &[Result<Outcome, Failure>],
    now: Option<Timestamp>,
    deadline: Instant,
) -> Vec<Outcome> {
    let mut later: Vec<Outcome> = Vec::new();
    if most == 0 {
        return later;
    }
    let mut left = most.saturating_sub(outcomes.iter().flatten().map(released_in).sum());
    let mut due: Vec<SaleId> = outcomes.iter().flatten().filter_map(still_due).collect();
    for _ in 0..MAX_EXPIRY_ROUNDS {
        let batches: Vec<SaleBatch> = shares(left, &due)
            .map(|(sale, max)| {
                let mut batch = SaleBatch::new(sale);
                batch.push(Command::ExpireDue { max });
                batch
            })
            .collect();
        if batches.is_empty() {
            break;
        }
        let round: Vec<Outcome> =
            decider.decide_by(&batches, now, deadline).await.into_iter().flatten().collect();
        left = left.saturating_sub(round.iter().map(released_in).sum());
        due = round.iter().filter_map(still_due).collect();
        later.extend(round);
    }
    later
}

fn released_in(outcome: &Outcome) -> u32 {
    let released = outcome.replies.iter().map(|reply| match reply {
        Reply::Expired(released) => *released,
        _ => 0,
    });
    released.sum()
}

fn still_due(outcome: &Outcome) -> Option<SaleId> {
    let (terms, counts) = outcome.sale?;
    (counts.due? <= outcome.now).then_some(terms.sale)
}

/// One piece of news for each sale that changed, with its status after its last outcome. The other nodes hear
/// it too.
fn news_of<'a>(news: &News, outcomes: impl Iterator<Item = &'a Outcome>) -> Vec<SaleNews> {
    let mut all: Vec<SaleNews> = Vec::new();
    for latest in outcomes.filter_map(|outcome| news.decided(outcome)) {
        match all.iter_mut().find(|earlier| earlier.status.terms.sale == latest.status.terms.sale) {
            Some(earlier) => {
                earlier.status = latest.status;
                earlier.accepted.extend(latest.accepted);
            }
            None => all.push(latest),
        }
    }
    all
}
