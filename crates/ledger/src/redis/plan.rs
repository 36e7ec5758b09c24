//! Sorts a batch of commands by sale, and puts the parts of the answers together again.

use hashbrown::{HashMap, HashSet};
use penstock_domain::{
    BuyerId, Command, MAX_HOLD_SECONDS, MAX_LIMIT_PER_BUYER, MAX_UNITS, Order, Reply, SaleId, SaleRefusal,
    SaleTerms,
};

use super::{
    batch::{Outcome, SaleBatch},
    decider::Failure,
};
use crate::Unavailable;

/// Where the reply to a command comes from.
#[derive(Debug)]
enum Place {
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

/// The replies in each sale's batch come in the order of the places that ask for them.
#[derive(Debug, Default)]
pub(super) struct Plan {
    places: Vec<Place>,
    pub(super) batches: Vec<SaleBatch>,
    by_sale: HashMap<SaleId, usize>,
}

/// The sales in which each buyer has orders.
pub(super) type Holders = HashMap<BuyerId, HashSet<SaleId>>;

/// What has to be known before commands can be sorted by sale.
#[derive(Debug)]
pub(super) struct Known {
    /// The sales that may have holds to release, the longest overdue first.
    pub(super) due: Vec<SaleId>,
    pub(super) holders: Result<Holders, Unavailable>,
    /// Sales that can't be published, because preparing them failed.
    pub(super) unannounced: HashMap<SaleId, Unavailable>,
}

impl Plan {
    pub(super) fn new(commands: Vec<Command>, known: &Known) -> Self {
        let mut plan = Self::default();
        for command in commands {
            let place = match (command.sale(), command) {
                (_, Command::Publish(terms)) if !is_in_bounds(&terms) => {
                    Place::Known(Ok(Reply::Sale(Err(SaleRefusal::InvalidTerms))))
                }
                (_, Command::Publish(terms))
                    if let Some(unavailable) = known.unannounced.get(&terms.sale) =>
                {
                    Place::Known(Err(unavailable.clone()))
                }
                (Some(sale), command) => Place::One(plan.push(sale, command)),
                (None, Command::OrdersOf { buyer, max }) => match &known.holders {
                    Ok(holders) => {
                        let sales = holders.get(&buyer).into_iter().flatten();
                        let ask =
                            |sale: &SaleId| plan.push(*sale, Command::OrdersOf { buyer: buyer.clone(), max });
                        Place::OrdersOf { max, batches: sales.map(ask).collect() }
                    }
                    Err(unavailable) => Place::Known(Err(unavailable.clone())),
                },
                (None, Command::ExpireDue { max }) => {
                    let shares = shares(max, &known.due);
                    let ask = |(sale, max)| plan.push(sale, Command::ExpireDue { max });
                    Place::Released(shares.map(ask).collect())
                }
                // Every other command names its sale.
                (None, _) => Place::One(usize::MAX),
            };
            plan.places.push(place);
        }
        plan
    }

    fn push(&mut self, sale: SaleId, command: Command) -> usize {
        let next = self.batches.len();
        let place = *self.by_sale.entry(sale).or_insert(next);
        if place == next {
            self.batches.push(SaleBatch::new(sale));
        }
        if let Some(batch) = self.batches.get_mut(place) {
            batch.push(command);
        }
        place
    }

    /// The replies to all commands, in order. `released_later` is the number of holds released after the
    /// batch.
    pub(super) fn replies(
        self,
        outcomes: &mut [Result<Outcome, Failure>],
        released_later: u32,
    ) -> Vec<Result<Reply, Unavailable>> {
        let mut parts = Parts::new(outcomes);
        let mut released_later = released_later;
        let replies = self.places.into_iter().map(|place| match place {
            Place::Known(reply) => reply,
            Place::One(batch) => parts.next(batch),
            Place::Released(batches) => Ok(Reply::Expired(
                // A sale that can't be reached releases nothing now.
                batches.into_iter().map(|batch| parts.next(batch)).map(released).sum::<u32>()
                    + std::mem::take(&mut released_later),
            )),
            Place::OrdersOf { max, batches } => {
                let mut orders: Vec<Order> = Vec::new();
                for batch in batches {
                    match parts.next(batch)? {
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
pub(super) fn shares(max: u32, due: &[SaleId]) -> impl Iterator<Item = (SaleId, u32)> {
    let sales = u32::try_from(due.len()).unwrap_or(u32::MAX).max(1);
    let (each, rest) = (max / sales, max % sales);
    let shares = due.iter().zip(0..).map(move |(sale, place)| (*sale, each + u32::from(place < rest)));
    shares.filter(|(_, share)| *share > 0)
}

pub(super) fn released(reply: Result<Reply, Unavailable>) -> u32 {
    match reply {
        Ok(Reply::Expired(released)) => released,
        _ => 0,
    }
}

/// The replies of all batches, taken one by one.
struct Parts {
    batches: Vec<Result<std::vec::IntoIter<Reply>, Failure>>,
}

impl Parts {
    fn new(outcomes: &mut [Result<Outcome, Failure>]) -> Self {
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
