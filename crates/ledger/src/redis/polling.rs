//! A look at all sales in Redis: how they are, whether their servers may decide them, and whether new ones have come.

use std::sync::Arc;

use futures_util::future::join_all;
use hashbrown::{HashMap, HashSet};
use penstock_domain::{SaleId, SaleTerms};
use redis::Value;

use super::{
    codec::Counts,
    keys::Keys,
    link::{Link, answered},
    options::LinkError,
    sales::Sales,
    stored::{SALE_FIELDS, Stored},
};

/// The list of all sales is read when its length has changed, and now and then in any case.
const LISTING_INTERVAL_LOOKS: u32 = 20;
/// Sales that are asked for in one round trip.
const SALES_AT_ONCE: usize = 500;

/// What a look found of one sale.
#[derive(Clone, Debug)]
pub(super) enum Found {
    Homed(SaleTerms, Counts),
    /// Its server may not decide it before it was compared with the records.
    Unhomed(SaleId),
    /// It was here and is gone.
    Missing(SaleId),
    /// It was closed long ago and is only in the records.
    Forgotten(SaleId),
}

/// Whether the sale still has the history that it had when it was at `counts`. What was read of it since is of that
/// history then, and not of another one on a server that took over meanwhile.
pub(super) async fn is_same_history(
    link: &Link,
    keys: &Keys,
    sale: SaleId,
    counts: &Counts,
) -> Result<bool, LinkError> {
    let key = keys.sale(sale);
    let mut question = redis::cmd("HMGET");
    question.arg(&key).arg("epoch").arg("position");
    let (epoch, position): (Option<u32>, Option<u64>) = link.call(&key, question).await?;
    Ok(epoch == Some(counts.epoch) && position >= Some(counts.position))
}

pub(super) struct Poller {
    link: Link,
    keys: Keys,
    sales: Arc<Sales>,
    listed: HashSet<SaleId>,
    looks: u32,
}

impl Poller {
    pub(super) fn new(link: Link, keys: Keys, sales: Arc<Sales>) -> Self {
        Self { link, keys, sales, listed: HashSet::new(), looks: 0 }
    }

    pub(super) async fn look(&mut self) -> Result<Vec<Found>, LinkError> {
        self.list().await?;
        let known: HashSet<SaleId> = self.sales.remembered().into_iter().collect();
        let mut by_master: HashMap<Arc<str>, Vec<SaleId>> = HashMap::new();
        for sale in self.listed.union(&known) {
            // A slot without a master is looked at when it has one again.
            if let Some(master) = self.link.master_of(&self.keys.sale(*sale)) {
                by_master.entry(master).or_default().push(*sale);
            }
        }
        let looks = by_master
            .iter()
            .flat_map(|(master, sales)| sales.chunks(SALES_AT_ONCE).map(move |sales| (master, sales)))
            .map(|(master, sales)| self.look_at(master, sales, &known));
        let mut found = Vec::new();
        for look in join_all(looks).await {
            match look {
                Ok(more) => found.extend(more),
                // The other masters have answered.
                Err(error) => tracing::debug!(%error, "some sales can't be looked at"),
            }
        }
        self.list_again(&found).await?;
        Ok(found)
    }

    /// The list may have been lost with its server while the sales were not: then nobody new would find them.
    async fn list_again(&self, found: &[Found]) -> Result<(), LinkError> {
        let unlisted = found.iter().filter_map(|found| match found {
            Found::Homed(terms, counts) if !counts.forgotten => Some(terms.sale),
            _ => None,
        });
        let unlisted = unlisted.filter(|sale| !self.listed.contains(sale));
        let names: Vec<String> = unlisted.map(|sale| sale.to_string()).collect();
        if names.is_empty() {
            return Ok(());
        }
        let key = self.keys.sales();
        let mut add = redis::cmd("SADD");
        add.arg(&key).arg(&names);
        self.link.call::<u64>(&key, add).await?;
        Ok(())
    }

    /// Reads the list of all sales if it has changed.
    async fn list(&mut self) -> Result<(), LinkError> {
        let key = self.keys.sales();
        let mut count = redis::cmd("SCARD");
        count.arg(&key);
        let count: usize = self.link.call(&key, count).await?;
        let is_time = self.looks.is_multiple_of(LISTING_INTERVAL_LOOKS);
        self.looks = self.looks.wrapping_add(1);
        if count == self.listed.len() && !is_time {
            return Ok(());
        }
        let mut members = redis::cmd("SMEMBERS");
        members.arg(&key);
        let names: Vec<String> = self.link.call(&key, members).await?;
        self.listed = names.iter().filter_map(|name| name.parse().ok()).collect();
        Ok(())
    }

    async fn look_at(
        &self,
        master: &str,
        sales: &[SaleId],
        known: &HashSet<SaleId>,
    ) -> Result<Vec<Found>, LinkError> {
        let mut pipeline = redis::pipe();
        pipeline.cmd("INFO").arg("replication");
        for sale in sales {
            pipeline.cmd("HMGET").arg(self.keys.sale(*sale)).arg(&SALE_FIELDS);
        }
        let mut answers = self.link.send_to(master, &pipeline).await?.into_iter();
        let info: String = answered(master, answers.next())?;
        let home = info.lines().find_map(|line| line.strip_prefix("master_replid:")).unwrap_or("").trim();
        let found = sales.iter().zip(answers).filter_map(|(sale, answer)| {
            // A slot that has just moved is looked at where it is now the next time.
            let Value::Array(fields) = answer else { return None };
            match Stored::read(*sale, &fields) {
                Ok(Some(stored)) => Some(self.judge(&stored, home)),
                Ok(None) => known.contains(sale).then_some(Found::Missing(*sale)),
                Err(error) => {
                    tracing::warn!(%sale, %error, "a sale in Redis is damaged");
                    None
                }
            }
        });
        Ok(found.collect())
    }

    fn judge(&self, stored: &Stored, home: &str) -> Found {
        let sale = stored.terms.sale;
        if stored.counts.forgotten && !self.listed.contains(&sale) {
            Found::Forgotten(sale)
        } else if stored.counts.forgotten || stored.home == home {
            Found::Homed(stored.terms, stored.counts)
        } else {
            Found::Unhomed(sale)
        }
    }
}
