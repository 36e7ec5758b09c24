//! What can go wrong with any call to the records. Refusals of a single operation have their own enum next to
//! it.

use sqlx::{error::DatabaseError, migrate::MigrateError, mysql::MySqlDatabaseError, sqlite::SqliteError};

#[derive(Debug, thiserror::Error)]
pub enum RecordsError {
    /// The database can't be reached, is busy or full; the same call may succeed later.
    #[error("the records are unavailable: {0}")]
    Unavailable(String),
    /// The request contradicts what is stored, such as an item that doesn't exist.
    #[error("the records refuse the change: {0}")]
    Refused(String),
    /// A stored value is not one that Penstock writes.
    #[error("the records are damaged: {0}")]
    Damaged(String),
    /// The records can't be kept in this database.
    #[error("the database can't be used: {0}")]
    Unsuitable(String),
    #[error("the records were written by a newer Penstock (schema {0}): use that version or a newer one")]
    Newer(i64),
}

impl RecordsError {
    pub(crate) fn damaged(what: impl std::fmt::Display) -> Self {
        Self::Damaged(what.to_string())
    }
}

impl From<sqlx::Error> for RecordsError {
    fn from(error: sqlx::Error) -> Self {
        match error {
            sqlx::Error::Database(ref database) if is_constraint(&**database) => {
                Self::Refused(database.message().to_owned())
            }
            sqlx::Error::ColumnDecode { .. } | sqlx::Error::Decode(_) => Self::Damaged(error.to_string()),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// A server that refuses our login, or does not have the database, will not change its mind by itself.
pub(crate) fn of_connecting(error: sqlx::Error) -> RecordsError {
    let state = error.as_database_error().and_then(|refused| refused.code()).unwrap_or_default();
    match MYSQL_CLOSED_DOORS.iter().any(|class| state.starts_with(class)) {
        true => RecordsError::Unsuitable(error.to_string()),
        false => error.into(),
    }
}

impl From<MigrateError> for RecordsError {
    fn from(error: MigrateError) -> Self {
        match error {
            MigrateError::VersionMissing(version) => Self::Newer(version),
            MigrateError::Dirty(version) => Self::Unsuitable(format!(
                "changing its schema to version {version} was interrupted: start the newer Penstock that began it"
            )),
            other => Self::Unavailable(other.to_string()),
        }
    }
}

/// SQLite's primary result code for every kind of constraint, including a trigger's refusal.
const SQLITE_CONSTRAINT: i32 = 19;
/// MySQL: a value that does not fit its column, a constraint, and a trigger's refusal.
const MYSQL_REFUSALS: [&str; 3] = ["22", "23", "45"];

/// MySQL: a wrong password, and a database that is missing or forbidden.
const MYSQL_CLOSED_DOORS: [&str; 2] = ["28", "42"];

/// Every other error, such as a deadlock or a lock timeout, may not occur the next time.
fn is_constraint(error: &dyn DatabaseError) -> bool {
    if let Some(mysql) = error.try_downcast_ref::<MySqlDatabaseError>() {
        return mysql.code().is_some_and(|state| MYSQL_REFUSALS.iter().any(|class| state.starts_with(class)));
    }
    let sqlite = error.try_downcast_ref::<SqliteError>();
    let code = sqlite.and_then(|error| error.code()?.parse::<i32>().ok());
    code.is_some_and(|code| code & 0xff == SQLITE_CONSTRAINT)
}
