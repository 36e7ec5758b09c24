//! The batcher with engines made for these tests: how batches form, and what a broken engine leads to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::{
    collections::VecDeque,
    convert::Infallible,
    os::unix::process::ExitStatusExt,
    process::Command as Process,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    time::{Duration, Instant},
};

use futures_util::future::{BoxFuture, FutureExt, join_all};
use penstock_domain::{BookSnapshot, BuyerId, Claim, Command, Cursor, KeyDigest, Reply, SaleId, Timestamp};
use penstock_ledger::{
    BatcherOptions, Committed, Engine, Feed, FeedError, Health, Ledger, LedgerError, Listener, Piece,
    SaleNews, Unavailable, batcher,
};
use tokio::{sync::oneshot, task::JoinHandle};

struct Nothing;

impl Listener for Nothing {
    fn sales_changed(&self, _news: &[SaleNews]) {}
}

impl Feed for Nothing {
    fn streams(&self) -> BoxFuture<'_, Result<Vec<Arc<str>>, Unavailable>> {
        std::future::ready(Ok(Vec::new())).boxed()
    }

    fn read<'a>(
        &'a self,
        _stream: &'a str,
        after: Cursor,
        _max: usize,
    ) -> BoxFuture<'a, Result<Piece, FeedError>> {
        std::future::ready(Ok(Piece::nothing_after(after))).boxed()
    }

    fn head(&self, _stream: &str) -> u64 {
        0
    }

    fn settled(&self, _stream: &str, _cursor: Cursor) {}

    fn state<'a>(&'a self, _stream: &'a str) -> BoxFuture<'a, Result<BookSnapshot, Unavailable>> {
        std::future::ready(Err(Unavailable::new("there is none"))).boxed()
    }
}

/// Takes its time, and remembers the size of each batch.
#[derive(Clone, Default)]
struct Slow {
    batches: Arc<Mutex<Vec<usize>>>,
}

impl Engine for Slow {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        _now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        self.batches.lock().unwrap().push(commands.len());
        async move {
            tokio::time::sleep(Duration::from_millis(20)).await;
            Ok(nothing_released(&commands))
        }
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        Ok(Vec::new())
    }
}

fn nothing_released(commands: &[Command]) -> Committed {
    Committed { replies: commands.iter().map(|_| Ok(Reply::Expired(0))).collect(), news: Vec::new() }
}

struct Broken;

impl Engine for Broken {
    fn commit(
        &mut self,
        _commands: Vec<Command>,
        _now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        std::future::poll_fn(|_| panic!("units are not conserved"))
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        Ok(Vec::new())
    }
}

fn start(engine: impl Engine, options: BatcherOptions) -> Ledger {
    let clock = Arc::new(|| Timestamp::from_millis(0));
    batcher::start(engine, Arc::new(Nothing), options, clock, Arc::new(Nothing)).unwrap()
}

/// Each commit ends when the test lets it. Recalls go aside.
#[derive(Clone, Default)]
struct Gated {
    gates: Arc<Mutex<VecDeque<Gate>>>,
    recoveries: Arc<AtomicUsize>,
}

type Gate = oneshot::Sender<Result<(), Unavailable>>;

impl Engine for Gated {
    fn commit(
        &mut self,
        commands: Vec<Command>,
        _now: Timestamp,
    ) -> impl Future<Output = Result<Committed, Unavailable>> + 'static {
        let (gate, opened) = oneshot::channel();
        self.gates.lock().unwrap().push_back(gate);
        async move {
            opened.await.map_err(Unavailable::new)??;
            Ok(nothing_released(&commands))
        }
    }

    fn max_in_flight(&self) -> usize {
        2
    }

    fn goes_aside(&self, command: &Command) -> bool {
        matches!(command, Command::Recall(_))
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        self.recoveries.fetch_add(1, SeqCst);
        Ok(Vec::new())
    }
}

impl Gated {
    /// Waits until this many commits are under way.
    async fn under_way(&self, count: usize) {
        while self.gates.lock().unwrap().len() != count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    fn open(&self, outcome: Result<(), Unavailable>) {
        self.gates.lock().unwrap().pop_front().unwrap().send(outcome).unwrap();
    }

    /// Sends a command, and waits until `count` commits are under way.
    async fn ask(&self, ledger: &Ledger, count: usize) -> JoinHandle<Result<u32, LedgerError<Infallible>>> {
        let ledger = ledger.clone();
        let asked = tokio::spawn(async move { ledger.expire_due(1).await });
        self.under_way(count).await;
        asked
    }
}

#[tokio::test]
async fn the_next_commit_begins_while_one_is_under_way() {
    let engine = Gated::default();
    let ledger = start(engine.clone(), BatcherOptions::default());
    let first = engine.ask(&ledger, 1).await;
    let second = engine.ask(&ledger, 2).await;
    // There is no third commit: this command waits until one of the two is through.
    let third = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.expire_due(1).await }
    });
    while ledger.queue_depth() == 0 {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    assert_eq!(engine.gates.lock().unwrap().len(), 2);
    engine.open(Ok(()));
    assert_eq!(first.await.unwrap(), Ok(0));
    engine.under_way(2).await;
    engine.open(Ok(()));
    engine.open(Ok(()));
    assert_eq!((second.await.unwrap(), third.await.unwrap()), (Ok(0), Ok(0)));
}

