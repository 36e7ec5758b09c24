//! Sends batches to the script `decide`, all sales at once. A failure affects only its own sale: the sale
//! rests. While it rests, its commands are turned away at once, and a background task asks it until it
//! answers again.

use std::{
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, join_all};
use hashbrown::{HashMap, HashSet};
use penstock_domain::{SaleId, Timestamp};
use redis::Value;
use tokio::time::Instant as Deadline;

use super::{
    batch::{Outcome, SaleBatch, Verdict, decide_script},
    call::is_turned_away,
    keys::Keys,
    link::{Link, Script},
    options::LinkError,
    sales::Sales,
};
use crate::Unavailable;

/// The longest a batch waits for sales that this server has to adopt first. A longer adoption goes on in the
/// background, so that one sale does not hold up the others.
const ADOPT_WITHIN: Duration = Duration::from_millis(300);
/// How often to check on a sale that rests.
const LOOK_INTERVAL: Duration = Duration::from_millis(300);

/// The most sales that rest at once: requests for sales that don't exist must not fill the memory. Sales
/// beyond the limit are asked every time.
const MAX_RESTING: usize = 10_000;

/// Gives a sale a new home after its server was replaced or restarted.
pub(super) trait Adopt: Send + Sync {
    fn adopt(&self, sale: SaleId) -> BoxFuture<'_, Result<(), Unavailable>>;
}

/// Why the commands for a sale were not decided, as far as is known.
#[derive(Clone, Debug)]
pub(super) enum Failure {
    /// The call to its server failed.
    Link(LinkError),
    /// A problem with this sale alone.
    Sale(Unavailable),
}

impl From<Failure> for Unavailable {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Link(error) => error.into(),
            Failure::Sale(unavailable) => unavailable,
        }
    }
}

#[derive(Clone)]
pub(super) struct Decider {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    keys: Keys,
    script: Script,
    sales: Arc<Sales>,
    adoption: Arc<dyn Adopt>,
    resting: Mutex<HashSet<SaleId>>,
    /// The last time Redis told, and when this node heard it.
    time_told: Mutex<Option<(Timestamp, Instant)>>,
}

impl fmt::Debug for Decider {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Decider").field("link", &self.inner.link).finish_non_exhaustive()
    }
}

impl Decider {
    pub(super) fn new(link: Link, keys: Keys, sales: Arc<Sales>, adoption: Arc<dyn Adopt>) -> Self {
        let script = decide_script();
        link.learn(&script);
        let (resting, time_told) = (Mutex::default(), Mutex::default());
        Self { inner: Arc::new(Inner { link, keys, script, sales, adoption, resting, time_told }) }
    }

    pub(super) fn link(&self) -> &Link {
        &self.inner.link
    }

    /// Decides the batches, each in one step, and answers in their order. `now` is None if Redis' clock is to
    /// be used.
    pub(super) async fn decide(
        &self,
        batches: &[SaleBatch],
        now: Option<Timestamp>,
    ) -> Vec<Result<Outcome, Failure>> {
        self.decide_by(batches, now, self.inner.link.deadline()).await
    }

