//! The entries of a sale's stream.

use penstock_domain::{Mark, SaleId};
use redis::Value;

use crate::{
    Unavailable,
    redis::{
        layout::{Damaged, FeedEntry, text, unpack_entry},
        store::Store,
    },
};

/// The entry that contains `position` and those after it, at most `count`.
pub(crate) async fn read_entries(
    store: &Store,
    sale: SaleId,
    position: u64,
    count: usize,
) -> Result<Vec<FeedEntry>, Unavailable> {
    let key = store.keys.feed(sale);
    let mut range = redis::cmd("XRANGE");
    range.arg(&key).arg(format!("{position}-0")).arg("+").arg("COUNT").arg(count);
    let entries: Vec<Value> = store.link.call_confirmed(&key, range).await?;
    Ok(entries_of(sale, &entries)?)
}

pub(super) fn entries_of(sale: SaleId, entries: &[Value]) -> Result<Vec<FeedEntry>, Damaged> {
    entries.iter().map(|entry| entry_of(sale, entry)).collect()
}

/// An entry as XRANGE answers it: its id, then its fields `n` (mark) and `d` (decisions).
fn entry_of(sale: SaleId, entry: &Value) -> Result<FeedEntry, Damaged> {
    const FORM: Damaged = Damaged("an entry of the feed has an unknown form");
    let Value::Array(parts) = entry else { return Err(FORM) };
    let [id, Value::Array(fields)] = parts.as_slice() else { return Err(FORM) };
    let [_, mark, _, decisions] = fields.as_slice() else { return Err(FORM) };
    let id = std::str::from_utf8(text(id)?).map_err(|_| FORM)?;
    let last = id.split_once('-').and_then(|(last, _)| last.parse().ok()).ok_or(FORM)?;
    let mark = Mark(text(mark)?.try_into().map_err(|_| FORM)?);
    unpack_entry(sale, last, mark, text(decisions)?)
}
