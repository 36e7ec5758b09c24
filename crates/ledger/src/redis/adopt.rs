//! Adoption: gives a sale a home after its server was replaced or started again. Before anything is decided there, the
//! sale's history is compared with what the records have settled. If its end was lost, what the records know wins.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError, Weak},
    time::Duration,
};

use futures_util::{
    future::{BoxFuture, join_all},
    stream::{self, StreamExt},
};
use hashbrown::HashMap;
use penstock_domain::{Cursor, SaleId, SaleSnapshot};
use redis::{Cmd, Value};
use tokio::{
    sync::{Mutex as Turn, Semaphore},
    time::sleep,
};

use super::{
    decider::Adopt,
    keys::Keys,
    link::{Link, Script, answered},
    rebuilt::Rebuilt,
    sales::Sales,
};
use crate::Unavailable;

/// Sales that are compared with the records at the same time: a restart makes all of them homeless at once.
const AT_ONCE: usize = 16;
/// Calls of `put` that go in one round trip.
const PUTS_AT_ONCE: usize = 8;
/// How often, and how long, to look whether somebody else has finished.
const BUSY_INTERVAL: Duration = Duration::from_millis(100);
const BUSY_LOOKS: usize = 100;

/// A sale as the records have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettledSale {
    /// The last decision that is in it.
    pub cursor: Cursor,
    pub sale: SaleSnapshot,
}

/// How a sale was found after its server was replaced, where the records knew better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reconciled {
    pub sale: SaleId,
    /// Decisions that the records had and the ledger had lost.
    pub brought_back: u64,
    /// Decisions that the ledger had made anew in place of lost ones, and that gave way to the records'.
    pub given_up: u64,
}

/// What the records know of sales, for a ledger that may have lost the end of their history.
pub trait Settled: Send + Sync + 'static {
    /// How far the sale's decisions are settled; the default if none is. Whoever settles them has to ask for his lease
    /// anew after this, so that nothing he has read before can be settled any more.
    fn cursor(&self, sale: SaleId) -> BoxFuture<'_, Result<Cursor, Unavailable>>;

    /// The same, and the whole sale at that place; None if no decision of it is settled.
    fn sale(&self, sale: SaleId) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>>;

    /// Every sale that is published and not closed.
    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>>;

    /// A sale was brought back; called after it is on sale again.
    fn reconciled(&self, reconciled: Reconciled) {
        let _ = reconciled;
    }
}

/// For those who have no records: whatever the ledger has is right.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingSettled;

impl Settled for NothingSettled {
    fn cursor(&self, _: SaleId) -> BoxFuture<'_, Result<Cursor, Unavailable>> {
        Box::pin(async { Ok(Cursor::default()) })
    }

    fn sale(&self, _: SaleId) -> BoxFuture<'_, Result<Option<SettledSale>, Unavailable>> {
        Box::pin(async { Ok(None) })
    }

    fn open_sales(&self) -> BoxFuture<'_, Result<Vec<SaleId>, Unavailable>> {
        Box::pin(async { Ok(Vec::new()) })
    }
}

/// Adopts sales. It works on the runtime of its link, whoever asks, and goes on when nobody waits any more.
#[derive(Clone)]
pub(super) struct Adoption {
    inner: Arc<Inner>,
}

struct Inner {
    link: Link,
    keys: Keys,
    script: Script,
    sales: Arc<Sales>,
    settled: Arc<dyn Settled>,
    room: Semaphore,
    /// One adopts a sale, the others wait for it.
    turns: Mutex<HashMap<SaleId, Weak<Turn<()>>>>,
}

/// What the script answered.
struct Answer {
    word: String,
    position: u64,
    epoch: u64,
}

impl fmt::Debug for Adoption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Adoption").field("link", &self.inner.link).finish_non_exhaustive()
    }
}

impl Adopt for Adoption {
    fn adopt(&self, sale: SaleId) -> BoxFuture<'_, Result<(), Unavailable>> {
        let inner = self.inner.clone();
        let adopting = self.inner.link.runtime().spawn(async move { inner.adopt(sale).await });
        Box::pin(async move { adopting.await.map_err(Unavailable::new)? })
    }
}

