//! Commits a batch on the writer's thread: it prepares what some commands need, decides all sales at once,
//! and releases the holds that are still due.

use std::sync::Arc;

use futures_util::future::join;
use parking_lot::Mutex;
use penstock_domain::{Command, Reply, SaleId, Timestamp};
use tokio::time::Instant;

use super::{
    decider::{Decider, SaleFailure},
    plan::{Known, Plan, released_by, shares},
    sale_batch::{SaleBatch, SaleOutcome},
};
use crate::{
    Unavailable,
    redis::{adopt::Adoption, store::Store},
};

/// The most rounds of calls that release due holds. Holds that are left are released the next time.
const MAX_EXPIRY_ROUNDS: usize = 8;

pub(crate) struct Committer {
    pub(crate) decider: Arc<Decider>,
    pub(crate) store: Store,
    pub(crate) adoption: Arc<Adoption>,
    /// True if the caller gives the time of a commit, as tests do. Otherwise Redis' clock is used.
    pub(crate) is_clock_given: bool,
    /// Before this moment the sales are not asked again which buyers have orders in them.
    pub(crate) ask_holders_at: Mutex<Instant>,
}

impl Committer {
    /// The replies in the order of the commands, and what the batch did to each sale.
    pub(crate) async fn commit(
        &self,
        commands: Vec<Command>,
        now: Timestamp,
    ) -> Result<(Vec<Result<Reply, Unavailable>>, Vec<SaleOutcome>), Unavailable> {
        let deadline = self.store.link.deadline();
        let now = self.is_clock_given.then_some(now);
        let due = self.due(now, &commands);
        let (holders, unannounced) =
            join(self.holders(&commands, deadline), self.announce(&commands, deadline)).await;
        let most = commands.iter().map(most_released).fold(0, u32::saturating_add);
        let plan = Plan::new(commands, &Known { due, holders, unannounced });
        let mut outcomes = self.decider.decide(&plan.batches, now, deadline).await;
        self.give_up_if_nothing_works(&outcomes)?;
        let later = self.release_rest(most, &outcomes, now, deadline).await;
        let replies = plan.replies(&mut outcomes, released_in(&later));
        Ok((replies, outcomes.into_iter().flatten().chain(later).collect()))
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
        self.store.sales.due(now)
    }

    /// If no sale can be reached, it is better to turn callers away at once until the link works again.
    fn give_up_if_nothing_works(
        &self,
        outcomes: &[Result<SaleOutcome, SaleFailure>],
    ) -> Result<(), Unavailable> {
        let broken = outcomes.iter().find_map(|outcome| match outcome {
            Err(failure @ SaleFailure::Link(_)) => Some(failure.clone()),
            _ => None,
        });
        let may_work = outcomes.iter().any(Result::is_ok)
            || self.store.link.is_cluster() && !self.decider.is_everything_resting();
        broken.filter(|_| !may_work).map_or(Ok(()), |failure| Err(failure.into()))
    }

    /// Each sale got a share of the holds that may be released. What it did not need is left for others.
    async fn release_rest(
        &self,
        most: u32,
        outcomes: &[Result<SaleOutcome, SaleFailure>],
        now: Option<Timestamp>,
        deadline: Instant,
    ) -> Vec<SaleOutcome> {
        let mut later = Vec::new();
        if most == 0 {
            return later;
        }
        let mut left = most.saturating_sub(released_in(outcomes.iter().flatten()));
        let mut due: Vec<SaleId> = outcomes.iter().flatten().filter_map(still_due).collect();
        for _ in 0..MAX_EXPIRY_ROUNDS {
            let batches =
                shares(left, &due).map(|(sale, max)| SaleBatch::of(sale, Command::ExpireDue { max }));
            let batches: Vec<SaleBatch> = batches.collect();
            if batches.is_empty() {
                break;
            }
            let round = self.decider.decide(&batches, now, deadline).await;
            let round: Vec<SaleOutcome> = round.into_iter().flatten().collect();
            left = left.saturating_sub(released_in(&round));
            due = round.iter().filter_map(still_due).collect();
            later.extend(round);
        }
        later
    }
}

fn most_released(command: &Command) -> u32 {
    match command {
        Command::ExpireDue { max } => *max,
        _ => 0,
    }
}

fn released_in<'a>(outcomes: impl IntoIterator<Item = &'a SaleOutcome>) -> u32 {
    outcomes.into_iter().flat_map(|outcome| &outcome.replies).map(released_by).sum()
}

fn still_due(outcome: &SaleOutcome) -> Option<SaleId> {
    let known = outcome.sale?;
    (known.due? <= outcome.now).then_some(known.sale())
}
