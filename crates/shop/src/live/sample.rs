//! Reads the counters once a second and shows them to the other nodes. While somebody watches, reads theirs,
//! too.

use std::{
    cmp::Reverse,
    collections::BTreeMap,
    convert::Infallible,
    sync::Arc,
    time::{Duration, Instant},
};

use penstock_domain::{SaleId, SaleState};
use tokio::{
    sync::watch,
    time::{MissedTickBehavior, interval, interval_at, timeout},
};

use super::{
    Live, WorkerFigures,
    figures::{MAX_LISTED_SALES, NodeFigures, SettlementFigures, ToldFigures},
};
use crate::{
    ports::{SharedFigures, Shown},
    shop::Shop,
    storefront::Shelf,
};

const EVERY: Duration = Duration::from_secs(1);
/// A process that has been silent for this long is considered unwell.
const SILENT_AFTER: Duration = Duration::from_secs(3);
/// After this long it is forgotten.
const GONE_AFTER: Duration = Duration::from_secs(10);
const _: () = assert!(EVERY.as_millis() < SILENT_AFTER.as_millis());
const _: () = assert!(SILENT_AFTER.as_millis() < GONE_AFTER.as_millis());
/// Neither the other nodes nor the records delay the view for longer.
const PATIENCE: Duration = Duration::from_millis(700);
const _: () = assert!(PATIENCE.as_millis() < EVERY.as_millis());
/// The records are asked once in this many samples.
const ASK_RECORDS_EVERY: u64 = 2;
/// Shown as the name of a node without a name.
const NAMELESS: &str = "this node";

/// A node, and its last two reports.
#[derive(Clone, Debug)]
pub struct SeenNode {
    pub name: String,
    /// The age of its last report.
    pub age: Duration,
    /// Empty if it has reported only once since it began.
    pub before: Option<Arc<NodeFigures>>,
    pub now: Arc<NodeFigures>,
}

impl SeenNode {
    pub fn is_silent(&self) -> bool {
        self.age > SILENT_AFTER
    }
}

/// Everything known at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Two samples with the same number differ only in what they know about the other nodes.
    pub number: u64,
    /// Whether the others were asked, because somebody watched.
    pub is_whole: bool,
    /// This node first.
    pub nodes: Vec<SeenNode>,
    /// According to the worker that settles; empty if none reports.
    pub settlement: Option<SettlementFigures>,
    /// Empty while the records are unavailable.
    pub dead_letters: Option<u64>,
    /// The sales that are not over, newest first.
    pub listed: Vec<SaleId>,
}

/// A process, as last heard of.
struct Heard<T> {
    at: Instant,
    /// Its report before the current one.
    before: Option<Arc<T>>,
    now: Arc<T>,
}

struct Sampler {
    shop: Arc<Shop>,
    began: Instant,
    number: u64,
    own: Heard<NodeFigures>,
    others: BTreeMap<String, Heard<NodeFigures>>,
    workers: BTreeMap<String, (Instant, SettlementFigures)>,
    dead_letters: Option<u64>,
    /// Whether the others were asked the last time.
    is_whole: bool,
    /// Why they could not be asked.
    away: Option<String>,
}

/// Runs until the server stops.
pub async fn run(shop: Arc<Shop>, live: Arc<Live>, mut stop: watch::Receiver<bool>) {
    let mut sampler = Sampler::new(shop);
    live.samples.send_replace(Arc::new(sampler.sample()));
    let mut ticks = interval_at(tokio::time::Instant::now() + EVERY, EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_due = tokio::select! {
            _ = stop.wait_for(|stop| *stop) => return,
            _ = ticks.tick() => true,
            () = live.wanted.notified() => false,
        };
        if is_due {
            sampler.count();
        }
        sampler.exchange(live.is_watched(), is_due).await;
        live.samples.send_replace(Arc::new(sampler.sample()));
    }
}

impl Sampler {
    fn new(shop: Arc<Shop>) -> Self {
        let began = Instant::now();
        let now = Arc::new(NodeFigures::take(&shop, began));
        Self {
            shop,
            began,
            number: 0,
            own: Heard { at: began, before: None, now },
            others: BTreeMap::new(),
            workers: BTreeMap::new(),
            dead_letters: None,
            is_whole: false,
            away: None,
        }
    }

    fn count(&mut self) {
        self.number += 1;
        let now = Arc::new(NodeFigures::take(&self.shop, self.began));
        self.own.before = Some(std::mem::replace(&mut self.own.now, now));
        self.own.at = Instant::now();
    }

