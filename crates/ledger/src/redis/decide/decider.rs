//! Sends batches to the script `decide`, all sales at once. A failure affects only its own sale: the sale
//! rests. While it rests, its commands are turned away at once, and a background task asks it until it
//! answers again.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use hashbrown::HashSet;
use parking_lot::Mutex;
use penstock_domain::{SaleId, Timestamp};
use penstock_redis_client::{LinkError, Script, is_turned_away};
use redis::Value;
use tokio::time::{Instant as Deadline, sleep, timeout_at};

use super::sale_batch::{SaleAnswer, SaleBatch, SaleOutcome, decide_script};
use crate::{
    Unavailable,
    redis::{adopt::Adoption, store::Store},
};

/// The longest a batch waits for sales that this server has to adopt first. A longer adoption goes on in the
/// background, so that one sale does not hold up the others.
const ADOPT_WITHIN: Duration = Duration::from_millis(300);
/// How often to check on a sale that rests.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);
/// The most sales that rest at once: requests for sales that don't exist must not fill the memory. Sales
/// beyond the limit are asked every time.
const MAX_RESTING: usize = 10_000;

/// Why the commands for a sale were not decided, as far as is known.
#[derive(Clone, Debug)]
pub(crate) enum SaleFailure {
    /// The call to its server failed.
    Link(LinkError),
    /// A problem with this sale alone.
    Sale(Unavailable),
}

impl SaleFailure {
    fn of_sale(reason: impl ToString) -> Self {
        Self::Sale(Unavailable::new(reason))
    }
}

impl From<SaleFailure> for Unavailable {
    fn from(failure: SaleFailure) -> Self {
        match failure {
            SaleFailure::Link(error) => error.into(),
            SaleFailure::Sale(unavailable) => unavailable,
        }
    }
}

pub(crate) struct Decider {
    store: Store,
    script: Script,
    adoption: Arc<Adoption>,
    resting: Mutex<HashSet<SaleId>>,
    /// The last time Redis told, and when this node heard it.
    time_told: Mutex<Option<(Timestamp, Instant)>>,
}

/// The answers of some batches, by their places.
type Answers = Vec<(usize, Result<SaleAnswer, SaleFailure>)>;

impl Decider {
    pub(crate) fn new(store: Store, adoption: Arc<Adoption>) -> Arc<Self> {
        let script = decide_script();
        store.link.learn(&script);
        Arc::new(Self { store, script, adoption, resting: Mutex::default(), time_told: Mutex::default() })
    }

