//! The journal's record: all decisions of one group commit, packed.

use penstock_domain::{Decision, Event, Timestamp};
use serde::{Serialize, Serializer};

use super::error::JournalError;

/// Packs `decisions`, which follow each other and were made at one time, into `bytes`. Positions are not
/// stored: the journal knows the last one.
pub(super) fn encode(decisions: &[Decision], bytes: Vec<u8>) -> Result<Vec<u8>, JournalError> {
    let Some(first) = decisions.first() else { return Ok(bytes) };
    assert!(decisions.iter().all(|decision| decision.at == first.at), "a batch is decided at one time");
    Ok(postcard::to_extend(&(first.at, Events(decisions)), bytes)?)
}

/// Unpacks the decisions of the record whose last one has the position `last`.
pub(super) fn decode(
    last: u64,
    bytes: &[u8],
) -> Result<impl Iterator<Item = Decision> + use<>, JournalError> {
    let (at, events): (Timestamp, Vec<Event>) = postcard::from_bytes(bytes)?;
    let before = last.checked_sub(events.len() as u64);
    let before =
        before.ok_or_else(|| JournalError::Damaged(format!("too many events before position {last}")))?;
    let positions = before + 1..=last;
    Ok(positions.zip(events).map(move |(position, event)| Decision { position, at, event }))
}

struct Events<'a>(&'a [Decision]);

impl Serialize for Events<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|decision| &decision.event))
    }
}
