//! Pictures by name. A name is derived from the content, so a name always means the same picture.

use penstock_domain::Timestamp;
use sqlx::Row as _;

use crate::{Records, RecordsError, error::is_unique_violation};

impl Records {
    /// Stores a picture. One that is there already has the same content, and stays.
    pub async fn put_picture(&self, name: &str, content: &[u8], now: Timestamp) -> Result<(), RecordsError> {
        let inserted = sqlx::query("INSERT INTO pictures (name, content, created_at) VALUES (?, ?, ?)")
            .bind(name)
            .bind(content)
            .bind(now.as_millis())
            .execute(&mut self.writer().await?)
            .await;
        match inserted {
            Err(error) if !is_unique_violation(&error) => Err(error.into()),
            _ => Ok(()),
        }
    }

    /// None: there is no such picture.
    pub async fn picture(&self, name: &str) -> Result<Option<Vec<u8>>, RecordsError> {
        let row = sqlx::query("SELECT content FROM pictures WHERE name = ?")
            .bind(name)
            .fetch_optional(&mut self.reader().await?)
            .await?;
        Ok(row.map(|row| row.try_get("content")).transpose()?)
    }

    /// At most `bytes` of a picture, starting at `begin`; empty beyond its end. None: there is no such
    /// picture.
    pub async fn piece_of_picture(
        &self,
        name: &str,
        begin: usize,
        bytes: usize,
    ) -> Result<Option<Vec<u8>>, RecordsError> {
        // SQL counts from one.
        let begin = i64::try_from(begin).unwrap_or(i64::MAX).saturating_add(1);
        let row = sqlx::query("SELECT SUBSTR(content, ?, ?) AS piece FROM pictures WHERE name = ?")
            .bind(begin)
            .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
            .bind(name)
            .fetch_optional(&mut self.reader().await?)
            .await?;
        Ok(row.map(|row| row.try_get("piece")).transpose()?)
    }
}
