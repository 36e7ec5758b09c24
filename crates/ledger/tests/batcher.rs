//! The batcher with engines made up for the purpose: how batches form, and what a broken engine leads to.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "these are tests")]

use std::{
    os::unix::process::ExitStatusExt,
    process::Command as Process,
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::{BoxFuture, FutureExt, join_all};
use penstock_domain::{BookSnapshot, Command, Cursor, Reply, Timestamp};
use penstock_ledger::{
    BatcherOptions, Committed, Engine, Feed, FeedError, Ledger, Listener, Piece, SaleNews, Unavailable,
    batcher,
};

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

/// Takes its time and remembers how many it was asked at once.
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
        async { panic!("units are not conserved") }
    }

    async fn recover(&mut self) -> Result<Vec<SaleNews>, Unavailable> {
        Ok(Vec::new())
    }
}

fn start(engine: impl Engine, options: BatcherOptions) -> Ledger {
    let clock = Arc::new(|| Timestamp::from_millis(0));
    batcher::start(engine, Arc::new(Nothing), options, clock, Arc::new(Nothing)).unwrap()
}

#[tokio::test]
async fn what_is_asked_together_is_decided_together() {
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
async fn what_arrives_during_a_commit_forms_the_next_batch() {
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
    // Who asked may hear that the writer is gone before the writer's thread has come to its end.
    tokio::time::sleep(Duration::from_secs(60)).await;
}
