//! Reads what a node has to know before it sells: all sales in Redis, and the keys of all their orders.

use std::{sync::Arc, time::Duration};

use futures_util::future::join_all;
use tokio::time::timeout;

use super::{
    adopt::Adoption,
    decide::{Decider, SaleBatch, SaleFailure, SaleOutcome},
    store::Store,
};
use crate::{SaleNews, Unavailable};

/// How long the sales in Redis wait for those that have to be brought back. If that takes longer, it goes on
/// in the background.
const BRING_BACK_WITHIN: Duration = Duration::from_secs(1);

/// The news of all sales. A sale that can't be decided yet does not keep the others from being sold. The keys
/// of the orders are read only if they are wanted.
pub(crate) async fn recover(
    store: &Store,
    decider: &Arc<Decider>,
    adoption: &Arc<Adoption>,
    wants_keys: bool,
) -> Result<Vec<SaleNews>, Unavailable> {
    decider.wake_all();
    let bringing_back = tokio::spawn(bring_back_missing(store.clone(), adoption.clone()));
    if timeout(BRING_BACK_WITHIN, bringing_back).await.is_err() {
        tracing::warn!(
            "the records are slow to say whether Redis has lost a sale; the others are sold meanwhile"
        );
    }
    let batches: Vec<SaleBatch> = store.listed().await?.into_iter().map(SaleBatch::new).collect();
    let outcomes = decider.decide(&batches, None, store.link.deadline()).await;
    let broken = outcomes.iter().find_map(|outcome| match outcome {
        Err(failure @ SaleFailure::Link(_)) => Some(failure.clone()),
        _ => None,
    });
    if let Some(failure) = broken.filter(|_| !outcomes.iter().any(Result::is_ok)) {
        return Err(failure.into());
    }
    let news = outcomes.into_iter().flatten().map(|outcome| news_of(store, outcome, wants_keys));
    let news = join_all(news).await.into_iter().collect::<Result<Vec<_>, _>>()?;
    Ok(news.into_iter().flatten().collect())
}

/// Brings back sales that are open in the records and missing in Redis. If the records can't be asked now,
/// the sales in Redis are sold all the same.
async fn bring_back_missing(store: Store, adoption: Arc<Adoption>) {
    let brought_back = async {
        let sales = adoption.bring_back_missing().await?;
        Ok::<_, Unavailable>(store.list(&sales, true, store.link.deadline()).await?)
    };
    if let Err(error) = brought_back.await {
        tracing::warn!(%error, "can't find out now whether Redis has lost a sale");
    }
}

async fn news_of(
    store: &Store,
    outcome: SaleOutcome,
    wants_keys: bool,
) -> Result<Option<SaleNews>, Unavailable> {
    let Some(found) = outcome.sale else { return Ok(None) };
    let accepted = match wants_keys && !found.forgotten {
        true => store.accepted_keys(found.sale()).await?,
        false => Vec::new(),
    };
    if !store.is_same_history(&found).await? {
        return Err(Unavailable::new("a server was replaced while its sales were read"));
    }
    Ok(Some(SaleNews { status: found.status, accepted }))
}