impl Adoption {
    pub(super) fn new(link: Link, keys: Keys, sales: Arc<Sales>, settled: Arc<dyn Settled>) -> Self {
        let script = Script::new(include_str!("scripts/adopt.lua"));
        link.learn(&script);
        let (room, turns) = (Semaphore::new(AT_ONCE), Mutex::default());
        Self { inner: Arc::new(Inner { link, keys, script, sales, settled, room, turns }) }
    }

    /// Adopts what the records have as open and the ledger has lost altogether, and answers which sales these are.
    pub(super) async fn bring_back_missing(&self) -> Result<Vec<SaleId>, Unavailable> {
        let inner = self.inner.clone();
        let finding = self.inner.link.runtime().spawn(async move { inner.missing().await });
        let missing = finding.await.map_err(Unavailable::new)??;
        let adopted = join_all(missing.iter().map(|sale| self.adopt(*sale))).await;
        adopted.into_iter().collect::<Result<(), _>>()?;
        Ok(missing)
    }
}

impl Inner {
    async fn adopt(&self, sale: SaleId) -> Result<(), Unavailable> {
        let turn = self.turn(sale);
        let _turn = turn.lock().await;
        let _room = self.room.acquire().await.map_err(Unavailable::new)?;
        if self.ask(sale, "look", |_| {}).await?.word == "home" {
            return Ok(());
        }
        let cursor = self.settled.cursor(sale).await?;
        if cursor.position > 0 {
            self.announce(sale).await?;
        }
        let kept = self.ask(sale, "keep", |call| {
            call.arg(cursor.position).arg(&cursor.mark.0).arg(self.new_epoch(sale));
        });
        let kept = kept.await?;
        match kept.word.as_str() {
            "home" => {
                tracing::info!(%sale, position = kept.position, settled = cursor.position, "a sale has a new home");
                Ok(())
            }
            "unknown" => Ok(()),
            "lost" => self.bring_back(sale, &kept).await,
            other => Err(unexpected(other)),
        }
    }

    /// What the records have as open and the ledger does not know.
    async fn missing(&self) -> Result<Vec<SaleId>, Unavailable> {
        let open = self.settled.open_sales().await?;
        let look = async |sale| (sale, self.ask(sale, "look", |_| {}).await);
        let mut looks = stream::iter(open).map(look).buffer_unordered(AT_ONCE);
        let mut missing = Vec::new();
        while let Some((sale, answer)) = looks.next().await {
            if answer?.word == "unknown" {
                missing.push(sale);
            }
        }
        Ok(missing)
    }

    /// The list of all sales is on another server perhaps, and may have lost the sale too.
    async fn announce(&self, sale: SaleId) -> Result<(), Unavailable> {
        let key = self.keys.sales();
        let mut add = redis::cmd("SADD");
        add.arg(&key).arg(sale.to_string());
        self.link.call::<u64>(&key, add).await?;
        Ok(())
    }

    /// Makes the sale what the records say it is.
    async fn bring_back(&self, sale: SaleId, found: &Answer) -> Result<(), Unavailable> {
        let Some(settled) = self.settled.sale(sale).await? else {
            return Err(Unavailable::new("the records have settled a sale that they don't know"));
        };
        let token = token()?;
        if !self.begin(sale, &token).await? {
            return Ok(());
        }
        let rebuilt = Rebuilt::of(&settled.sale);
        self.put(sale, &token, &rebuilt).await?;
        // Whoever had read the lost history could have settled more of it until the fence was raised once more.
        if self.settled.cursor(sale).await? != settled.cursor {
            return Err(Unavailable::new("the records have changed while a sale was brought back"));
        }
        let finished = self.ask(sale, "finish", |call| {
            call.arg(&token).arg(settled.cursor.position).arg(&settled.cursor.mark.0);
            rebuilt.add_to(call);
            call.arg(self.new_epoch(sale));
        });
        match finished.await?.word.as_str() {
            "home" => self.tell(sale, found, settled.cursor),
            "gone" => return Err(Unavailable::new("somebody else brings the sale back")),
            other => return Err(unexpected(other)),
        }
        Ok(())
    }