#[tokio::test]
async fn after_a_failure_running_commits_end_before_the_engine_recovers() {
    let engine = Gated::default();
    let ledger = start(engine.clone(), BatcherOptions::default());
    let first = engine.ask(&ledger, 1).await;
    let second = engine.ask(&ledger, 2).await;
    engine.open(Err(Unavailable::new("cut")));
    assert!(matches!(first.await.unwrap(), Err(LedgerError::Unavailable(_))));
    assert!(matches!(ledger.expire_due(1).await, Err(LedgerError::Unavailable(_))), "it is shut");
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(engine.recoveries.load(SeqCst), 1, "only the one at the start so far");
    engine.open(Ok(()));
    assert_eq!(second.await.unwrap(), Ok(0));
    while engine.recoveries.load(SeqCst) < 2 || ledger.health() != Health::Ready {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let again = engine.ask(&ledger, 1).await;
    engine.open(Ok(()));
    assert_eq!(again.await.unwrap(), Ok(0));
}

#[tokio::test]
async fn a_command_aside_fails_alone_and_delays_nobody() {
    let engine = Gated::default();
    let ledger = start(engine.clone(), BatcherOptions::default());
    let aside = tokio::spawn({
        let ledger = ledger.clone();
        let (buyer, key) = (BuyerId::of_subject("ann").unwrap(), KeyDigest::of(b"key").unwrap());
        let claim = Claim { sale: SaleId::from_random(1), buyer, quantity: 1, key };
        async move { ledger.recall(claim).await }
    });
    engine.under_way(1).await;
    let gate_of_aside = engine.gates.lock().unwrap().pop_front().unwrap();
    for _ in 0..5 {
        let prompt = engine.ask(&ledger, 1).await;
        engine.open(Ok(()));
        assert_eq!(prompt.await.unwrap(), Ok(0));
    }
    gate_of_aside.send(Err(Unavailable::new("too slow"))).unwrap();
    assert!(matches!(aside.await.unwrap(), Err(LedgerError::Unavailable(_))));
    assert_eq!((ledger.health(), engine.recoveries.load(SeqCst)), (Health::Ready, 1));
}

#[tokio::test]
async fn stopping_waits_for_running_commits() {
    let engine = Gated::default();
    let ledger = start(engine.clone(), BatcherOptions::default());
    let asked = engine.ask(&ledger, 1).await;
    let stopping = tokio::spawn({
        let ledger = ledger.clone();
        async move { ledger.stop().await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!stopping.is_finished());
    engine.open(Ok(()));
    assert_eq!(asked.await.unwrap(), Ok(0));
    stopping.await.unwrap();
}

#[tokio::test]
async fn commands_that_arrive_together_are_decided_together() {
    let engine = Slow::default();
    let ledger = start(engine.clone(), BatcherOptions::default());
    join_all((0..500).map(|_| ledger.expire_due(1))).await;
    assert_eq!(*engine.batches.lock().unwrap(), [500]);
    let stats = ledger.stats();
    assert_eq!((stats.batches, stats.commands, stats.failed_commands), (1, 500, 0));
    assert_eq!(stats.batch_sizes.iter().sum::<u64>(), 1);
    assert!(stats.commit_time >= Duration::from_millis(20));
}

#[tokio::test]
async fn commands_that_arrive_during_a_commit_form_the_next_batch() {
    let engine = Slow::default();
    let ledger = start(engine.clone(), BatcherOptions::default());
    let late = async {
        while engine.batches.lock().unwrap().is_empty() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        join_all((0..300).map(|_| ledger.expire_due(1))).await
    };
    let (first, _) = tokio::join!(ledger.expire_due(1), late);
    assert_eq!(first, Ok(0));
    assert_eq!(*engine.batches.lock().unwrap(), [1, 300]);
}

#[tokio::test]
async fn no_batch_is_larger_than_the_bound() {
    let engine = Slow::default();
    let ledger = start(engine.clone(), BatcherOptions { max_queued: 1_000, max_batch: 64 });
    let answers = join_all((0..200).map(|_| ledger.expire_due(1))).await;
    assert!(answers.iter().all(Result::is_ok));
    let batches = engine.batches.lock().unwrap().clone();
    assert!(batches.iter().all(|size| *size <= 64), "{batches:?}");
    assert_eq!(batches.iter().sum::<usize>(), 200);
}

#[tokio::test]
async fn an_answer_has_the_time_when_the_writer_gave_it() {
    const BUSY: Duration = Duration::from_millis(400);
    let ledger = start(Slow::default(), BatcherOptions::default());
    ledger.recovered().await;
    let asked_at = Instant::now();
    // The asking thread is busy when the answer comes.
    let busy = async {
        tokio::time::sleep(Duration::from_millis(5)).await;
        std::thread::sleep(BUSY);
    };
    let ((_, given_at), ()) = tokio::join!(ledger.decide(Command::ExpireDue { max: 1 }), busy);
    assert!(asked_at.elapsed() >= BUSY);
    assert!(given_at - asked_at < BUSY, "{:?}", given_at - asked_at);
}

#[tokio::test]
async fn the_writer_ends_with_the_last_handle() {
    let engine = Slow::default();
    let batches = Arc::downgrade(&engine.batches);
    let ledger = start(engine, BatcherOptions::default());
    ledger.expire_due(1).await.unwrap();
    drop(ledger);
    for _ in 0..500 {
        if batches.strong_count() == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("the writer is still there");
}

#[test]
fn a_broken_invariant_ends_the_process() {
    let test = "the_process_of_a_broken_invariant";
    let output = Process::new(std::env::current_exe().unwrap()).args(["--exact", test, "--ignored"]).output();
    let output = output.unwrap();
    assert_eq!(output.status.signal(), Some(6), "it has to abort: {output:?}");
}

#[tokio::test]
#[ignore = "it aborts; a_broken_invariant_ends_the_process runs it"]
async fn the_process_of_a_broken_invariant() {
    drop(start(Broken, BatcherOptions::default()).expire_due(1).await);
    // The caller may hear that the writer is gone before the writer's thread has ended.
    tokio::time::sleep(Duration::from_secs(60)).await;
}
