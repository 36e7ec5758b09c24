//! One-time codes. Every step is one conditional update that takes the row's lock, so parallel guesses are
//! counted one by one.

use penstock_domain::Timestamp;

use crate::{Records, RecordsError, columns::moment};

/// After this many wrong guesses a code is void.
pub const TRIES_PER_CODE: i32 = 5;

#[derive(Debug, thiserror::Error)]
pub enum PutCodeError {
    #[error("too many codes were asked for; try again in {retry_after_seconds} seconds")]
    TooMany { retry_after_seconds: u32 },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeCheck {
    /// The code was right; it is consumed.
    Right,
    Wrong,
    /// There is no code to guess: none was sent, it expired, was used, or was guessed wrong too often.
    Void,
}

impl Records {
    /// Stores a new code for `phone`, in place of an earlier one, unless `max_per_window` were sent already in
    /// the `window_seconds` that began with the first of them.
    pub async fn put_code(
        &self,
        phone: &str,
        digest: &[u8],
        expires_at: Timestamp,
        now: Timestamp,
        max_per_window: u32,
        window_seconds: u32,
    ) -> Result<(), PutCodeError> {
        let window_millis = i64::from(window_seconds) * 1000;
        let mut transaction = self.begin().await?;
        let new_window = sqlx::query(
            "UPDATE one_time_codes SET code_digest = ?, expires_at = ?, tries_left = ?, \
             window_started_at = ?, sent_in_window = 1 WHERE phone = ? AND window_started_at <= ?",
        )
        .bind(digest)
        .bind(expires_at.as_millis())
        .bind(TRIES_PER_CODE)
        .bind(now.as_millis())
        .bind(phone)
        .bind(now.plus_millis(-window_millis).as_millis())
        .execute(&mut *transaction)
        .await
        .map_err(RecordsError::from)?;
        if new_window.rows_affected() == 0 {
            let same_window = sqlx::query(
                "UPDATE one_time_codes SET code_digest = ?, expires_at = ?, tries_left = ?, \
                 sent_in_window = sent_in_window + 1 WHERE phone = ? AND sent_in_window < ?",
            )
            .bind(digest)
            .bind(expires_at.as_millis())
            .bind(TRIES_PER_CODE)
            .bind(phone)
            .bind(i64::from(max_per_window))
            .execute(&mut *transaction)
            .await
            .map_err(RecordsError::from)?;
            if same_window.rows_affected() == 0 {
                self.insert_first_code(&mut transaction, phone, digest, expires_at, now, window_millis)
                    .await?;
            }
        }
        transaction.commit().await.map_err(RecordsError::from)?;
        Ok(())
    }

    /// Neither update found a row to change: the phone's window is full, or this is its first code.
    async fn insert_first_code(
        &self,
        transaction: &mut sqlx::Transaction<'static, sqlx::Any>,
        phone: &str,
        digest: &[u8],
        expires_at: Timestamp,
        now: Timestamp,
        window_millis: i64,
    ) -> Result<(), PutCodeError> {
        let known = sqlx::query("SELECT window_started_at FROM one_time_codes WHERE phone = ?")
            .bind(phone)
            .fetch_optional(&mut **transaction)
            .await
            .map_err(RecordsError::from)?;
        if let Some(row) = known {
            let window_ends = moment(&row, "window_started_at")?.plus_millis(window_millis);
            let seconds = (window_ends.millis_since(now) + 999) / 1000;
            let retry_after_seconds = u32::try_from(seconds.max(1)).unwrap_or(u32::MAX);
            return Err(PutCodeError::TooMany { retry_after_seconds });
        }
        sqlx::query(
            "INSERT INTO one_time_codes \
             (phone, code_digest, expires_at, tries_left, window_started_at, sent_in_window) \
             VALUES (?, ?, ?, ?, ?, 1)",
        )
        .bind(phone)
        .bind(digest)
        .bind(expires_at.as_millis())
        .bind(TRIES_PER_CODE)
        .bind(now.as_millis())
        .execute(&mut **transaction)
        .await
        .map_err(RecordsError::from)?;
        Ok(())
    }

    /// One guess. It uses up a try before it is compared, so two parallel guesses are two tries.
    pub async fn take_code(
        &self,
        phone: &str,
        digest: &[u8],
        now: Timestamp,
    ) -> Result<CodeCheck, RecordsError> {
        let mut transaction = self.begin().await?;
        let guess = sqlx::query(
            "UPDATE one_time_codes SET tries_left = tries_left - 1 \
             WHERE phone = ? AND tries_left > 0 AND expires_at > ?",
        )
        .bind(phone)
        .bind(now.as_millis())
        .execute(&mut *transaction)
        .await?;
        if guess.rows_affected() == 0 {
            return Ok(CodeCheck::Void);
        }
        let consume =
            sqlx::query("UPDATE one_time_codes SET tries_left = 0 WHERE phone = ? AND code_digest = ?")
                .bind(phone)
                .bind(digest)
                .execute(&mut *transaction)
                .await?;
        transaction.commit().await?;
        Ok(if consume.rows_affected() == 1 { CodeCheck::Right } else { CodeCheck::Wrong })
    }
}