    /// Like `decide`, with a deadline of the caller's.
    pub(super) async fn decide_by(
        &self,
        batches: &[SaleBatch],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Vec<Result<Outcome, Failure>> {
        let mut results: Vec<Option<Result<Outcome, Failure>>> = Vec::new();
        results.resize_with(batches.len(), || None);
        let mut left: Vec<usize> = (0..batches.len()).collect();
        self.turn_away_resting(batches, &mut left, &mut results);
        // Sales that have no home are adopted and asked once more.
        for is_last in [false, true] {
            let unhomed = self.run(batches, &left, now, deadline, &mut results).await;
            if unhomed.is_empty() {
                break;
            }
            if is_last {
                let failure = Failure::Sale(Unavailable::new("the sale's home has just changed"));
                unhomed.iter().for_each(|place| set(&mut results, *place, Err(failure.clone())));
                break;
            }
            left = self.adopt(batches, unhomed, deadline, &mut results).await;
        }
        let results = results.into_iter().map(|result| {
            result.unwrap_or_else(|| Err(Failure::Sale(Unavailable::new("the sale was not asked"))))
        });
        let results: Vec<_> = results.collect();
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
    pub(super) fn redis_time(&self) -> Option<Timestamp> {
        let (told, at) = (*locked(&self.inner.time_told))?;
        Some(told.plus_millis(i64::try_from(at.elapsed().as_millis()).unwrap_or(i64::MAX)))
    }

    /// Whether none of the known sales can be decided at the moment.
    pub(super) fn is_everything_resting(&self) -> bool {
        let resting = locked(&self.inner.resting);
        self.inner.sales.remembered().iter().all(|sale| resting.contains(sale))
    }

    /// Whether some of these sales can't be decided at the moment.
    pub(super) fn rests_any(&self, sales: &[SaleId]) -> bool {
        let resting = locked(&self.inner.resting);
        sales.iter().any(|sale| resting.contains(sale))
    }

    /// Groups sales, or what belongs to them, by server as far as is known. A group can be asked in one round
    /// trip.
    pub(super) fn by_server<T>(&self, all: Vec<T>, sale_of: impl Fn(&T) -> Option<SaleId>) -> Vec<Vec<T>> {
        if all.is_empty() || !self.is_cluster() {
            return vec![all];
        }
        let mut groups: HashMap<Option<Arc<str>>, Vec<T>> = HashMap::new();
        for one in all {
            let server = sale_of(&one).and_then(|sale| self.server_of(sale));
            groups.entry(server).or_default().push(one);
        }
        groups.into_values().collect()
    }

    fn server_of(&self, sale: SaleId) -> Option<Arc<str>> {
        self.inner.link.master_of(&self.inner.keys.sale(sale))
    }

    pub(super) fn is_cluster(&self) -> bool {
        self.inner.link.is_cluster()
    }

    fn turn_away_resting(
        &self,
        batches: &[SaleBatch],
        left: &mut Vec<usize>,
        results: &mut [Option<Result<Outcome, Failure>>],
    ) {
        let resting = locked(&self.inner.resting);
        if resting.is_empty() {
            return;
        }
        left.retain(|place| {
            let rests = batches.get(*place).is_some_and(|batch| resting.contains(&batch.sale));
            if rests {
                let failure = Failure::Sale(Unavailable::new("the sale's server can't decide at the moment"));
                set(results, *place, Err(failure));
            }
            !rests
        });
    }

    /// Runs the batches at the places `left`. Returns the places of those whose server is not the sale's
    /// home, or has lost the sale.
    async fn run(
        &self,
        batches: &[SaleBatch],
        left: &[usize],
        now: Option<Timestamp>,
        deadline: Deadline,
        results: &mut [Option<Result<Outcome, Failure>>],
    ) -> Vec<usize> {
        let groups = self.by_server(left.to_vec(), |place| Some(batches.get(*place)?.sale));
        let calls = groups.iter().map(|places| self.run_together(batches, places, now, deadline));
        let mut unhomed = Vec::new();
        for (places, answers) in groups.iter().zip(join_all(calls).await) {
            for (place, answer) in places.iter().zip(answers) {
                match answer {
                    Ok(Verdict::Decided(outcome)) if self.is_lost(batches.get(*place), &outcome) => {
                        unhomed.push(*place);
                    }
                    Ok(Verdict::Decided(outcome)) => set(results, *place, Ok(outcome)),
                    Ok(Verdict::Unhomed) => unhomed.push(*place),
                    Err(failure) => set(results, *place, Err(failure)),
                }
            }
        }
        unhomed
    }

    /// If this node knows a sale and its server does not, the server has lost its data. The records have the
    /// sale.
    fn is_lost(&self, batch: Option<&SaleBatch>, outcome: &Outcome) -> bool {
        let counts = batch.and_then(|batch| self.inner.sales.counts(batch.sale));
        outcome.sale.is_none() && counts.is_some_and(|counts| !counts.forgotten)
    }

    /// One round trip and one confirmation by the replicas for all sales of one server.
    async fn run_together(
        &self,
        batches: &[SaleBatch],
        places: &[usize],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Vec<Result<Verdict, Failure>> {
        let here: Vec<&SaleBatch> = places.iter().filter_map(|place| batches.get(*place)).collect();
        let answers = match self.send(&here, now, deadline).await {
            Ok(answers) => answers,
            Err(failure) => return all_failed(here.len(), &failure),
        };
        let verdicts = here.iter().zip(answers).map(async |(batch, answer)| {
            if here.len() == 1 || !is_turned_away(&answer) {
                return verdict(batch, answer);
            }
            // The sale is moving to another server, or has moved: its batch is sent there alone.
            let answer = self.send(&[*batch], now, deadline).await?.pop();
            verdict(batch, answer.unwrap_or(Value::Nil))
        });
        join_all(verdicts).await
    }

    async fn send(
        &self,
        batches: &[&SaleBatch],
        now: Option<Timestamp>,
        deadline: Deadline,
    ) -> Result<Vec<Value>, Failure> {
        let Inner { link, keys, script, .. } = &*self.inner;
        let Some(first) = batches.first() else { return Ok(Vec::new()) };
        let mut pipeline = redis::pipe();
        let is_confirmed = link.options().wait_replicas > 0;
        for batch in batches {
            let mark = new_mark().map_err(Failure::Sale)?;
            pipeline.add_command(batch.call(script, keys, now, mark, is_confirmed));
        }
        // Replicas confirm even if nothing was decided: the answers may rest on what others wrote just
        // before.
        let key = keys.sale(first.sale);
        let sent = if batches.len() > 1 && self.is_cluster() {
            link.run_mixed(&key, pipeline, true, deadline).await
        } else {
            link.run_by(&key, pipeline, true, deadline).await
        };
        sent.map_err(Failure::Link)
    }

    /// Adopts the sales of the batches at `unhomed`, and returns the places of those that can be asked again.
    async fn adopt(
        &self,
        batches: &[SaleBatch],
        unhomed: Vec<usize>,
        deadline: Deadline,
        results: &mut [Option<Result<Outcome, Failure>>],
    ) -> Vec<usize> {
        let adopted_by = deadline.min(Deadline::now() + ADOPT_WITHIN);
        let adoptions = unhomed.iter().filter_map(|place| batches.get(*place)).map(|batch| {
            let (decider, sale) = (self.clone(), batch.sale);
            let adopting = tokio::spawn(async move { decider.inner.adoption.adopt(sale).await });
            async move {
                match tokio::time::timeout_at(adopted_by, adopting).await {
                    Ok(Ok(adopted)) => adopted,
                    Ok(Err(error)) => Err(Unavailable::new(error)),
                    Err(_) => Err(Unavailable::new("the sale is being compared with the records")),
                }
            }
        });
        let mut adopted = Vec::new();
        for (place, result) in unhomed.iter().zip(join_all(adoptions).await) {
            match result {
                Ok(()) => adopted.push(*place),
                Err(unavailable) => set(results, *place, Err(Failure::Sale(unavailable))),
            }
        }
        adopted
    }

    fn learn(&self, outcome: &Outcome) {
        if let Some((terms, counts)) = outcome.sale {
            self.inner.sales.learn(terms, counts);
        }
        *locked(&self.inner.time_told) = Some((outcome.now, Instant::now()));
    }

    /// Stops asking the sale until it has answered in the background.
    fn rest(&self, sale: SaleId) {
        let mut resting = locked(&self.inner.resting);
        if resting.len() >= MAX_RESTING || !resting.insert(sale) {
            return;
        }
        drop(resting);
        let decider = self.clone();
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(LOOK_INTERVAL).await;
                if decider.look(sale).await {
                    locked(&decider.inner.resting).remove(&sale);
                    return;
                }
            }
        });
    }

