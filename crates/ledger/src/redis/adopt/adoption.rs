//! Before anything is decided on a server that replaced another, the sale's history is compared with what the
//! records have settled. If the end of the history was lost, the records win.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use futures_util::{
    future::join_all,
    stream::{self, StreamExt},
};
use hashbrown::HashMap;
use parking_lot::Mutex;
use penstock_domain::{NewEpoch, SaleId};
use penstock_redis_client::{Script, answered};
use redis::Cmd;
use tokio::{
    sync::{Mutex as AsyncMutex, Semaphore},
    time::{sleep, timeout},
};

use super::{
    rebuilt::Rebuilt,
    settled::{Reconciled, Settled},
};
use crate::{
    Unavailable,
    redis::{layout::FoundSale, store::Store},
};

/// The most sales that are compared with the records at once: a restart makes all of them homeless.
const AT_ONCE: usize = 16;
/// Calls of `put` in one round trip.
const PUTS_AT_ONCE: usize = 8;
/// How often, and how many times, to check whether another node has finished.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);
const BUSY_LOOKS: usize = 100;
/// How many times to look at a sale again because its server was replaced meanwhile, or another node was
/// quicker.
const LOOKS: usize = 4;
/// The lifetime of the key whose write the replicas confirm.
const PROOF_MILLISECONDS: u64 = 1_000;
/// Records that take longer than this to answer count as away. Reading a whole sale takes longer.
const CURSOR_WITHIN: Duration = Duration::from_secs(2);
const SALE_WITHIN: Duration = Duration::from_secs(60);

/// Adopts sales on the runtime of its link. An adoption goes on even if nobody waits for it any longer.
pub(crate) struct Adoption {
    store: Store,
    script: Script,
    settled: Arc<dyn Settled>,
    room: Semaphore,
    /// One task adopts a sale, the others wait for it.
    adopting: Mutex<HashMap<SaleId, Weak<AsyncMutex<()>>>>,
}

/// The script's answer.
#[derive(Clone, Debug)]
struct AdoptAnswer {
    word: String,
    position: u64,
    epoch: u64,
    /// The replication id of the server that answered. Another server has other data.
    home: String,
}

/// The result of comparing a sale with the records.
#[derive(Debug)]
enum Compared {
    /// The sale has its home, or does not exist.
    Done,
    /// The ledger lacks decisions that the records have settled.
    Lost(AdoptAnswer),
    /// The ledger has more than the records, but no longer the place where they end.
    Trimmed,
    /// The sale has changed since it was looked at.
    Gone,
}

/// One attempt to adopt a sale: which server was looked at, and what the records said then.
#[derive(Clone, Copy, Debug)]
struct AdoptAttempt<'a> {
    sale: SaleId,
    home: &'a str,
    begun: NewEpoch,
    /// What this node knew of the sale before it looked.
    known: Option<FoundSale>,
}

impl Adoption {
    pub(crate) fn new(store: Store, settled: Arc<dyn Settled>) -> Arc<Self> {
        let script = Script::new(include_str!("../scripts/adopt.lua"));
        store.link.learn(&script);
        let (room, adopting) = (Semaphore::new(AT_ONCE), Mutex::default());
        Arc::new(Self { store, script, settled, room, adopting })
    }

    /// Gives the sale a home, if it has none.
    pub(crate) async fn adopt(self: &Arc<Self>, sale: SaleId) -> Result<(), Unavailable> {
        let adoption = self.clone();
        let adopting = self.store.link.runtime().spawn(async move { adoption.adopt_here(sale).await });
        adopting.await.map_err(Unavailable::new)?
    }

    /// Adopts the sales that are open in the records and missing from the ledger. Returns them.
    pub(crate) async fn bring_back_missing(self: &Arc<Self>) -> Result<Vec<SaleId>, Unavailable> {
        let adoption = self.clone();
        let finding = self.store.link.runtime().spawn(async move { adoption.missing().await });
        let missing = finding.await.map_err(Unavailable::new)??;
        let adopted = join_all(missing.iter().map(|sale| self.adopt(*sale))).await;
        adopted.into_iter().collect::<Result<(), _>>()?;
        Ok(missing)
    }

