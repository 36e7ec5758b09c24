//! The engine on Redis: it sends what a batch asks of each sale as one call of the script `decide`, all sales at
//! once, and makes replies and news of the answers. The stock itself is only in Redis.

use std::{fmt, sync::Arc};

use futures_util::future::join_all;
use hashbrown::{HashMap, HashSet};
use penstock_domain::{BuyerId, Command, Reply, SaleId, Timestamp};
use redis::Value;

use super::{
    adopt::{Adoption, Settled},
    batch::{Outcome, SaleBatch},
    decider::{Adopt as _, Decider, Failure},
    forget::Forgetting,
    keys::Keys,
    link::Link,
    news::News,
    plan::{Holders, Known, Plan, shares},
    recovery,
    sales::Sales,
};
use crate::{Committed, Engine, Listener, SaleNews, Unavailable};

/// What is left of the due holds after so many rounds of calls is released the next time.
const MAX_EXPIRY_ROUNDS: usize = 8;

pub(super) struct RedisEngine {
    /// Its connections live on the caller's runtime.
    pub(super) origin: Link,
    pub(super) keys: Keys,
    pub(super) sales: Arc<Sales>,
    pub(super) adoption: Adoption,
    pub(super) settled: Arc<dyn Settled>,
    pub(super) forget_after_seconds: u32,
    /// True: the time of a commit is the caller's, for tests. Otherwise Redis' clock counts.
    pub(super) is_clock_given: bool,
    pub(super) listener: Arc<dyn Listener>,
    pub(super) running: Option<Running>,
}

/// What lives on the writer's thread, with its connections, so that a batch wakes nobody else. Made at the first
/// recovery.
#[derive(Clone)]
pub(super) struct Running {
    decider: Decider,
    news: News,
}

impl fmt::Debug for RedisEngine {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RedisEngine").field("origin", &self.origin).finish_non_exhaustive()
    }
}

impl Engine for RedisEngine {
    async fn commit(&mut self, commands: Vec<Command>, now: Timestamp) -> Result<Committed, Unavailable> {
        let Some(Running { decider, news }) = self.running.clone() else {
            return Err(Unavailable::new("Redis was not reached yet"));
        };
        let now = self.is_clock_given.then_some(now);
        let known = Known {
            due: self.due(&decider, now, &commands),
            holders: self.holders(&decider, &commands).await,
            unannounced: self.announce(&decider, &commands).await,
        };
        let most = commands.iter().map(most_released).fold(0, u32::saturating_add);
        let plan = Plan::new(commands, &known);
        let mut outcomes = decider.decide(&plan.batches, now).await;
        give_up_if_nothing_works(&decider, &outcomes)?;
        let later = release_rest(&decider, most, &outcomes, now).await;
        let released_later = later.iter().map(released_in).sum();
        let replies = plan.replies(&mut outcomes, released_later);
        let news = news_of(&news, outcomes.iter().flatten().chain(&later));
        Ok(Committed { replies, news })
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        let Running { decider, news } = match &self.running {
            Some(running) => running.clone(),
            None => self.running.insert(self.start()?).clone(),
        };
        let recovered = recovery::recover(&decider, &self.keys, &self.adoption).await?;
        news.recovered(&recovered);
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
        Ok(Running { decider, news })
    }

    /// The sales that may have a hold to release, if anybody asks for that.
    fn due(&self, decider: &Decider, now: Option<Timestamp>, commands: &[Command]) -> Vec<SaleId> {
        let asked = commands.iter().any(|command| most_released(command) > 0);
        match now.or_else(|| decider.redis_time()) {
            Some(now) if asked => self.sales.due(now),
            _ => Vec::new(),
        }
    }

