//! Reads of the records that anybody can cause by asking for what nobody has asked for before: a few at once, so that they leave
//! the rest of the connections to those who sign in or manage the shop. It does not know what is read.

use std::{future::Future, time::Duration};

use penstock_records::RecordsError;
use tokio::{sync::Semaphore, time::timeout};

const AT_ONCE: usize = 4;
/// As long as the records wait for a connection.
const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(crate) struct Loads {
    turns: Semaphore,
    patience: Duration,
}

impl Default for Loads {
    fn default() -> Self {
        Self { turns: Semaphore::new(AT_ONCE), patience: PATIENCE }
    }
}

impl Loads {
    /// Asks the records when there is a turn for it.
    pub(crate) async fn read<T>(
        &self,
        question: impl Future<Output = Result<T, RecordsError>>,
    ) -> Result<T, RecordsError> {
        let Ok(_turn) = timeout(self.patience, self.turns.acquire()).await else {
            return Err(RecordsError::Unavailable("too much is being read from it".into()));
        };
        question.await
    }
}

#[cfg(test)]
mod tests {
    use std::{future::pending, sync::Arc};

    use super::*;

    #[tokio::test]
    async fn few_are_read_at_once_and_nobody_waits_for_ever() {
        let loads = Arc::new(Loads { patience: Duration::from_millis(50), ..Loads::default() });
        let stuck: Vec<_> = (0..AT_ONCE)
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