    async fn adopt_here(&self, sale: SaleId) -> Result<(), Unavailable> {
        let turn = self.turn(sale);
        let _alone = turn.lock().await;
        let _room = self.room.acquire().await.map_err(Unavailable::new)?;
        let mut trouble = "the sale's server is being replaced";
        for _ in 0..LOOKS {
            let known = self.store.sales.get(sale);
            let look = self.look(sale).await?;
            if look.word == "home" && !self.store.sales.is_doubted(sale) {
                return Ok(());
            }
            match self.compare(sale, &look, known).await? {
                Compared::Done => {
                    self.store.sales.believe(sale);
                    return Ok(());
                }
                Compared::Trimmed => trouble = "the records are older than the ledger; restore newer ones",
                Compared::Gone | Compared::Lost(_) => {}
            }
        }
        Err(Unavailable::new(trouble))
    }

    /// Compares the sale with the records, and brings it back if it has lost settled decisions.
    async fn compare(
        &self,
        sale: SaleId,
        look: &AdoptAnswer,
        known: Option<FoundSale>,
    ) -> Result<Compared, Unavailable> {
        self.prove(sale).await?;
        let least = least_epoch(look, known);
        // The records are asked after the look, so either that server decides the sale next, or none does.
        let begun = within(CURSOR_WITHIN, self.settled.begin_epoch(sale, least)).await?;
        if begun.cursor.position > 0 {
            // The list of all sales may be on another server, which may have lost it too.
            self.store.list(&[sale], false, self.store.link.deadline()).await?;
        }
        match self.keep(AdoptAttempt { sale, home: &look.home, begun, known }).await? {
            Compared::Lost(_) => {}
            other => return Ok(other),
        }
        let Some(settled) = within(SALE_WITHIN, self.settled.sale(sale, least)).await? else {
            return Err(Unavailable::new("the records have settled a sale that they don't know"));
        };
        let attempt = AdoptAttempt { sale, home: &look.home, begun: settled.begun, known };
        self.bring_back(attempt, &Rebuilt::of(&settled.sale)).await
    }

    /// Makes sure that enough replicas follow the server before the records are told to go on with it: a
    /// master that is cut off must not take a sale from the one that replaced it.
    async fn prove(&self, sale: SaleId) -> Result<(), Unavailable> {
        let key = self.store.keys.proof(sale);
        let mut proof = redis::cmd("SET");
        proof.arg(&key).arg(1).arg("PX").arg(PROOF_MILLISECONDS);
        Ok(self.store.link.call_confirmed(&key, proof).await?)
    }

    /// Keeps the history that is there, if it has everything settled.
    async fn keep(&self, attempt: AdoptAttempt<'_>) -> Result<Compared, Unavailable> {
        let AdoptAttempt { sale, begun, .. } = attempt;
        let kept = self.ask(attempt, "keep", |call| {
            call.arg(begun.cursor.position).arg(&begun.cursor.mark.0);
        });
        let kept = kept.await?;
        // Otherwise another node was quicker, and has reported it.
        let is_ours = kept.epoch < begun.epoch;
        match kept.word.as_str() {
            "home" if is_ours => {
                let (position, settled) = (kept.position, begun.cursor.position);
                tracing::info!(%sale, position, settled, epoch = begun.epoch, "a sale has a new home");
                self.tell_lost(attempt, kept.epoch, position);
                Ok(Compared::Done)
            }
            "unknown" => {
                self.tell_lost(attempt, kept.epoch, 0);
                // Unless the sale was published meanwhile.
                if self.store.sales.get(sale) == attempt.known {
                    self.store.sales.forget(sale);
                }
                Ok(Compared::Done)
            }
            "home" => Ok(Compared::Done),
            "gone" => Ok(Compared::Gone),
            "lost" => Ok(Compared::Lost(kept)),
            "trimmed" => {
                let (position, settled) = (kept.position, begun.cursor.position);
                tracing::error!(%sale, position, settled, "the records are older than the ledger, which no longer has the decisions between; restore newer records");
                Ok(Compared::Trimmed)
            }
            other => Err(unexpected(other)),
        }
    }

