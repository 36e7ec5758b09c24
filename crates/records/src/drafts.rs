//! Sales before they are published: a change sees what others have changed, until the sale's terms are fixed.

use penstock_domain::{SaleId, Timestamp};

use crate::{
    Records, RecordsError, SaleRow,
    catalogue::{bind_draft, read_sale, select_sale},
    connection::DatabaseConnection,
};

/// Why a draft was not changed.
#[derive(Debug, thiserror::Error)]
pub enum ChangeDraftError<E> {
    #[error("there is no such sale")]
    Unknown,
    #[error("the sale's terms are fixed")]
    Fixed,
    #[error("the change is refused")]
    Refused(E),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl Records {
    /// Changes a draft by `change`, all but the id and the time of creation. Nobody else changes or publishes
    /// it meanwhile.
    pub async fn change_draft<E>(
        &self,
        id: SaleId,
        change: impl FnOnce(SaleRow) -> Result<SaleRow, E>,
    ) -> Result<SaleRow, ChangeDraftError<E>> {
        let mut transaction = self.begin().await?;
        let changed = match lock_draft(&mut transaction, id).await {
            Ok(draft) => change(draft).map_err(ChangeDraftError::Refused),
            Err(error) => Err(error),
        };
        let row = match changed {
            Ok(row) => row,
            // The connection may have failed; it is closed.
            Err(error @ ChangeDraftError::Records(_)) => return Err(error),
            Err(error) => {
                transaction.rollback().await?;
                return Err(error);
            }
        };
        let update = sqlx::query(
            "UPDATE sales SET item_id = ?, price_minor = ?, currency = ?, units = ?, limit_per_buyer = ?, \
             opens_at = ?, closes_at = ?, hold_seconds = ?, gate = ? WHERE id = ?",
        );
        transaction.change(bind_draft(update, &row)?.bind(id.as_i64())).await?;
        transaction.commit().await?;
        Ok(row)
    }

    /// Fixes the terms of the sale, which can't be changed from then on, and returns it. None: there is no
    /// such sale.
    pub async fn fix_terms(&self, id: SaleId, now: Timestamp) -> Result<Option<SaleRow>, RecordsError> {
        let fix = sqlx::query("UPDATE sales SET terms_fixed_at = ? WHERE id = ? AND terms_fixed_at IS NULL")
            .bind(now.as_millis())
            .bind(id.as_i64());
        self.writer().await?.change(fix).await?;
        self.sale(id).await
    }
}

/// Reads a draft and locks it until the transaction ends.
async fn lock_draft<E>(
    transaction: &mut DatabaseConnection,
    id: SaleId,
) -> Result<SaleRow, ChangeDraftError<E>> {
    // SQLite can't read with a lock; an update that changes nothing locks the row on a server.
    let lock = sqlx::query(
        "UPDATE sales SET units = units WHERE id = ? AND terms_fixed_at IS NULL AND published_at IS NULL",
    )
    .bind(id.as_i64());
    let locked = transaction.change(lock).await?;
    let sale = transaction.one(select_sale(id), read_sale).await?.ok_or(ChangeDraftError::Unknown)?;
    if locked == 0 { Err(ChangeDraftError::Fixed) } else { Ok(sale) }
}
