//! Running a ledger: full queues, impatient buyers, stopping and starting again.

use futures_util::future::{FutureExt, join_all};

use super::{Stage, Subject, claim, counts, sale};
use crate::{BatcherOptions, Health, LedgerError};

pub async fn a_full_queue_is_busy(subject: impl Subject) {
    let options = BatcherOptions { max_queued: 8, max_batch: 1_000 };
    let stage = Stage::open_with(subject, options).await;
    stage.publish(sale(1), 1_000, 1).await;
    let claims: Vec<_> =
        (0..200).map(|n| claim(sale(1), &format!("buyer-{n}"), 1, &format!("key-{n}"))).collect();
    let answers = join_all(claims.iter().map(|claim| stage.claim(claim))).await;
    let busy = answers.iter().filter(|answer| **answer == Err(LedgerError::Busy)).count();
    let accepted = answers.iter().filter(|answer| answer.is_ok()).count();
    assert_eq!(busy + accepted, claims.len());
    assert!(busy > 0 && accepted >= 8, "{busy} busy, {accepted} accepted");
    assert_eq!(stage.status(sale(1)).await.held as usize, accepted, "a busy answer means no hold");
    for claim in &claims {
        stage.claim(claim).await.expect("one at a time there is room");
    }
}

pub async fn a_buyer_who_stops_waiting_delays_nobody(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1_000, 1).await;
    for round in 0..50 {
        let leaver = claim(sale(1), &format!("leaver-{round}"), 1, &format!("leaver-{round}"));
        let stayer = claim(sale(1), &format!("stayer-{round}"), 1, &format!("stayer-{round}"));
        let mut leaving = Box::pin(stage.claim(&leaver));
        assert!((&mut leaving).now_or_never().is_none(), "an answer takes a sync");
        let staying = stage.claim(&stayer);
        drop(leaving);
        staying.await.unwrap();
    }
    // A claim is decided whether or not somebody waits for the answer.
    assert_eq!(stage.status(sale(1)).await.held, 100);
}

pub async fn stopping_answers_waiting_requests(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 1_000, 1).await;
    let claims: Vec<_> =
        (0..300).map(|n| claim(sale(1), &format!("buyer-{n}"), 1, &format!("key-{n}"))).collect();
    let (answers, ()) =
        tokio::join!(join_all(claims.iter().map(|claim| stage.claim(claim))), stage.ledger.stop());
    assert!(answers.iter().all(Result::is_ok), "claims from before the stop are decided");
    let stage = stage.reopen().await;
    assert_eq!(counts(stage.status(sale(1)).await), (1_000, 700, 300, 0));
}

pub async fn a_stopped_ledger_is_unavailable(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    assert_eq!(stage.ledger.health(), Health::Ready);
    stage.ledger.stop().await;
    stage.ledger.stop().await;
    assert_eq!(stage.ledger.health(), Health::Stopped);
    let answer = stage.claim(&claim(sale(1), "ann", 1, "key")).await;
    assert!(matches!(answer, Err(LedgerError::Unavailable(_))));
}

pub async fn reopening_keeps_everything(subject: impl Subject) {
    let stage = Stage::open(subject).await;
    stage.publish(sale(1), 3, 1).await;
    stage.publish(sale(2), 3, 3).await;
    let ann = stage.accepted(sale(1), "ann", 1).await;
    let bob = stage.accepted(sale(2), "bob", 2).await;
    let paid = stage.ledger.confirm_payment(bob.id, None).await.unwrap();
    let (states, stream) = (stage.states().await, stage.stream_of(sale(1)).await);
    let (_, end) = stage.read_all(&stream, 100).await;
    let stage = stage.reopen().await;
    assert_eq!(stage.states().await, states);
    for (stream, (position, _)) in states {
        assert_eq!(stage.ledger.feed().head(&stream), position);
    }
    let first = claim(sale(1), "ann", 1, "ann");
    assert!(stage.heard.has(first.key), "the keys of all sales are news after a start");
    assert_eq!(stage.heard.latest(sale(2)).map(counts), Some((3, 1, 0, 2)));
    assert_eq!(stage.claim(&first).await, Ok(ann));
    assert_eq!(stage.ledger.find_order(bob.id, None).await, Ok(Some(paid)));
    stage.accepted(sale(1), "cem", 1).await;
    assert_eq!(stage.ledger.feed().read(&stream, end, 10).await.unwrap().decisions.len(), 1);
}
