//! Reads of the records that anybody can cause by requesting something that is not cached. They get half of
//! the connections. The rest is left to the shop itself, and to people who sign in or manage it. It does not
//! know what is read.

use std::{future::Future, time::Duration};

use penstock_records::{Records, RecordsError};
use tokio::{sync::Semaphore, time::timeout};

/// The same as the records' patience for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Loads {
    turns: Semaphore,
    patience: Duration,
}

impl Loads {
    pub fn new(records: &Records) -> Self {
        let at_once = (records.max_readers() as usize / 2).max(1);
        Self { turns: Semaphore::new(at_once), patience: PATIENCE }
    }

    /// Asks the records, in turn.
    pub async fn read<T>(
        &self,
        question: impl Future<Output = Result<T, RecordsError>>,
    ) -> Result<T, RecordsError> {
        let Ok(_turn) = timeout(self.patience, self.turns.acquire()).await else {
            return Err(RecordsError::Unavailable("too many other reads are waiting for it".into()));
        };
        question.await
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use super::*;

    #[tokio::test]
    async fn few_reads_run_at_once_and_none_waits_for_ever() {
        let loads = Arc::new(Loads { turns: Semaphore::new(4), patience: Duration::from_millis(50) });
        let stuck: Vec<_> = (0..4)
            .map(|_| {
                let loads = Arc::clone(&loads);
                tokio::spawn(async move { loads.read(pending::<Result<(), _>>()).await })
            })
            .collect();
        tokio::task::yield_now().await;
        let refused = loads.read(async { Ok(()) }).await;
        assert!(matches!(refused, Err(RecordsError::Unavailable(_))), "{refused:?}");
        stuck.iter().for_each(tokio::task::JoinHandle::abort);
        assert!(loads.read(async { Ok(()) }).await.is_ok());
    }
}