    /// An epoch that this node has not heard of, whatever the server has lost.
    fn new_epoch(&self, sale: SaleId) -> u64 {
        self.sales.counts(sale).map_or(0, |counts| u64::from(counts.epoch) + 1)
    }

    /// True: the sale is ours to bring back. False: somebody else has done it.
    async fn begin(&self, sale: SaleId, token: &[u8; 16]) -> Result<bool, Unavailable> {
        for _ in 0..BUSY_LOOKS {
            let begun = self.ask(sale, "begin", |call| {
                call.arg(token);
            });
            match begun.await?.word.as_str() {
                "begun" => return Ok(true),
                "home" => return Ok(false),
                "busy" => sleep(BUSY_INTERVAL).await,
                other => return Err(unexpected(other)),
            }
        }
        Err(Unavailable::new("somebody else brings the sale back"))
    }

    async fn put(&self, sale: SaleId, token: &[u8; 16], rebuilt: &Rebuilt) -> Result<(), Unavailable> {
        let puts: Vec<Cmd> = rebuilt
            .chunks()
            .map(|chunk| {
                self.call(sale, "put", |call| {
                    call.arg(token);
                    chunk.add_to(call);
                })
            })
            .collect();
        let key = self.keys.sale(sale);
        for puts in puts.chunks(PUTS_AT_ONCE) {
            let mut pipeline = redis::pipe();
            for put in puts {
                pipeline.add_command(put.clone());
            }
            for value in self.link.run(&key, pipeline, false).await? {
                let answer = answer(&key, value)?;
                if answer.word != "put" {
                    return Err(Unavailable::new("somebody else brings the sale back"));
                }
            }
        }
        Ok(())
    }

    fn tell(&self, sale: SaleId, found: &Answer, settled: Cursor) {
        let brought_back = settled.position.saturating_sub(found.position);
        // A history that has this place but not this mark went another way, at the latest here.
        let has_place = found.position >= settled.position;
        let given_up = if has_place { found.position - settled.position + 1 } else { 0 };
        tracing::warn!(
            %sale,
            brought_back,
            given_up,
            found = found.position,
            settled = settled.position,
            epoch = found.epoch + 1,
            "the ledger had lost decisions that are settled; the sale was brought back from the records"
        );
        self.settled.reconciled(Reconciled { sale, brought_back, given_up });
    }

    fn call(&self, sale: SaleId, step: &str, add: impl FnOnce(&mut Cmd)) -> Cmd {
        let mut call = self.script.call();
        let [sale_key, buyers, orders, feed] = self.keys.of_decide(sale);
        let (new_buyers, new_orders) = (format!("{buyers}:new"), format!("{orders}:new"));
        call.arg(6).arg(sale_key).arg(buyers).arg(orders).arg(feed).arg(new_buyers).arg(new_orders).arg(step);
        add(&mut call);
        call
    }

    async fn ask(&self, sale: SaleId, step: &str, add: impl FnOnce(&mut Cmd)) -> Result<Answer, Unavailable> {
        let key = self.keys.sale(sale);
        let mut pipeline = redis::pipe();
        pipeline.add_command(self.call(sale, step, add));
        let values = self.link.run(&key, pipeline, false).await?;
        answer(&key, values.into_iter().next().unwrap_or(Value::Nil))
    }

    fn turn(&self, sale: SaleId) -> Arc<Turn<()>> {
        let mut turns = self.turns.lock().unwrap_or_else(PoisonError::into_inner);
        turns.retain(|_, turn| turn.strong_count() > 0);
        match turns.get(&sale).and_then(Weak::upgrade) {
            Some(turn) => turn,
            None => {
                let turn = Arc::new(Turn::default());
                turns.insert(sale, Arc::downgrade(&turn));
                turn
            }
        }
    }
}

fn answer(server: &str, value: Value) -> Result<Answer, Unavailable> {
    let (word, position, epoch) = answered(server, Some(value))?;
    Ok(Answer { word, position, epoch })
}

fn token() -> Result<[u8; 16], Unavailable> {
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(Unavailable::new)?;
    Ok(token)
}

fn unexpected(word: &str) -> Unavailable {
    Unavailable::new(format!("Redis answered {word} to an adoption"))
}
