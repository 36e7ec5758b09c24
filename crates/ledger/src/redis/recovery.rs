//! Reads what a node has to know before it sells: all sales in Redis, and the keys of all their orders.

use std::time::Duration;

use futures_util::future::join_all;
use penstock_domain::{KeyDigest, SaleId};
use redis::Value;
use tokio::time::timeout;

use super::{
    adopt::Adoption,
    batch::{Outcome, SaleBatch, text},
    codec::{Damaged, keys_of_buyer},
    decider::{Decider, Failure},
    keys::Keys,
    link::Link,
    polling::is_same_history,
};
use crate::{SaleNews, Unavailable};

/// Buyers read in one step: a step must not hold up the server.
const BUYERS_AT_ONCE: usize = 2_000;

/// How long the sales in Redis wait for those that have to be brought back. If that takes longer, it goes on
/// in the background.
const BRING_BACK_WITHIN: Duration = Duration::from_secs(1);

/// The news of all sales. A sale that can't be decided yet does not keep the others from being sold. The keys
/// of the orders are read only if they are wanted.
pub(super) async fn recover(
    decider: &Decider,
    keys: &Keys,
    adoption: &Adoption,
    wants_keys: bool,
) -> Result<Vec<SaleNews>, Unavailable> {
    decider.wake_all();
    let bringing_back = tokio::spawn(bring_back_missing(decider.clone(), keys.clone(), adoption.clone()));
    if timeout(BRING_BACK_WITHIN, bringing_back).await.is_err() {
        tracing::warn!(
            "the records are slow to say whether Redis has lost a sale; the others are sold meanwhile"
        );
    }
    let sales = all_sales(decider, keys).await?;
    let batches: Vec<SaleBatch> = sales.into_iter().map(SaleBatch::new).collect();
    let outcomes = decider.decide(&batches, None).await;
    let broken = outcomes.iter().find_map(|outcome| match outcome {
        Err(failure @ Failure::Link(_)) => Some(failure.clone()),
        _ => None,
    });
    if let Some(failure) = broken.filter(|_| !outcomes.iter().any(Result::is_ok)) {
        return Err(failure.into());
    }
    let news = outcomes.into_iter().flatten().map(|outcome| news_of(decider, keys, outcome, wants_keys));
    let news = join_all(news).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(news.into_iter().flatten().collect())
}

/// Brings back sales that are open in the records and missing in Redis. If the records can't be asked now,
/// the sales in Redis are sold all the same.
async fn bring_back_missing(decider: Decider, keys: Keys, adoption: Adoption) {
    let brought_back = async {
        let sales = adoption.bring_back_missing().await?;
        let mut pipeline = redis::pipe();
        if !sales.is_empty() {
            pipeline.sadd(keys.sales(), sales.iter().map(SaleId::to_string).collect::<Vec<_>>());
        }
        decider.link().run(&keys.sales(), pipeline, true).await?;
        Ok::<_, Unavailable>(())
    };
    if let Err(error) = brought_back.await {
        tracing::warn!(%error, "can't find out now whether Redis has lost a sale");
    }
}

async fn all_sales(decider: &Decider, keys: &Keys) -> Result<Vec<SaleId>, Unavailable> {
    let mut command = redis::cmd("SMEMBERS");
    command.arg(keys.sales());
    let names: Vec<String> = decider.link().call(&keys.sales(), command).await?;
    Ok(names.iter().filter_map(|name| name.parse().ok()).collect())
}

async fn news_of(
    decider: &Decider,
    keys: &Keys,
    outcome: Outcome,
    wants_keys: bool,
) -> Result<Option<SaleNews>, Unavailable> {
    let Some((terms, counts)) = outcome.sale else { return Ok(None) };
    let accepted = match wants_keys && !counts.forgotten {
        true => accepted_keys(decider.link(), keys, terms.sale).await?,
        false => Vec::new(),
    };
    if !is_same_history(decider.link(), keys, terms.sale, &counts).await? {
        return Err(Unavailable::new("a server was replaced while its sales were read"));
    }
    Ok(Some(SaleNews { status: counts.status(terms), accepted }))
}

/// The keys of all orders of a sale. Keys accepted during the read may be missing.
pub(super) async fn accepted_keys(
    link: &Link,
    keys: &Keys,
    sale: SaleId,
) -> Result<Vec<KeyDigest>, Unavailable> {
    let (key, mut accepted, mut place) = (keys.buyers(sale), Vec::new(), b"0".to_vec());
    loop {
        let mut command = redis::cmd("HSCAN");
        command.arg(&key).arg(&place).arg("COUNT").arg(BUYERS_AT_ONCE);
        let step: Value = link.call(&key, command).await?;
        place = take_step(&step, &mut accepted)?;
        if place == b"0" {
            return Ok(accepted);
        }
    }
}

/// Adds the keys of one step through the buyers, and returns where the next step begins.
fn take_step(step: &Value, accepted: &mut Vec<KeyDigest>) -> Result<Vec<u8>, Damaged> {
    let Value::Array(parts) = step else { return Err(Damaged("HSCAN did not answer a list")) };
    let [place, Value::Array(pairs)] = parts.as_slice() else {
        return Err(Damaged("HSCAN did not answer a place and a list"));
    };
    for pair in pairs.chunks(2) {
        let [_, entry] = pair else { return Err(Damaged("a buyer without an entry")) };
        accepted.extend(keys_of_buyer(text(entry)?)?);
    }
    Ok(text(place)?.to_vec())
}