    /// Shows the others this node's figures, and reads theirs if somebody watches.
    async fn exchange(&mut self, is_watched: bool, is_due: bool) {
        let shop = Arc::clone(&self.shop);
        self.is_whole = is_watched;
        let tell = async {
            if is_due && shop.options.shared_figures.is_shared() {
                let told = ToldFigures::Node(NodeFigures::clone(&self.own.now)).to_bytes();
                tell(&*shop.options.shared_figures, &shop.options.node, told).await;
            }
        };
        let ask = async {
            match is_watched {
                true => timeout(PATIENCE, shop.options.shared_figures.all()).await.map_or_else(
                    |_| Err("the other nodes' figures did not come in time".to_owned()),
                    |answer| answer.map_err(|error| error.to_string()),
                ),
                false => Ok(Vec::new()),
            }
        };
        let is_known = self.dead_letters.is_some() && !self.number.is_multiple_of(ASK_RECORDS_EVERY);
        let count = async {
            match (is_watched, is_known) {
                (true, false) => {
                    timeout(PATIENCE, shop.records.dead_letter_count()).await.ok().and_then(Result::ok)
                }
                (true, true) => self.dead_letters,
                (false, _) => None,
            }
        };
        let ((), answer, dead_letters) = tokio::join!(tell, ask, count);
        self.dead_letters = dead_letters;
        match answer {
            Ok(shown) if is_watched => self.hear(shown),
            // Old figures say nothing about now.
            Ok(_) => {
                self.others.clear();
                self.workers.clear();
            }
            Err(away) => self.away = Some(away),
        }
        self.forget();
    }

    fn hear(&mut self, shown: Vec<Shown>) {
        self.away = None;
        let now = Instant::now();
        for Shown { name, figures, age } in shown {
            let at = now.checked_sub(age).unwrap_or(now);
            match ToldFigures::from_bytes(&figures) {
                Some(ToldFigures::Node(figures)) if name != self.shop.options.node => {
                    hear_node(&mut self.others, name, figures, at);
                }
                Some(ToldFigures::Worker(figures)) => drop(self.workers.insert(name, (at, figures))),
                // Another version reports something else.
                Some(ToldFigures::Node(_)) | None => {}
            }
        }
    }

    fn forget(&mut self) {
        self.others.retain(|_, heard| heard.at.elapsed() < GONE_AFTER);
        self.workers.retain(|_, (at, _)| at.elapsed() < GONE_AFTER);
    }

    fn sample(&self) -> Sample {
        let name = Some(self.shop.options.node.as_str()).filter(|name| !name.is_empty());
        let mut own = self.own.seen(name.unwrap_or(NAMELESS));
        if let Some(away) = self.away.as_ref().filter(|_| own.now.trouble.is_none()) {
            let now = NodeFigures { trouble: Some(away.clone()), ..NodeFigures::clone(&own.now) };
            own.now = Arc::new(now);
        }
        let others = self.others.iter().map(|(name, heard)| heard.seen(name));
        Sample {
            number: self.number,
            is_whole: self.is_whole,
            nodes: std::iter::once(own).chain(others).collect(),
            settlement: self.settlement(),
            dead_letters: self.dead_letters,
            listed: if self.is_whole { listed(&self.shop) } else { Vec::new() },
        }
    }

    /// A worker knows how many decisions are settled, but learns of some a little late, and of none when it has
    /// just started. So the worker that knows of the most is right.
    fn settlement(&self) -> Option<SettlementFigures> {
        if !self.shop.options.shared_figures.is_shared() {
            return Some((self.shop.options.settlement)().into());
        }
        let told = self.workers.values().filter(|(at, _)| at.elapsed() <= SILENT_AFTER);
        let told: Vec<&SettlementFigures> = told.map(|(_, figures)| figures).collect();
        let furthest =
            told.iter().max_by_key(|figures| (figures.position, Reverse(figures.lag_decisions)))?;
        let trouble = told.iter().find_map(|figures| figures.trouble.clone());
        Some(SettlementFigures { trouble, ..SettlementFigures::clone(furthest) })
    }
}

/// Computed once for all watchers: there may be thousands of sales to choose from.
fn listed(shop: &Shop) -> Vec<SaleId> {
    let now = shop.now();
    let goes_on =
        |shelf: &Arc<Shelf>| shelf.status().is_some_and(|status| status.state(now) != SaleState::Closed);
    let sales = shop.storefront.on_show().into_iter().filter(goes_on).map(|shelf| shelf.id);
    sales.take(MAX_LISTED_SALES).collect()
}

impl Heard<NodeFigures> {
    fn seen(&self, name: &str) -> SeenNode {
        SeenNode {
            name: name.to_owned(),
            age: self.at.elapsed(),
            before: self.before.clone(),
            now: Arc::clone(&self.now),
        }
    }
}

fn hear_node(
    others: &mut BTreeMap<String, Heard<NodeFigures>>,
    name: String,
    figures: NodeFigures,
    at: Instant,
) {
    match others.get_mut(&name) {
        // Nothing new since the last report.
        Some(heard) if heard.now.counted_milliseconds == figures.counted_milliseconds => heard.at = at,
        Some(heard) => {
            heard.before = Some(std::mem::replace(&mut heard.now, Arc::new(figures)));
            heard.at = at;
        }
        None => drop(others.insert(name, Heard { at, before: None, now: Arc::new(figures) })),
    }
}

/// If this fails, the others notice that nothing comes.
async fn tell(shared: &dyn SharedFigures, name: &str, told: Vec<u8>) {
    match timeout(PATIENCE, shared.put(name, told, GONE_AFTER)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "this process's figures can't be shown to the others"),
        Err(_) => tracing::debug!("this process's figures could not be shown to the others in time"),
    }
}

impl WorkerFigures {
    /// Shows the nodes how far settlement is, until dropped.
    pub async fn show(&self, shared: &dyn SharedFigures) -> Infallible {
        let mut ticks = interval(EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let told = ToldFigures::Worker((self.settlement)().into()).to_bytes();
            tell(shared, &self.name, told).await;
        }
    }
}
