//! What is known about a sale's waiting room even if the servers that keep it have lost it.

use std::fmt;

use penstock_domain::SaleId;
use sqlx::any::AnyRow;

use crate::{
    Records, RecordsError,
    columns::{natural, optional_integer, text},
};

#[derive(Clone, Copy, PartialEq, Eq)]
pub struct StoredRoom {
    /// The seed of the draw. It never changes.
    pub seed: [u8; 32],
    /// All numbers below this were given out, and perhaps some more.
    pub issued: u64,
    /// How many take part in the draw. None: not known yet.
    pub early: Option<u64>,
}

/// Leaves out the seed, which must stay secret until the opening.
impl fmt::Debug for StoredRoom {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut room = formatter.debug_struct("StoredRoom");
        room.field("issued", &self.issued).field("early", &self.early).finish_non_exhaustive()
    }
}

impl Records {
    /// None: the room has not been opened yet.
    pub async fn waiting_room(&self, sale: SaleId) -> Result<Option<StoredRoom>, RecordsError> {
        let query = sqlx::query("SELECT seed, issued, early FROM waiting_rooms WHERE sale_id = ?")
            .bind(sale.as_i64());
        self.reader().await?.one(query, room_of).await
    }

    /// The stored room, or a new one with this seed. Several nodes may offer one at once, and all get the
    /// same.
    pub async fn waiting_room_or(&self, sale: SaleId, seed: [u8; 32]) -> Result<StoredRoom, RecordsError> {
        if let Some(stored) = self.waiting_room(sale).await? {
            return Ok(stored);
        }
        let insert = sqlx::query("INSERT INTO waiting_rooms (sale_id, seed, issued) VALUES (?, ?, 0)")
            .bind(sale.as_i64())
            .bind(hex::encode(seed));
        self.writer().await?.insert_new(insert).await?;
        let stored = self.waiting_room(sale).await?;
        stored.ok_or_else(|| RecordsError::damaged("the waiting room that was just stored is not there"))
    }

    /// Records that more numbers were given out, or how many take part in the draw. Older values change
    /// nothing.
    pub async fn note_waiting_room(
        &self,
        sale: SaleId,
        issued: u64,
        early: Option<u64>,
    ) -> Result<(), RecordsError> {
        let stored = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let update = sqlx::query("UPDATE waiting_rooms SET issued = ? WHERE sale_id = ? AND issued < ?")
            .bind(stored(issued))
            .bind(sale.as_i64())
            .bind(stored(issued));
        self.writer().await?.change(update).await?;
        if let Some(early) = early {
            let update =
                sqlx::query("UPDATE waiting_rooms SET early = ? WHERE sale_id = ? AND early IS NULL")
                    .bind(stored(early))
                    .bind(sale.as_i64());
            self.writer().await?.change(update).await?;
        }
        Ok(())
    }
}

fn room_of(row: &AnyRow) -> Result<StoredRoom, RecordsError> {
    let mut seed = [0; 32];
    hex::decode_to_slice(text(row, "seed")?, &mut seed)
        .map_err(|_| RecordsError::damaged("a waiting room's seed can't be read"))?;
    Ok(StoredRoom {
        seed,
        issued: natural(row, "issued")?,
        early: optional_integer(row, "early")?
            .map(u64::try_from)
            .transpose()
            .map_err(RecordsError::damaged)?,
    })
}
