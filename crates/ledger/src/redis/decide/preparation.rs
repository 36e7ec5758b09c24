//! Finds out what some commands need before they are decided: in which sales a buyer has orders, and whether
//! a sale to be published is new or was lost. This may take long, or fail, without holding up other commands.

use std::time::Duration;

use futures_util::future::join_all;
use hashbrown::{HashMap, HashSet};
use penstock_domain::{BuyerId, Command, SaleId};
use penstock_redis_client::LinkError;
use redis::Value;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::{committer::Committer, plan::Holders};
use crate::Unavailable;

/// After a sale was asked who has orders in it, it is not asked again for this long. Redis needs about a
/// microsecond to answer, so lists of orders take a twentieth of its time, no matter how many people look at
/// theirs.
const REST_PER_SALE: Duration = Duration::from_micros(20);

impl Committer {
    /// Prepares sales to be published, and returns those for which that failed.
    pub(crate) async fn announce(
        &self,
        commands: &[Command],
        deadline: Instant,
    ) -> HashMap<SaleId, Unavailable> {
        let published = commands.iter().filter_map(|command| match command {
            Command::Publish(terms) => Some(terms.sale),
            _ => None,
        });
        let published: Vec<SaleId> = published.collect::<HashSet<_>>().into_iter().collect();
        if published.is_empty() {
            return HashMap::new();
        }
        // They are on the list of all sales before they have any decision. Otherwise nobody would find them.
        let listed = self.store.list(&published, true, deadline).await.map_err(Unavailable::from);
        // The rest of the time is for the publishing itself.
        let adopted_by = deadline - self.part_of_timeout(4);
        let prepared = published.into_iter().map(async |sale| {
            // If the records have orders of the sale, it is not new but lost: those come back first. If that
            // takes longer, it goes on in the background, and the next attempt to publish finds it done.
            let prepared = match &listed {
                Ok(()) => timeout_at(adopted_by, self.adoption.adopt(sale))
                    .await
                    .unwrap_or_else(|_| Err(Unavailable::new("the sale is being compared with the records"))),
                Err(unavailable) => Err(unavailable.clone()),
            };
            Some((sale, prepared.err()?))
        });
        join_all(prepared).await.into_iter().flatten().collect()
    }

    /// For each buyer whose orders are asked for: the known sales in which they have orders. A list that
    /// lacks the orders of one sale would be wrong, so while a sale can't be asked, the answer is an error.
    pub(crate) async fn holders(
        &self,
        commands: &[Command],
        deadline: Instant,
    ) -> Result<Holders, Unavailable> {
        let asked = commands.iter().filter_map(|command| match command {
            Command::OrdersOf { buyer, .. } => Some(buyer),
            _ => None,
        });
        let asked: HashSet<&BuyerId> = asked.collect();
        let mut holders = Holders::new();
        if asked.is_empty() {
            return Ok(holders);
        }
        let (buyers, sales): (Vec<&BuyerId>, _) =
            (asked.into_iter().collect(), self.store.sales.remembered());
        if self.decider.rests_any(&sales) {
            return Err(Unavailable::new("some of the sales can't be asked at the moment"));
        }
        self.take_precedence(sales.len()).await;
        let found_by = deadline - self.part_of_timeout(2);
        let groups = self.store.by_server(sales, |sale| *sale);
        let calls = groups.iter().map(|sales| self.entries_of(&buyers, sales, found_by));
        for (sales, answers) in groups.iter().zip(join_all(calls).await) {
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
        Ok(holders)
    }

    /// Waits until this many sales may be asked.
    async fn take_precedence(&self, sales: usize) {
        let rest = (REST_PER_SALE * u32::try_from(sales).unwrap_or(u32::MAX)).min(self.part_of_timeout(4));
        let begin_at = {
            let mut next = self.ask_holders_at.lock();
            let begin_at = Instant::now().max(*next);
            *next = begin_at + rest;
            begin_at
        };
        sleep_until(begin_at).await;
    }

    async fn entries_of(
        &self,
        buyers: &[&BuyerId],
        sales: &[SaleId],
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        let names: Vec<&str> = buyers.iter().map(|buyer| buyer.as_str()).collect();
        let mut pipeline = redis::pipe();
        for sale in sales {
            pipeline.cmd("HMGET").arg(self.store.keys.buyers(*sale)).arg(&names);
        }
        let key = sales.first().map(|sale| self.store.keys.buyers(*sale)).unwrap_or_default();
        self.store.link.run_mixed(&key, pipeline, false, deadline).await
    }

    fn part_of_timeout(&self, share: u32) -> Duration {
        self.store.link.options().timeout / share
    }
}
