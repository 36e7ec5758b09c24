//! The writer for an engine far away: while one commit is under way the next is begun, so that the two sides need not
//! take turns, and what takes long goes beside the rest.

use std::{
    collections::VecDeque,
    mem::{Discriminant, discriminant},
    sync::Arc,
    time::Instant,
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use penstock_domain::Command;

use super::{COMMIT_INTERVAL, Writer};
use crate::{
    port::{Committed, Engine, Unavailable},
    queue::{Asker, Batch, Failure, deliver, refuse},
};

/// Commits of commands that take long, under way at the same time.
const MAX_ASIDE: usize = 16;

/// A commit that has come to its end.
struct Landed {
    askers: Vec<Asker>,
    started: Instant,
    flight: Flight,
    committed: Result<Committed, Unavailable>,
}

/// How a commit goes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Flight {
    Prompt,
    Aside,
    /// Aside, and no other of its kind with it.
    Gathered,
}

/// What is under way, and what waits to go aside.
#[derive(Default)]
struct Flights {
    prompt: usize,
    aside: usize,
    is_gathered: bool,
    waiting: VecDeque<(Command, Asker)>,
}

impl<E: Engine> Writer<E> {
    /// At most `most` commits at a time, until the ledger is stopped. What is under way when a commit fails comes to its
    /// end before the engine is asked to recover.
    pub(super) async fn commit_overlapping(&mut self, mut serving: bool, most: usize) {
        let (mut flights, mut flying) = (Flights::default(), FuturesUnordered::new());
        let mut rest_until = None;
        let mut stopped = false;
        loop {
            if (!serving || stopped) && flying.is_empty() {
                if stopped || !self.recover().await {
                    break;
                }
                serving = true;
            }
            let takes = serving && !stopped && flights.prompt < most;
            tokio::select! {
                biased;
                Some(landed) = flying.next() => serving &= self.take_down(&mut flights, landed),
                batch = self.next_batch(rest_until, flights.prompt > 0), if takes => match batch {
                    None => stopped = true,
                    Some(batch) => {
                        rest_until = (batch.commands.len() > 1).then(|| Instant::now() + COMMIT_INTERVAL);
                        let prompt = self.put_aside(&mut flights, batch);
                        if !prompt.commands.is_empty() {
                            flights.prompt += 1;
                            flying.push(self.launch(prompt, Flight::Prompt));
                        }
                    }
                },
            }
            // Who waits to go aside waits for others of that kind only, also if the ledger was stopped meanwhile.
            while flights.aside < MAX_ASIDE
                && let Some((batch, flight)) = flights.next_aside(|command| self.engine.gathers(command))
            {
                flights.aside += 1;
                flying.push(self.launch(batch, flight));
            }
        }
    }

    /// While a commit is under way the writer must not block: it has to hear of its end.
    async fn next_batch(&self, rest_until: Option<Instant>, is_flying: bool) -> Option<Batch> {
        match rest_until {
            Some(until) if is_flying => {
                tokio::time::sleep_until(until.into()).await;
                self.queue.take(None).await
            }
            _ => self.queue.take(rest_until).await,
        }
    }

    fn launch(&mut self, batch: Batch, flight: Flight) -> impl Future<Output = Landed> + 'static {
        let Batch { commands, askers } = batch;
        let started = Instant::now();
        let committing = self.engine.commit(commands, (self.clock)());
        async move { Landed { askers, started, flight, committed: committing.await } }
    }

    /// False: the engine failed, and nothing more may be asked of it.
    fn take_down(&self, flights: &mut Flights, landed: Landed) -> bool {
        let Landed { askers, started, flight, committed } = landed;
        let is_aside = flight != Flight::Prompt;
        let count = if is_aside { &mut flights.aside } else { &mut flights.prompt };
        *count -= 1;
        flights.is_gathered &= flight != Flight::Gathered;
        let Err((askers, unavailable)) = self.land(askers, started, committed) else { return true };
        let reason: Arc<str> = if is_aside { unavailable.reason.into() } else { self.shut(unavailable) };
        refuse(askers, &reason);
        is_aside
    }

    /// Takes out of the batch what goes aside.
    fn put_aside(&self, flights: &mut Flights, batch: Batch) -> Batch {
        if !batch.commands.iter().any(|command| self.engine.goes_aside(command)) {
            return batch;
        }
        let mut prompt = Batch { commands: Vec::new(), askers: Vec::new() };
        let mut too_many = Vec::new();
        for (command, asker) in batch.commands.into_iter().zip(batch.askers) {
            if !self.engine.goes_aside(&command) {
                prompt.commands.push(command);
                prompt.askers.push(asker);
            } else if flights.waiting.len() < self.queue.max_queued() {
                flights.waiting.push_back((command, asker));
            } else {
                too_many.push(asker);
            }
        }
        let busy = std::iter::repeat_n(Err(Failure::Busy), too_many.len());
        deliver(too_many, busy);
        prompt
    }
}

impl Flights {
    /// All that wait of the kind that waits longest, because kinds may take very different times. Of those that are
    /// gathered, one commit is under way at a time.
    fn next_aside(&mut self, gathers: impl Fn(&Command) -> bool) -> Option<(Batch, Flight)> {
        let (first, _) = self.waiting.iter().find(|(command, _)| !(self.is_gathered && gathers(command)))?;
        let kind: Discriminant<Command> = discriminant(first);
        let flight = if gathers(first) { Flight::Gathered } else { Flight::Aside };
        self.is_gathered |= flight == Flight::Gathered;
        let (like, others): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|(command, _)| discriminant(command) == kind);
        self.waiting = others;
        let (commands, askers) = like.into_iter().unzip();
        Some((Batch { commands, askers }, flight))
    }
}
