//! Sales before they are published: a change sees what others have changed, until the sale's terms are fixed.

use penstock_domain::{SaleId, Timestamp};

use crate::{
    Records, RecordsError, SaleRow,
    catalogue::{gate_text, read_sale},
    session::Session,
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

impl<E> From<sqlx::Error> for ChangeDraftError<E> {
    fn from(error: sqlx::Error) -> Self {
        Self::Records(error.into())
    }
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
        write_draft(&mut transaction, id, &row).await?;
        transaction.commit().await?;
        Ok(row)
    }

    /// Fixes the terms of the sale, which can't be changed from then on, and returns it. None: there is no
    /// such sale.
    pub async fn fix_terms(&self, id: SaleId, now: Timestamp) -> Result<Option<SaleRow>, RecordsError> {
        sqlx::query("UPDATE sales SET terms_fixed_at = ? WHERE id = ? AND terms_fixed_at IS NULL")
            .bind(now.as_millis())
            .bind(id.as_i64())
            .execute(&mut self.writer().await?)
            .await?;
        self.sale(id).await
    }
}

/// Reads a draft and locks it until the transaction ends.
async fn lock_draft<E>(transaction: &mut Session, id: SaleId) -> Result<SaleRow, ChangeDraftError<E>> {
    // SQLite can't read with a lock; an update that changes nothing locks the row on a server.
    let locked = sqlx::query(
        "UPDATE sales SET units = units WHERE id = ? AND terms_fixed_at IS NULL AND published_at IS NULL",
    )
    .bind(id.as_i64())
    .execute(&mut *transaction)
    .await?
    .rows_affected();
    let row = sqlx::query("SELECT * FROM sales WHERE id = ?")
        .bind(id.as_i64())
        .fetch_optional(&mut *transaction)
        .await?
        .ok_or(ChangeDraftError::Unknown)?;
    if locked == 0 {
        return Err(ChangeDraftError::Fixed);
    }
    Ok(read_sale(&row)?)
}

async fn write_draft(transaction: &mut Session, id: SaleId, sale: &SaleRow) -> Result<(), RecordsError> {
    sqlx::query(
        "UPDATE sales SET item_id = ?, price_minor = ?, currency = ?, units = ?, limit_per_buyer = ?, \
         opens_at = ?, closes_at = ?, hold_seconds = ?, gate = ? WHERE id = ?",
    )
    .bind(sale.item_id.as_i64())
    .bind(sale.price.minor)
    .bind(sale.price.currency.as_str())
    .bind(i64::from(sale.units))
    .bind(i64::from(sale.limit_per_buyer))
    .bind(sale.opens_at.map(Timestamp::as_millis))
    .bind(sale.closes_at.map(Timestamp::as_millis))
    .bind(i64::from(sale.hold_seconds))
    .bind(gate_text(&sale.gate)?)
    .bind(id.as_i64())
    .execute(transaction)
    .await?;
    Ok(())
}