    /// The sales that are open in the records and that the ledger does not know.
    async fn missing(&self) -> Result<Vec<SaleId>, Unavailable> {
        let open = within(CURSOR_WITHIN, self.settled.open_sales()).await?;
        let look = async |sale| (sale, self.look(sale).await);
        let mut looks = stream::iter(open).map(look).buffer_unordered(AT_ONCE);
        let mut missing = Vec::new();
        while let Some((sale, answer)) = looks.next().await {
            if answer?.word == "unknown" {
                missing.push(sale);
            }
        }
        Ok(missing)
    }

    /// Replaces the sale with what the records have.
    async fn bring_back(
        &self,
        attempt: AdoptAttempt<'_>,
        rebuilt: &Rebuilt,
    ) -> Result<Compared, Unavailable> {
        let found = match self.begin(attempt).await? {
            Compared::Lost(found) => found,
            other => return Ok(other),
        };
        if !self.put(attempt, rebuilt).await? {
            return Ok(Compared::Gone);
        }
        // Nobody can have settled more of the lost history: its epoch is older than the records'.
        let cursor = attempt.begun.cursor;
        let finished = self.ask(attempt, "finish", |call| {
            call.arg(cursor.position).arg(&cursor.mark.0);
            rebuilt.add_to(call);
        });
        let word = match finished.await {
            Ok(answer) => answer.word,
            Err(_) if self.is_finished(attempt).await? => "home".to_owned(),
            Err(error) => return Err(error),
        };
        match word.as_str() {
            "home" => self.tell(attempt, &found),
            "gone" => return Ok(Compared::Gone),
            other => return Err(unexpected(other)),
        }
        Ok(Compared::Done)
    }

    /// Whether the sale was brought back although the answer did not arrive.
    async fn is_finished(&self, attempt: AdoptAttempt<'_>) -> Result<bool, Unavailable> {
        sleep(BUSY_INTERVAL).await;
        let look = self.look(attempt.sale).await?;
        Ok(look.word == "home" && look.epoch == attempt.begun.epoch)
    }

    /// `Lost`: this node may bring the sale back, and this is how it found it.
    async fn begin(&self, attempt: AdoptAttempt<'_>) -> Result<Compared, Unavailable> {
        for _ in 0..BUSY_LOOKS {
            // Nothing more can be settled now, so check again: if the history has everything settled, it
            // stays.
            let found = match self.keep(attempt).await? {
                Compared::Lost(found) => found,
                other => return Ok(other),
            };
            let cursor = attempt.begun.cursor;
            let begun = self.ask(attempt, "begin", |call| {
                call.arg(cursor.position).arg(&cursor.mark.0);
            });
            match begun.await?.word.as_str() {
                "begun" => return Ok(Compared::Lost(found)),
                "home" | "gone" => return Ok(Compared::Gone),
                "busy" => sleep(BUSY_INTERVAL).await,
                other => return Err(unexpected(other)),
            }
        }
        Err(Unavailable::new("another node is still bringing the sale back"))
    }