    /// In a Cluster, a sale that can't be asked is not alone. The other sales of its server rest too;
    /// otherwise each of them would first hold up a batch.
    fn rest_with(&self, batches: &[SaleBatch], results: &[Result<Outcome, Failure>]) {
        if !self.is_cluster() {
            return;
        }
        let is_silent = |result: &Result<Outcome, Failure>| {
            matches!(result, Err(Failure::Link(LinkError::Lost { .. } | LinkError::Unreachable { .. })))
        };
        let silent = batches.iter().zip(results).filter(|(_, result)| is_silent(result));
        let servers: HashSet<Arc<str>> = silent.filter_map(|(batch, _)| self.server_of(batch.sale)).collect();
        if servers.is_empty() {
            return;
        }
        for sale in self.inner.sales.remembered() {
            if self.server_of(sale).is_some_and(|server| servers.contains(&server)) {
                self.rest(sale);
            }
        }
    }

    /// Asks for the sale's status, and adopts the sale if need be. False if it can't be decided yet.
    async fn look(&self, sale: SaleId) -> bool {
        let batches = [SaleBatch::new(sale)];
        let mut results = vec![None];
        let unhomed = self.run(&batches, &[0], None, self.inner.link.deadline(), &mut results).await;
        if !unhomed.is_empty() {
            return self.inner.adoption.adopt(sale).await.is_ok();
        }
        match results.pop().flatten() {
            Some(Ok(outcome)) => {
                self.learn(&outcome);
                true
            }
            _ => false,
        }
    }

    /// Lets no sale rest any longer. Call it after a recovery, which has asked all sales.
    pub(super) fn wake_all(&self) {
        locked(&self.inner.resting).clear();
    }
}

fn verdict(batch: &SaleBatch, answer: Value) -> Result<Verdict, Failure> {
    if let Value::ServerError(error) = &answer {
        tracing::error!(sale = %batch.sale, %error, "the ledger's script failed; nothing was decided");
        return Err(Failure::Sale(Unavailable::new(error)));
    }
    batch.verdict(answer).map_err(|damaged| Failure::Sale(damaged.into()))
}

fn all_failed(count: usize, failure: &Failure) -> Vec<Result<Verdict, Failure>> {
    (0..count).map(|_| Err(failure.clone())).collect()
}

/// A random mark, different in every history: nobody else draws the same.
fn new_mark() -> Result<[u8; 16], Unavailable> {
    let mut mark = [0; 16];
    getrandom::fill(&mut mark).map_err(Unavailable::new)?;
    Ok(mark)
}

fn set(results: &mut [Option<Result<Outcome, Failure>>], place: usize, result: Result<Outcome, Failure>) {
    if let Some(slot) = results.get_mut(place) {
        *slot = Some(result);
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
