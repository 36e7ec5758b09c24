//! What the nodes of a shop show each other of their counters, as a port. It may be away or forget at any time: nothing
//! but the live view rests on it.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

/// What a node or a settlement worker has shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// Who has.
    pub name: String,
    pub figures: Vec<u8>,
    /// How long ago.
    pub age: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("what the nodes show each other can't be reached: {0}")]
pub struct FiguresAway(pub String);

pub trait SharedFigures: Send + Sync + 'static {
    /// Whether there is anybody to show something to. If not, nothing is written down for it.
    fn is_shared(&self) -> bool {
        true
    }

    /// Shows the figures to the others in place of those before; they are forgotten when `life` is over.
    fn put<'a>(
        &'a self,
        name: &'a str,
        figures: Vec<u8>,
        life: Duration,
    ) -> BoxFuture<'a, Result<(), FiguresAway>>;

    /// What everybody shows, this node included.
    fn all(&self) -> BoxFuture<'_, Result<Vec<Shown>, FiguresAway>>;
}

/// For a shop of one node.
#[derive(Clone, Copy, Debug)]
pub struct NoSharedFigures;

impl SharedFigures for NoSharedFigures {
    fn is_shared(&self) -> bool {
        false
    }

    fn put<'a>(&'a self, _: &'a str, _: Vec<u8>, _: Duration) -> BoxFuture<'a, Result<(), FiguresAway>> {
        Box::pin(ready(Ok(())))
    }

    fn all(&self) -> BoxFuture<'_, Result<Vec<Shown>, FiguresAway>> {
        Box::pin(ready(Ok(Vec::new())))
    }
}
