//! Sorts a batch of commands by sale, and puts the parts of the answers together again.

use hashbrown::{HashMap, HashSet};
use penstock_domain::{
    BuyerId, Command, MAX_HOLD_SECONDS, MAX_LIMIT_PER_BUYER, MAX_UNITS, Order, Reply, SaleId, SaleRefusal,
    SaleTerms,
};

use super::{
    decider::SaleFailure,
    sale_batch::{SaleBatch, SaleOutcome},
};
use crate::Unavailable;

/// Where the reply to a command comes from.
#[derive(Debug)]
enum ReplySource {
    Known(Result<Reply, Unavailable>),
    /// From the batch of one sale.
    One(usize),
    /// Holds that were released in several batches.
    Released(Vec<usize>),
    OrdersOf {
        max: u32,
        batches: Vec<usize>,
    },
}

/// The replies in each sale's batch come in the order of the sources that name it.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    sources: Vec<ReplySource>,
    pub(crate) batches: Vec<SaleBatch>,
    by_sale: HashMap<SaleId, usize>,
}

/// The sales in which each buyer has orders.
pub(crate) type Holders = HashMap<BuyerId, HashSet<SaleId>>;

/// What has to be known before commands can be sorted by sale.
#[derive(Debug)]
pub(crate) struct Known {
    /// The sales that may have holds to release, the longest overdue first.
    pub(crate) due: Vec<SaleId>,
    pub(crate) holders: Result<Holders, Unavailable>,
    /// Sales that can't be published, because preparing them failed.
    pub(crate) unannounced: HashMap<SaleId, Unavailable>,
}

impl Plan {
    pub(crate) fn new(commands: Vec<Command>, known: &Known) -> Self {
        let mut plan = Self::default();
        for command in commands {
            let source = match (command.sale(), command) {
                (_, Command::Publish(terms)) if !is_in_bounds(&terms) => {
                    ReplySource::Known(Ok(Reply::Sale(Err(SaleRefusal::InvalidTerms))))
                }
                (_, Command::Publish(terms))
                    if let Some(unavailable) = known.unannounced.get(&terms.sale) =>
                {
                    ReplySource::Known(Err(unavailable.clone()))
                }
                (Some(sale), command) => ReplySource::One(plan.push(sale, command)),
                (None, Command::OrdersOf { buyer, max }) => match &known.holders {
                    Ok(holders) => {
                        let sales = holders.get(&buyer).into_iter().flatten();
                        let ask =
                            |sale: &SaleId| plan.push(*sale, Command::OrdersOf { buyer: buyer.clone(), max });
                        ReplySource::OrdersOf { max, batches: sales.map(ask).collect() }
                    }
                    Err(unavailable) => ReplySource::Known(Err(unavailable.clone())),
                },
                (None, Command::ExpireDue { max }) => {
                    let shares = shares(max, &known.due);
                    let ask = |(sale, max)| plan.push(sale, Command::ExpireDue { max });
                    ReplySource::Released(shares.map(ask).collect())
                }
                // Every other command names its sale.
                (None, _) => ReplySource::One(usize::MAX),
            };
            plan.sources.push(source);
        }
        plan
    }

    fn push(&mut self, sale: SaleId, command: Command) -> usize {
        let next = self.batches.len();
        let place = *self.by_sale.entry(sale).or_insert(next);
        if place == next {
            self.batches.push(SaleBatch::of(sale, command));
        } else {
            self.batches[place].push(command);
        }
        place
    }

    /// The replies to all commands, in order. `released_later` is the number of holds released after the
    /// batch.
    pub(crate) fn replies(
        self,
        outcomes: &mut [Result<SaleOutcome, SaleFailure>],
        mut released_later: u32,
    ) -> Vec<Result<Reply, Unavailable>> {
        let mut taken = BatchReplies::new(outcomes);
        let replies = self.sources.into_iter().map(|source| match source {
            ReplySource::Known(reply) => reply,
            ReplySource::One(batch) => taken.next(batch),
            ReplySource::Released(batches) => {
                // A sale that can't be reached releases nothing now.
                let released = batches.into_iter().filter_map(|batch| taken.next(batch).ok());
                let released: u32 = released.map(|reply| released_by(&reply)).sum();
                Ok(Reply::Expired(released + std::mem::take(&mut released_later)))
            }
            ReplySource::OrdersOf { max, batches } => {
                let mut orders: Vec<Order> = Vec::new();
                for batch in batches {
                    match taken.next(batch)? {
                        Reply::Orders(more) => orders.extend(more),
                        other => return Ok(other),
                    }
                }
                orders.sort_by_key(|order| std::cmp::Reverse((order.created_at, order.id)));
                orders.truncate(max as usize);
                Ok(Reply::Orders(orders))
            }
        });
        replies.collect()
    }
}

/// The bounds that the rules rely on, as in `Book`.
fn is_in_bounds(terms: &SaleTerms) -> bool {
    terms.units <= MAX_UNITS
        && (1..=MAX_LIMIT_PER_BUYER).contains(&terms.limit_per_buyer)
        && (1..=MAX_HOLD_SECONDS).contains(&terms.hold_seconds)
}

/// Divides `max` holds among the sales that are due. The remainder goes to those that are overdue the
/// longest.
pub(crate) fn shares(max: u32, due: &[SaleId]) -> impl Iterator<Item = (SaleId, u32)> {
    let sales = u32::try_from(due.len()).unwrap_or(u32::MAX).max(1);
    let (each, rest) = (max / sales, max % sales);
    let shares = due.iter().zip(0..).map(move |(sale, place)| (*sale, each + u32::from(place < rest)));
    shares.filter(|(_, share)| *share > 0)
}

/// The number of holds that the reply says were released.
pub(crate) fn released_by(reply: &Reply) -> u32 {
    match reply {
        Reply::Expired(released) => *released,
        _ => 0,
    }
}

/// The replies of all batches, taken one by one.
struct BatchReplies {
    batches: Vec<Result<std::vec::IntoIter<Reply>, SaleFailure>>,
}

impl BatchReplies {
    fn new(outcomes: &mut [Result<SaleOutcome, SaleFailure>]) -> Self {
        let batches = outcomes.iter_mut().map(|outcome| match outcome {
            Ok(outcome) => Ok(std::mem::take(&mut outcome.replies).into_iter()),
            Err(failure) => Err(failure.clone()),
        });
        Self { batches: batches.collect() }
    }

    fn next(&mut self, batch: usize) -> Result<Reply, Unavailable> {
        match self.batches.get_mut(batch) {
            Some(Ok(replies)) => replies.next().ok_or_else(|| Unavailable::new("Redis skipped a command")),
            Some(Err(failure)) => Err(failure.clone().into()),
            None => Err(Unavailable::new("the command names no sale")),
        }
    }
}
