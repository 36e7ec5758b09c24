//! Pictures by name. A name is derived from the content, so a name always means the same picture.

use penstock_domain::Timestamp;
use sqlx::Row as _;

use crate::{Records, RecordsError, connection::Statement};

impl Records {
    /// Stores a picture. One that is there already has the same content, and stays.
    pub async fn put_picture(&self, name: &str, content: &[u8], now: Timestamp) -> Result<(), RecordsError> {
        let insert = sqlx::query("INSERT INTO pictures (name, content, created_at) VALUES (?, ?, ?)")
            .bind(name)
            .bind(content)
            .bind(now.as_millis());
        self.writer().await?.insert_new(insert).await?;
        Ok(())
    }

    /// None: there is no such picture.
    pub async fn picture(&self, name: &str) -> Result<Option<Vec<u8>>, RecordsError> {
        self.bytes(sqlx::query("SELECT content AS bytes FROM pictures WHERE name = ?").bind(name)).await
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
        let query = sqlx::query("SELECT SUBSTR(content, ?, ?) AS bytes FROM pictures WHERE name = ?")
            .bind(begin)
            .bind(i64::try_from(bytes).unwrap_or(i64::MAX))
            .bind(name);
        self.bytes(query).await
    }

    async fn bytes(&self, query: Statement<'_>) -> Result<Option<Vec<u8>>, RecordsError> {
        self.reader().await?.one(query, |row| Ok(row.try_get("bytes")?)).await
    }
}