    /// False if another node has started over, or the server was replaced.
    async fn put(&self, attempt: AdoptAttempt<'_>, rebuilt: &Rebuilt) -> Result<bool, Unavailable> {
        let puts = rebuilt.chunks().map(|chunk| self.call(attempt, "put", |call| chunk.add_to(call)));
        let (key, puts) = (self.store.keys.sale(attempt.sale), puts.collect::<Vec<Cmd>>());
        for puts in puts.chunks(PUTS_AT_ONCE) {
            let mut pipeline = redis::pipe();
            for put in puts {
                pipeline.add_command(put.clone());
            }
            for value in self.store.link.run(&key, pipeline, false).await? {
                if AdoptAnswer::of(answered(&key, Some(value))?).word != "put" {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    fn tell(&self, attempt: AdoptAttempt<'_>, found: &AdoptAnswer) {
        let AdoptAttempt { sale, begun, .. } = attempt;
        let settled = begun.cursor.position;
        let brought_back = settled.saturating_sub(found.position);
        // A history that has this position but another mark diverged here or earlier.
        let has_place = found.position >= settled;
        let given_up = if has_place { found.position - settled + 1 } else { 0 };
        tracing::warn!(
            %sale,
            brought_back,
            given_up,
            found = found.position,
            settled,
            epoch = begun.epoch,
            "the ledger had lost decisions that are settled; the sale was brought back from the records"
        );
        self.settled.reconciled(Reconciled { sale, brought_back, given_up });
        self.tell_lost(attempt, found.epoch, settled);
    }

    /// Reports decisions that this node had heard of and that are gone. Decisions from before the epoch that
    /// was found were reported earlier.
    fn tell_lost(&self, AdoptAttempt { sale, known, .. }: AdoptAttempt<'_>, epoch: u64, position: u64) {
        let known = known.filter(|known| known.epoch() >= epoch);
        let decisions = known.map_or(0, |known| known.position().saturating_sub(position));
        if decisions > 0 {
            tracing::warn!(%sale, decisions, position, "the ledger has lost decisions that were not settled yet");
            self.settled.lost(sale, decisions);
        }
    }

    fn call(&self, attempt: AdoptAttempt<'_>, step: &str, add: impl FnOnce(&mut Cmd)) -> Cmd {
        let mut call = self.step(attempt.sale, step);
        call.arg(attempt.home).arg(attempt.begun.epoch);
        add(&mut call);
        call
    }

    fn step(&self, sale: SaleId, step: &str) -> Cmd {
        let mut call = self.script.call();
        let keys = self.store.keys.of_adopt(sale);
        call.arg(keys.len()).arg(&keys).arg(step);
        call
    }

    async fn look(&self, sale: SaleId) -> Result<AdoptAnswer, Unavailable> {
        self.send(sale, self.step(sale, "look")).await
    }

    async fn ask(
        &self,
        attempt: AdoptAttempt<'_>,
        step: &str,
        add: impl FnOnce(&mut Cmd),
    ) -> Result<AdoptAnswer, Unavailable> {
        self.send(attempt.sale, self.call(attempt, step, add)).await
    }

    async fn send(&self, sale: SaleId, call: Cmd) -> Result<AdoptAnswer, Unavailable> {
        Ok(AdoptAnswer::of(self.store.link.call(&self.store.keys.sale(sale), call).await?))
    }

    fn turn(&self, sale: SaleId) -> Arc<AsyncMutex<()>> {
        let mut adopting = self.adopting.lock();
        adopting.retain(|_, turn| turn.strong_count() > 0);
        if let Some(turn) = adopting.get(&sale).and_then(Weak::upgrade) {
            return turn;
        }
        let turn = Arc::default();
        adopting.insert(sale, Arc::downgrade(&turn));
        turn
    }
}

impl AdoptAnswer {
    fn of((word, position, epoch, home): (String, u64, u64, String)) -> Self {
        Self { word, position, epoch, home }
    }
}

/// The smallest epoch that neither the server nor this node has heard of.
fn least_epoch(look: &AdoptAnswer, known: Option<FoundSale>) -> u64 {
    let is_there = look.word != "unknown";
    let known = known.map_or(0, |known| known.epoch() + 1);
    known.max(look.epoch + u64::from(is_there))
}

/// A silent database must not keep a sale from being looked at again.
async fn within<T>(
    limit: Duration,
    asked: impl Future<Output = Result<T, Unavailable>>,
) -> Result<T, Unavailable> {
    let silent = |_| Unavailable::new("the records don't answer");
    timeout(limit, asked).await.map_err(silent)?
}

fn unexpected(word: &str) -> Unavailable {
    Unavailable::new(format!("Redis answered {word} to an adoption"))
}
