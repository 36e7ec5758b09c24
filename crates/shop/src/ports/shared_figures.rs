//! The port through which the nodes of a shop show each other their counters. It may be unavailable or forget
//! at any time: only the live view depends on it.

use std::time::Duration;

use futures_util::future::{BoxFuture, ready};

/// The figures that a node or a settlement worker shows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shown {
    /// The name of that process.
    pub name: String,
    pub figures: Vec<u8>,
    /// How long ago it showed them.
    pub age: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the nodes' shared figures can't be reached: {0}")]
pub struct FiguresAway(pub String);

pub trait SharedFigures: Send + Sync + 'static {
    /// Whether there is anybody to show figures to. If not, none are serialized.
    fn is_shared(&self) -> bool {
        true
    }

    /// Replaces this process's figures. They are forgotten after `life`.
    fn put<'a>(
        &'a self,
        name: &'a str,
        figures: Vec<u8>,
        life: Duration,
    ) -> BoxFuture<'a, Result<(), FiguresAway>>;

    /// The figures of all processes, including this node.
    fn all(&self) -> BoxFuture<'_, Result<Vec<Shown>, FiguresAway>>;
}

/// For a shop with a single node.
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
