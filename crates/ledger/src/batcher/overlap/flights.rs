//! The commits under way and the commands that wait for their turn: by home, so that a server that hangs
//! holds up only its own sales, and by kind for slow commands. It needs no engine and no clock.

use std::{
    collections::VecDeque,
    mem::{Discriminant, discriminant},
};

use hashbrown::HashMap;
use penstock_domain::{Command, SaleId};

use crate::{
    port::{Home, Homes},
    queue::{Asker, Batch},
};

/// The most commits of slow commands under way at once.
const MAX_ASIDE: usize = 16;

/// Where a commit came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// From a home. None if there is only one, or the commands name no sale.
    Of(Option<Home>),
    Aside,
    /// Aside, and no other of its kind beside it.
    Gathered,
}

pub(super) struct Flights {
    homes: Homes,
    /// A home with nothing under way and nothing waiting is not in the map.
    queues: HashMap<Option<Home>, FlightQueue>,
    aside: FlightQueue,
    is_gathered: bool,
    most: usize,
    max_queued: usize,
    max_batch: usize,
    /// The last sale that was looked up. Most commands are about the same one.
    last: Option<(SaleId, Home)>,
}

#[derive(Default)]
struct FlightQueue {
    flying: usize,
    waiting: VecDeque<(Command, Asker)>,
}

impl Flights {
    /// At most `most` commits of a home are under way at a time. At most `max_queued` commands wait for each
    /// home, and at most `max_batch` are in one commit.
    pub(super) fn new(homes: Homes, most: usize, max_queued: usize, max_batch: usize) -> Self {
        let (queues, aside) = (HashMap::new(), FlightQueue::default());
        Self { homes, queues, aside, is_gathered: false, most, max_queued, max_batch, last: None }
    }

    /// Returns the asker if there is no room.
    pub(super) fn push(&mut self, command: Command, asker: Asker, is_aside: bool) -> Option<Asker> {
        let queue = if is_aside {
            &mut self.aside
        } else {
            let home = self.home_of(&command);
            self.queues.entry(home).or_default()
        };
        if queue.waiting.len() >= self.max_queued {
            return Some(asker);
        }
        queue.waiting.push_back((command, asker));
        None
    }

    fn home_of(&mut self, command: &Command) -> Option<Home> {
        if let Homes::One = self.homes {
            return None;
        }
        let sale = command.sale()?;
        match &self.last {
            Some((last, home)) if *last == sale => Some(home.clone()),
            _ => {
                let home = self.homes.of(sale);
                self.last = Some((sale, home.clone()));
                Some(home)
            }
        }
    }

    /// The next commit that can begin now. Gathered commands have one commit under way at a time.
    pub(super) fn next(&mut self, gathers: impl Fn(&Command) -> bool) -> Option<(Flight, Batch)> {
        let (most, max_batch) = (self.most, self.max_batch);
        let has_turn =
            |(_, queue): &(&Option<Home>, &mut FlightQueue)| queue.flying < most && !queue.waiting.is_empty();
        if let Some((home, queue)) = self.queues.iter_mut().find(has_turn) {
            queue.flying += 1;
            let length = queue.waiting.len().min(max_batch);
            let (commands, askers) = queue.waiting.drain(..length).unzip();
            return Some((Flight::Of(home.clone()), Batch { commands, askers }));
        }
        // A home may move while commands wait for it, so the next ones are looked up again.
        self.last = None;
        if self.aside.flying >= MAX_ASIDE {
            return None;
        }
        let may_go = |(command, _): &&(Command, Asker)| !(self.is_gathered && gathers(command));
        let (first, _) = self.aside.waiting.iter().find(may_go)?;
        let flight = if gathers(first) { Flight::Gathered } else { Flight::Aside };
        let batch = self.aside.take_kind(discriminant(first));
        self.is_gathered |= flight == Flight::Gathered;
        self.aside.flying += 1;
        Some((flight, batch))
    }

    pub(super) fn landed(&mut self, flight: &Flight) {
        match flight {
            Flight::Aside => self.aside.flying -= 1,
            Flight::Gathered => {
                self.aside.flying -= 1;
                self.is_gathered = false;
            }
            Flight::Of(home) => {
                if let Some(queue) = self.queues.get_mut(home) {
                    queue.flying -= 1;
                    if queue.flying == 0 && queue.waiting.is_empty() {
                        self.queues.remove(home);
                    }
                }
            }
        }
    }

    /// Takes everything that waits for a home. Commands that wait to go aside stay: they may not need what
    /// has failed.
    pub(super) fn take_waiting(&mut self) -> Vec<Asker> {
        let waiting = self.queues.values_mut().flat_map(|queue| queue.waiting.drain(..));
        waiting.map(|(_, asker)| asker).collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.aside.waiting.len() + self.queues.values().map(|queue| queue.waiting.len()).sum::<usize>()
    }

    pub(super) fn is_any_home_busy(&self) -> bool {
        self.queues.values().any(|queue| queue.flying > 0)
    }

    pub(super) fn is_any_home_full(&self) -> bool {
        self.queues.values().any(|queue| queue.flying >= self.most)
    }
}

impl FlightQueue {
    /// Takes all waiting commands of one kind. Kinds are not mixed, because they may take very different
    /// times.
    fn take_kind(&mut self, kind: Discriminant<Command>) -> Batch {
        let (like, others): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|(command, _)| discriminant(command) == kind);
        self.waiting = others;
        let (commands, askers) = like.into_iter().unzip();
        Batch { commands, askers }
    }
}
