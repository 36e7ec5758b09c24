//! What is under way and what waits for its turn: by home, so that a server that hangs keeps nobody from the sales of the
//! others, and by kind for what takes long. It knows no engine and no time.

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

/// Commits of commands that take long, under way at the same time.
const MAX_ASIDE: usize = 16;

/// Whose turn a commit was.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Flight {
    /// None: it is about the sales of many homes.
    Of(Option<Home>),
    Aside,
    /// Aside, and no other of its kind with it.
    Gathered,
}

pub(super) struct Flights {
    homes: Homes,
    /// A home that has nothing under way and nothing that waits is not here.
    lanes: HashMap<Option<Home>, Lane>,
    aside: Lane,
    is_gathered: bool,
    most: usize,
    max_queued: usize,
    max_batch: usize,
    /// The last sale that was looked up: most commands are about the same one.
    last: Option<(SaleId, Home)>,
}

#[derive(Default)]
struct Lane {
    flying: usize,
    waiting: VecDeque<(Command, Asker)>,
}

impl Flights {
    /// At most `most` commits of a home at a time. At most `max_queued` commands wait for each, and at most `max_batch` are
    /// in one commit.
    pub(super) fn new(homes: Homes, most: usize, max_queued: usize, max_batch: usize) -> Self {
        let (lanes, aside) = (HashMap::new(), Lane::default());
        Self { homes, lanes, aside, is_gathered: false, most, max_queued, max_batch, last: None }
    }

    /// Answers the asker if there is no room.
    pub(super) fn push(&mut self, command: Command, asker: Asker, is_aside: bool) -> Option<Asker> {
        let lane = if is_aside {
            &mut self.aside
        } else {
            let home = self.home_of(&command);
            self.lanes.entry(home).or_default()
        };
        if lane.waiting.len() >= self.max_queued {
            return Some(asker);
        }
        lane.waiting.push_back((command, asker));
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

    /// What can be begun now. Of commands that are gathered, one commit is under way at a time.
    pub(super) fn next(&mut self, gathers: impl Fn(&Command) -> bool) -> Option<(Flight, Batch)> {
        let (most, max_batch) = (self.most, self.max_batch);
        let has_turn =
            |(_, lane): &(&Option<Home>, &mut Lane)| lane.flying < most && !lane.waiting.is_empty();
        if let Some((home, lane)) = self.lanes.iter_mut().find(has_turn) {
            lane.flying += 1;
            let length = lane.waiting.len().min(max_batch);
            let (commands, askers) = lane.waiting.drain(..length).unzip();
            return Some((Flight::Of(home.clone()), Batch { commands, askers }));
        }
        // A home may move while commands wait for it: the next ones are looked up anew.
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
                if let Some(lane) = self.lanes.get_mut(home) {
                    lane.flying -= 1;
                    if lane.flying == 0 && lane.waiting.is_empty() {
                        self.lanes.remove(home);
                    }
                }
            }
        }
    }

    /// All that wait for a home. What waits to go aside is not among them: it may not need what has failed.
    pub(super) fn take_waiting(&mut self) -> Vec<Asker> {
        let waiting = self.lanes.values_mut().flat_map(|lane| lane.waiting.drain(..));
        waiting.map(|(_, asker)| asker).collect()
    }

    pub(super) fn waiting(&self) -> usize {
        self.aside.waiting.len() + self.lanes.values().map(|lane| lane.waiting.len()).sum::<usize>()
    }

    pub(super) fn is_any_home_busy(&self) -> bool {
        self.lanes.values().any(|lane| lane.flying > 0)
    }

    pub(super) fn is_any_home_full(&self) -> bool {
        self.lanes.values().any(|lane| lane.flying >= self.most)
    }
}

impl Lane {
    /// All that wait of one kind, because kinds may take very different times.
    fn take_kind(&mut self, kind: Discriminant<Command>) -> Batch {
        let (like, others): (VecDeque<_>, VecDeque<_>) =
            self.waiting.drain(..).partition(|(command, _)| discriminant(command) == kind);
        self.waiting = others;
        let (commands, askers) = like.into_iter().unzip();
        Batch { commands, askers }
    }
}
