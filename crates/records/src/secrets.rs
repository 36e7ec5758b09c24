//! The secret that the nodes of a cluster share: created by the first node, and rotated in one step.

use std::fmt;

use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{natural, optional_text, text},
};

/// There is one secret for everything that is signed.
const NAME: &str = "tokens";

#[derive(Clone, PartialEq, Eq)]
pub struct StoredSecrets {
    pub current: String,
    /// The one before the last rotation.
    pub previous: Option<String>,
    /// Grows with every rotation.
    pub version: u64,
    /// How long the current one has been there, by the database's clock.
    pub age_milliseconds: u64,
}

/// Leaves out the secrets.
impl fmt::Debug for StoredSecrets {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("StoredSecrets")
            .field("has_previous", &self.previous.is_some())
            .field("version", &self.version)
            .field("age_milliseconds", &self.age_milliseconds)
            .finish_non_exhaustive()
    }
}

impl Records {
    /// None: there is no secret yet.
    pub async fn secrets(&self) -> Result<Option<StoredSecrets>, RecordsError> {
        let select = format!(
            "SELECT version, current_secret, previous_secret, {} - rotated_at AS age FROM secrets WHERE name = ?",
            self.dialect.now_millis()
        );
        let read = |row: &AnyRow| {
            Ok(StoredSecrets {
                current: text(row, "current_secret")?,
                previous: optional_text(row, "previous_secret")?,
                version: natural(row, "version")?,
                // If the clock was set back, it counts as new.
                age_milliseconds: natural(row, "age").unwrap_or(0),
            })
        };
        self.reader().await?.one(sqlx::query(AssertSqlSafe(select)).bind(NAME), read).await
    }

    /// The stored secret, or `new`. Several nodes may offer one at once, and all get the same.
    pub async fn secrets_or(&self, new: &str) -> Result<StoredSecrets, RecordsError> {
        if let Some(stored) = self.secrets().await? {
            return Ok(stored);
        }
        let insert = format!(
            "INSERT INTO secrets (name, version, current_secret, previous_secret, rotated_at) \
             VALUES (?, 1, ?, NULL, {})",
            self.dialect.now_millis()
        );
        self.writer().await?.insert_new(sqlx::query(AssertSqlSafe(insert)).bind(NAME).bind(new)).await?;
        let stored = self.secrets().await?;
        stored.ok_or_else(|| RecordsError::damaged("the secret that was just stored is not there"))
    }

    /// Makes `new` the current secret; the current one becomes the previous one. False: there is no secret to
    /// rotate.
    pub async fn rotate_secret(&self, new: &str) -> Result<bool, RecordsError> {
        // MySQL assigns the columns in this order.
        let update = format!(
            "UPDATE secrets SET previous_secret = current_secret, current_secret = ?, version = version + 1, \
             rotated_at = {} WHERE name = ?",
            self.dialect.now_millis()
        );
        let update = sqlx::query(AssertSqlSafe(update)).bind(new).bind(NAME);
        Ok(self.writer().await?.change(update).await? == 1)
    }
}
