//! The pictures in this node's memory, and access to all others. A picture never changes.

use std::sync::Arc;

use bytes::Bytes;
use moka::{future::Cache, policy::EvictionPolicy};
use penstock_records::{Records, RecordsError};

use super::loads::Loads;

/// The most memory that a node uses for pictures.
const MAX_KEPT_BYTES: u64 = 64 * 1024 * 1024;
/// The piece of a picture that is sent at once.
const PIECE_BYTES: usize = 32 * 1024;

/// Why there is no picture.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PictureRefusal {
    #[error("there is no such picture")]
    Missing,
    #[error(transparent)]
    Records(Arc<RecordsError>),
}

/// The pictures in this node's memory, and access to all others.
#[derive(Debug)]
pub struct PictureCache {
    records: Records,
    kept: Cache<String, Bytes>,
    loads: Arc<Loads>,
}

impl PictureCache {
    pub fn new(records: Records, loads: Arc<Loads>) -> Self {
        let weight =
            |name: &String, content: &Bytes| u32::try_from(name.len() + content.len()).unwrap_or(u32::MAX);
        Self {
            records,
            // The picture that was requested last stays for its next pieces.
            kept: Cache::builder()
                .weigher(weight)
                .max_capacity(MAX_KEPT_BYTES)
                .eviction_policy(EvictionPolicy::lru())
                .build(),
            loads,
        }
    }

    /// All who ask for the same picture at once wait for the same answer.
    pub async fn load(&self, name: &str) -> Result<Bytes, PictureRefusal> {
        let load = async {
            match self.loads.read(self.records.picture(name)).await {
                Ok(content) => content.map(Bytes::from).ok_or(PictureRefusal::Missing),
                Err(error) => Err(PictureRefusal::Records(Arc::new(error))),
            }
        };
        self.kept.try_get_with_by_ref(name, load).await.map_err(|error| PictureRefusal::clone(&error))
    }

    /// A piece of a picture; empty at its end. If the picture is no longer in memory, only the piece is read,
    /// without waiting for a turn, so that a client that has begun to read a picture gets the rest of it.
    pub async fn piece(&self, name: &str, begin: usize) -> Result<Bytes, PictureRefusal> {
        if let Some(content) = self.kept.get(name).await {
            let rest = content.get(begin..).unwrap_or_default();
            return Ok(Bytes::copy_from_slice(rest.get(..PIECE_BYTES).unwrap_or(rest)));
        }
        match self.records.piece_of_picture(name, begin, PIECE_BYTES).await {
            Ok(piece) => piece.map(Bytes::from).ok_or(PictureRefusal::Missing),
            Err(error) => Err(PictureRefusal::Records(Arc::new(error))),
        }
    }
}
