//! The writer for a remote engine: it begins the next commit while one is under way, so that the two sides
//! need not take turns. Each home of sales has commits of its own, and slow commands go beside the others.

use std::{sync::Arc, time::Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};

mod flights;

use flights::{Flight, Flights};

use super::{COMMIT_INTERVAL, Writer};
use crate::{
    port::{Committed, Engine, Homes, Unavailable},
    queue::{Asker, Batch, Failure, deliver, refuse},
};

/// A finished commit.
struct Landed {
    flight: Flight,
    askers: Vec<Asker>,
    started: Instant,
    committed: Result<Committed, Unavailable>,
}

impl<E: Engine> Writer<E> {
    /// Runs at most `most` commits of a home at a time, until the ledger is stopped. If a commit fails, the
    /// others that are under way finish before the engine is asked to recover.
    pub(super) async fn commit_overlapping(&mut self, mut serving: bool, most: usize) {
        let homes = self.engine.homes();
        let is_one = matches!(homes, Homes::One);
        let mut flights = Flights::new(homes, most, self.queue.max_queued(), self.queue.max_batch());
        let mut flying = FuturesUnordered::new();
        let mut rest_until = None;
        let mut stopped = false;
        loop {
            if (!serving || stopped) && flying.is_empty() {
                if stopped || !self.recover().await {
                    break;
                }
                serving = true;
            }
            // If there is only one home, its commands can wait in the queue as well.
            let takes = serving && !stopped && !(is_one && flights.is_any_home_full());
            tokio::select! {
                biased;
                Some(landed) = flying.next() => serving &= self.take_down(&mut flights, landed),
                batch = self.next_batch(rest_until, flights.is_any_home_busy()), if takes => match batch {
                    None => stopped = true,
                    Some(batch) => {
                        rest_until = (batch.commands.len() > 1).then(|| Instant::now() + COMMIT_INTERVAL);
                        self.sort(&mut flights, batch);
                    }
                },
            }
            // Commands wait only for others of the same home or kind, even if the ledger was stopped
            // meanwhile.
            while let Some((flight, batch)) = flights.next(|command| self.engine.gathers(command)) {
                flying.push(self.launch(flight, batch));
            }
            self.queue.set_sorted(flights.waiting());
        }
    }

    /// While a commit is under way the writer must not block: it has to notice the end of the commit.
    async fn next_batch(&self, rest_until: Option<Instant>, is_flying: bool) -> Option<Batch> {
        match rest_until {
            Some(until) if is_flying => {
                tokio::time::sleep_until(until.into()).await;
                self.queue.take(None).await
            }
            _ => self.queue.take(rest_until).await,
        }
    }

    fn launch(&mut self, flight: Flight, batch: Batch) -> impl Future<Output = Landed> + 'static {
        let Batch { commands, askers } = batch;
        let started = Instant::now();
        let committing = self.engine.commit(commands, (self.clock)());
        async move { Landed { flight, askers, started, committed: committing.await } }
    }

    /// False if the engine failed and nothing more may be asked of it.
    fn take_down(&self, flights: &mut Flights, landed: Landed) -> bool {
        let Landed { flight, askers, started, committed } = landed;
        let is_aside = matches!(flight, Flight::Aside | Flight::Gathered);
        flights.landed(&flight);
        let Err((askers, unavailable)) = self.land(askers, started, committed) else { return true };
        if is_aside {
            refuse(askers, &unavailable.reason.into());
            return true;
        }
        let reason: Arc<str> = self.shut(unavailable);
        refuse(askers, &reason);
        refuse(flights.take_waiting(), &reason);
        false
    }

    /// Puts each command where it waits for its turn, as long as there is room.
    fn sort(&self, flights: &mut Flights, batch: Batch) {
        let mut too_many = Vec::new();
        for (command, asker) in batch.commands.into_iter().zip(batch.askers) {
            let is_aside = self.engine.goes_aside(&command);
            too_many.extend(flights.push(command, asker, is_aside));
        }
        let busy = std::iter::repeat_n(Err(Failure::Busy), too_many.len());
        deliver(too_many, busy);
    }
}