    /// Prepares sales for their publishing, and answers those for which that failed.
    async fn announce(&self, decider: &Decider, commands: &[Command]) -> HashMap<SaleId, Unavailable> {
        let published = commands.iter().filter_map(|command| match command {
            Command::Publish(terms) => Some(terms.sale),
            _ => None,
        });
        let published: HashSet<SaleId> = published.collect();
        if published.is_empty() {
            return HashMap::new();
        }
        let announced = self.enlist(decider, &published).await;
        let prepared = published.into_iter().map(async |sale| {
            // If the records have orders of the sale, it is not new but lost: those come back first.
            let prepared = match &announced {
                Ok(()) => self.adoption.adopt(sale).await,
                Err(unavailable) => Err(unavailable.clone()),
            };
            Some((sale, prepared.err()?))
        });
        join_all(prepared).await.into_iter().flatten().collect()
    }

    /// Enters sales in the list of all sales, before they can have a decision: otherwise nobody would find it.
    async fn enlist(&self, decider: &Decider, sales: &HashSet<SaleId>) -> Result<(), Unavailable> {
        let mut pipeline = redis::pipe();
        pipeline.sadd(self.keys.sales(), sales.iter().map(SaleId::to_string).collect::<Vec<_>>());
        match decider.link().run(&self.keys.sales(), pipeline, true).await?.pop() {
            Some(Value::Int(_)) => Ok(()),
            other => Err(Unavailable::new(format!("Redis answered {other:?}"))),
        }
    }

    /// In which of the known sales the buyers have orders whose orders are asked for.
    async fn holders(&self, decider: &Decider, commands: &[Command]) -> Result<Holders, Unavailable> {
        let asked: HashSet<BuyerId> = commands
            .iter()
            .filter_map(|command| match command {
                Command::OrdersOf { buyer, .. } => Some(buyer.clone()),
                _ => None,
            })
            .collect();
        let mut holders = Holders::new();
        if asked.is_empty() {
            return Ok(holders);
        }
        let (buyers, sales): (Vec<&BuyerId>, _) = (asked.iter().collect(), self.sales.remembered());
        let names: Vec<&str> = buyers.iter().map(|buyer| buyer.as_str()).collect();
        let together = if decider.is_cluster() { 1 } else { sales.len().max(1) };
        let calls = sales.chunks(together).map(|sales| {
            let mut pipeline = redis::pipe();
            for sale in sales {
                pipeline.cmd("HMGET").arg(self.keys.buyers(*sale)).arg(&names);
            }
            let key = sales.first().map(|sale| self.keys.buyers(*sale)).unwrap_or_default();
            async move { decider.link().run(&key, pipeline, false).await }
        });
        for (sales, answers) in sales.chunks(together).zip(join_all(calls).await) {
            for (sale, answer) in sales.iter().zip(answers?) {
                let Value::Array(entries) = answer else {
                    return Err(Unavailable::new(format!("Redis answered {answer:?}")));
                };
                let found = buyers.iter().zip(entries).filter(|(_, entry)| *entry != Value::Nil);
                for (buyer, _) in found {
                    holders.entry((*buyer).clone()).or_default().insert(*sale);
                }
            }
        }
        // Whoever claims in this batch may have his first order of that sale now.
        for command in commands {
            if let Command::Claim(claim) = command
                && asked.contains(&claim.buyer)
            {
                holders.entry(claim.buyer.clone()).or_default().insert(claim.sale);
            }
        }
        Ok(holders)
    }
}

fn most_released(command: &Command) -> u32 {
    match command {
        Command::ExpireDue { max } => *max,
        _ => 0,
    }
}

/// If the way to Redis is broken for all sales, those who ask are better turned away at once until it is mended.
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

/// Each sale got a share of the holds that may be released. Where it needed less, others may have the rest.
async fn release_rest(
    decider: &Decider,
    most: u32,
    outcomes: &[Result<Outcome, Failure>],
    now: Option<Timestamp>,
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
        let round: Vec<Outcome> = decider.decide(&batches, now).await.into_iter().flatten().collect();
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

/// One piece of news for each sale that changed, as it is after the last of its outcomes. The other nodes hear it too.
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
