//! Reads columns. A value that Penstock would not have written is `RecordsError::Damaged`.

use penstock_domain::{Currency, Money, SaleId, Timestamp};
use sqlx::{Row, any::AnyRow};

use crate::RecordsError;

pub(crate) fn integer(row: &AnyRow, column: &str) -> Result<i64, RecordsError> {
    Ok(row.try_get(column)?)
}

pub(crate) fn optional_integer(row: &AnyRow, column: &str) -> Result<Option<i64>, RecordsError> {
    Ok(row.try_get(column)?)
}

/// A position, or a number that only grows.
pub(crate) fn natural(row: &AnyRow, column: &str) -> Result<u64, RecordsError> {
    u64::try_from(integer(row, column)?).map_err(RecordsError::damaged)
}

pub(crate) fn sale_id(row: &AnyRow) -> Result<SaleId, RecordsError> {
    Ok(SaleId::from_i64(integer(row, "sale_id")?))
}

/// A count, a quantity or a number of seconds.
pub(crate) fn small(row: &AnyRow, column: &str) -> Result<u32, RecordsError> {
    let stored = integer(row, column)?;
    u32::try_from(stored).map_err(|_| RecordsError::damaged(format!("{column} is {stored}")))
}

pub(crate) fn flag(row: &AnyRow, column: &str) -> Result<bool, RecordsError> {
    Ok(integer(row, column)? != 0)
}

pub(crate) fn text(row: &AnyRow, column: &str) -> Result<String, RecordsError> {
    Ok(row.try_get(column)?)
}

pub(crate) fn optional_text(row: &AnyRow, column: &str) -> Result<Option<String>, RecordsError> {
    Ok(row.try_get(column)?)
}

pub(crate) fn moment(row: &AnyRow, column: &str) -> Result<Timestamp, RecordsError> {
    Ok(Timestamp::from_millis(integer(row, column)?))
}

pub(crate) fn optional_moment(row: &AnyRow, column: &str) -> Result<Option<Timestamp>, RecordsError> {
    Ok(optional_integer(row, column)?.map(Timestamp::from_millis))
}

pub(crate) fn money(row: &AnyRow, minor: &str, currency: &str) -> Result<Money, RecordsError> {
    let stored: &str = row.try_get(currency)?;
    let currency = Currency::from_stored(stored)
        .map_err(|_| RecordsError::damaged(format!("currency is {stored:?}")))?;
    Ok(Money { minor: integer(row, minor)?, currency })
}