    /// Decides the batches, each in one step, and answers in their order. `now` is None if Redis' clock is to
    /// be used.
    pub(crate) async fn decide(
        self: &Arc<Self>,
        batches: &[SaleBatch],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Vec<Result<SaleOutcome, SaleFailure>> {
        let resting = || Err(SaleFailure::of_sale("the sale's server can't decide at the moment"));
        let mut results: Vec<Result<SaleOutcome, SaleFailure>> = batches.iter().map(|_| resting()).collect();
        let mut left = self.awake(batches);
        // Sales that have no home are adopted and asked once more.
        for is_last in [false, true] {
            let mut unhomed = Vec::new();
            for (place, answer) in self.run(batches, &left, now, deadline).await {
                results[place] = match answer {
                    Ok(SaleAnswer::Decided(outcome)) => Ok(outcome),
                    Ok(SaleAnswer::Unhomed) => {
                        unhomed.push(place);
                        Err(SaleFailure::of_sale("the sale's home has just changed"))
                    }
                    Err(failure) => Err(failure),
                };
            }
            if is_last || unhomed.is_empty() {
                break;
            }
            left.clear();
            for (place, adopted) in self.adopt(batches, &unhomed, deadline).await {
                match adopted {
                    Ok(()) => left.push(place),
                    Err(unavailable) => results[place] = Err(SaleFailure::Sale(unavailable)),
                }
            }
        }
        for (batch, result) in batches.iter().zip(&results) {
            match result {
                Ok(outcome) => self.learn(outcome),
                Err(_) => self.rest(batch.sale),
            }
        }
        self.rest_with(batches, &results);
        results
    }

    /// Redis' time now, estimated from the last time it told; None if it has not told any.
    pub(crate) fn redis_time(&self) -> Option<Timestamp> {
        let (told, at) = (*self.time_told.lock())?;
        Some(told.plus_millis(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    /// Whether none of the known sales can be decided at the moment.
    pub(crate) fn is_everything_resting(&self) -> bool {
        let resting = self.resting.lock();
        self.store.sales.remembered().iter().all(|sale| resting.contains(sale))
    }

    /// Whether some of these sales can't be decided at the moment.
    pub(crate) fn rests_any(&self, sales: &[SaleId]) -> bool {
        let resting = self.resting.lock();
        sales.iter().any(|sale| resting.contains(sale))
    }

    /// Lets no sale rest any longer. Call it after a recovery, which has asked all sales.
    pub(crate) fn wake_all(&self) {
        self.resting.lock().clear();
    }

    /// The places of the batches whose sales do not rest.
    fn awake(&self, batches: &[SaleBatch]) -> Vec<usize> {
        let resting = self.resting.lock();
        (0..batches.len()).filter(|place| !resting.contains(&batches[*place].sale)).collect()
    }

    async fn run(
        &self,
        batches: &[SaleBatch],
        places: &[usize],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Answers {
        let groups = self.store.by_server(places.to_vec(), |place| batches[*place].sale);
        let calls = groups.iter().map(async |places| {
            let here: Vec<&SaleBatch> = places.iter().map(|place| &batches[*place]).collect();
            self.run_together(&here, now, deadline).await
        });
        let answers = join_all(calls).await.into_iter().flatten();
        groups.iter().flatten().copied().zip(answers).collect()
    }

    /// One round trip and one confirmation by the replicas for all sales of one server.
    async fn run_together(
        &self,
        here: &[&SaleBatch],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Vec<Result<SaleAnswer, SaleFailure>> {
        let answers = match self.send(here, now, deadline).await {
            Ok(answers) => answers,
            Err(failure) => return here.iter().map(|_| Err(failure.clone())).collect(),
        };
        let answers = here.iter().zip(answers).map(async |(batch, answer)| {
            if here.len() == 1 || !is_turned_away(&answer) {
                return self.read(batch, answer);
            }
            // The sale is moving to another server, or has moved: its batch is sent there alone.
            let answer = self.send(&[*batch], now, deadline).await?.pop();
            self.read(batch, answer.unwrap_or(Value::Nil))
        });
        join_all(answers).await
    }

    async fn send(
        &self,
        batches: &[&SaleBatch],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Result<Vec<Value>, SaleFailure> {
        let Store { link, keys, .. } = &self.store;
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let mut pipeline = redis::pipe();
        let is_confirmed = link.options().wait_replicas > 0;
        for batch in batches {
            // A random mark, different in every history: nobody else draws the same.
            let mut mark = [0; 16];
            getrandom::fill(&mut mark).map_err(SaleFailure::of_sale)?;
            pipeline.add_command(batch.call(&self.script, keys, now, mark, is_confirmed));
        }
        // Replicas confirm even if nothing was decided: the answers may rest on what others wrote just
        // before.
        let key = keys.sale(first.sale);
        let sent = if batches.len() > 1 && link.is_cluster() {
            link.run_mixed(&key, pipeline, true, deadline).await
        } else {
            link.run_by(&key, pipeline, true, deadline).await
        };
        sent.map_err(SaleFailure::Link)
    }

    fn read(&self, batch: &SaleBatch, answer: Value) -> Result<SaleAnswer, SaleFailure> {
        if let Value::ServerError(error) = &answer {
            tracing::error!(sale = %batch.sale, %error, "the ledger's script failed; nothing was decided");
            return Err(SaleFailure::of_sale(error));
        }
        match batch.read(answer).map_err(SaleFailure::of_sale)? {
            SaleAnswer::Decided(outcome) if self.is_lost(batch.sale, &outcome) => Ok(SaleAnswer::Unhomed),
            answer => Ok(answer),
        }
    }

    /// If this node knows a sale and its server does not, the server has lost its data. The records have the
    /// sale.
    fn is_lost(&self, sale: SaleId, outcome: &SaleOutcome) -> bool {
        outcome.sale.is_none() && self.store.sales.get(sale).is_some_and(|known| !known.forgotten)
    }

    async fn adopt(
        &self,
        batches: &[SaleBatch],
        unhomed: &[usize],
        deadline: Deadline,
    ) -> Vec<(usize, Result<(), Unavailable>)> {
        let adopted_by = deadline.min(Deadline::now() + ADOPT_WITHIN);
        let adoptions = unhomed.iter().map(async |place| {
            // If it takes longer, it goes on in the background.
            let adopted = timeout_at(adopted_by, self.adoption.adopt(batches[*place].sale)).await;
            let late = |_| Err(Unavailable::new("the sale is being compared with the records"));
            (*place, adopted.unwrap_or_else(late))
        });
        join_all(adoptions).await
    }

    fn learn(&self, outcome: &SaleOutcome) {
        if let Some(known) = outcome.sale {
            self.store.sales.learn(known);
        }
        *self.time_told.lock() = Some((outcome.now, Instant::now()));
    }

    /// Stops asking the sale until it has answered in the background.
    fn rest(self: &Arc<Self>, sale: SaleId) {
        let mut resting = self.resting.lock();
        if resting.len() >= MAX_RESTING || !resting.insert(sale) {
            return;
        }
        drop(resting);
        let decider = self.clone();
        tokio::spawn(async move {
            loop {
                sleep(LOOK_INTERVAL).await;
                if decider.look(sale).await {
                    decider.resting.lock().remove(&sale);
                    return;
                }
            }
        });
    }

    /// In a Cluster, a sale that can't be asked is not alone. The other sales of its server rest too;
    /// otherwise each of them would first hold up a batch.
    fn rest_with(self: &Arc<Self>, batches: &[SaleBatch], results: &[Result<SaleOutcome, SaleFailure>]) {
        if !self.store.link.is_cluster() {
            return;
        }
        let silent = batches
            .iter()
            .zip(results)
            .filter(|(_, result)| matches!(result, Err(SaleFailure::Link(error)) if error.is_silence()));
        let servers: HashSet<_> = silent.filter_map(|(batch, _)| self.store.master_of(batch.sale)).collect();
        if servers.is_empty() {
            return;
        }
        for sale in self.store.sales.remembered() {
            if self.store.master_of(sale).is_some_and(|server| servers.contains(&server)) {
                self.rest(sale);
            }
        }
    }

    /// Asks for the sale's status, and adopts the sale if need be. False if it can't be decided yet.
    async fn look(&self, sale: SaleId) -> bool {
        let answer =
            self.run_together(&[&SaleBatch::new(sale)], None, self.store.link.deadline()).await.pop();
        match answer {
            Some(Ok(SaleAnswer::Decided(outcome))) => {
                self.learn(&outcome);
                true
            }
            Some(Ok(SaleAnswer::Unhomed)) => self.adoption.adopt(sale).await.is_ok(),
            _ => false,
        }
    }
}
