//! One-time codes. Every step is one conditional update that takes the row's lock, so parallel guesses are
//! counted one by one.

use penstock_domain::Timestamp;

use crate::{
    Records, RecordsError,
    columns::{integer, moment},
    error::is_unique_violation,
    session::Session,
};

/// After this many wrong guesses a code is void.
pub const TRIES_PER_CODE: i32 = 5;

/// How often a code is stored before it is given up: once more than it takes.
const MAX_ATTEMPTS: u32 = 3;

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
        let code = NewCode {
            phone,
            digest,
            expires_at,
            now,
            max_per_window: i64::from(max_per_window),
            window_millis: i64::from(window_seconds) * 1000,
        };
        // Where there are several writers, another request may store the phone's first code in between; then its row
        // is there the next time.
        for _ in 0..MAX_ATTEMPTS {
            let mut transaction = self.begin().await?;
            if replace(&mut transaction, &code).await? || insert(&mut transaction, &code).await? {
                transaction.commit().await.map_err(RecordsError::from)?;
                return Ok(());
            }
            transaction.rollback().await.map_err(RecordsError::from)?;
        }
        Err(RecordsError::Unavailable("too many codes for one phone were stored at once".into()).into())
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
        .execute(&mut transaction)
        .await?;
        if guess.rows_affected() == 0 {
            transaction.rollback().await?;
            return Ok(CodeCheck::Void);
        }
        let consume =
            sqlx::query("UPDATE one_time_codes SET tries_left = 0 WHERE phone = ? AND code_digest = ?")
                .bind(phone)
                .bind(digest)
                .execute(&mut transaction)
                .await?;
        transaction.commit().await?;
        Ok(if consume.rows_affected() == 1 { CodeCheck::Right } else { CodeCheck::Wrong })
    }
}

#[derive(Clone, Copy)]
struct NewCode<'a> {
    phone: &'a str,
    digest: &'a [u8],
    expires_at: Timestamp,
    now: Timestamp,
    max_per_window: i64,
    window_millis: i64,
}

/// Puts the code in place of the phone's earlier one, in a new window or in the same. False: neither is possible.
async fn replace(connection: &mut Session, code: &NewCode<'_>) -> Result<bool, RecordsError> {
    let new_window = sqlx::query(
        "UPDATE one_time_codes SET code_digest = ?, expires_at = ?, tries_left = ?, window_started_at = ?, \
         sent_in_window = 1 WHERE phone = ? AND window_started_at <= ?",
    )
    .bind(code.digest)
    .bind(code.expires_at.as_millis())
    .bind(TRIES_PER_CODE)
    .bind(code.now.as_millis())
    .bind(code.phone)
    .bind(code.now.plus_millis(-code.window_millis).as_millis())
    .execute(&mut *connection)
    .await?;
    if new_window.rows_affected() == 1 {
        return Ok(true);
    }
    let same_window = sqlx::query(
        "UPDATE one_time_codes SET code_digest = ?, expires_at = ?, tries_left = ?, \
         sent_in_window = sent_in_window + 1 WHERE phone = ? AND sent_in_window < ?",
    )
    .bind(code.digest)
    .bind(code.expires_at.as_millis())
    .bind(TRIES_PER_CODE)
    .bind(code.phone)
    .bind(code.max_per_window)
    .execute(&mut *connection)
    .await?;
    Ok(same_window.rows_affected() == 1)
}

/// No row could be changed: the phone's window is full, or this is its first code. False: it was not there a moment
/// ago.
async fn insert(connection: &mut Session, code: &NewCode<'_>) -> Result<bool, PutCodeError> {
    let row = sqlx::query("SELECT window_started_at, sent_in_window FROM one_time_codes WHERE phone = ?")
        .bind(code.phone)
        .fetch_optional(&mut *connection)
        .await
        .map_err(RecordsError::from)?;
    if let Some(row) = row {
        let window_ends = moment(&row, "window_started_at")?.plus_millis(code.window_millis);
        let millis_left = window_ends.millis_since(code.now);
        if millis_left <= 0 || integer(&row, "sent_in_window")? < code.max_per_window {
            return Ok(false);
        }
        let retry_after_seconds = u32::try_from(millis_left.saturating_add(999) / 1000).unwrap_or(u32::MAX);
        return Err(PutCodeError::TooMany { retry_after_seconds });
    }
    let inserted = sqlx::query(
        "INSERT INTO one_time_codes \
         (phone, code_digest, expires_at, tries_left, window_started_at, sent_in_window) \
         VALUES (?, ?, ?, ?, ?, 1)",
    )
    .bind(code.phone)
    .bind(code.digest)
    .bind(code.expires_at.as_millis())
    .bind(TRIES_PER_CODE)
    .bind(code.now.as_millis())
    .execute(&mut *connection)
    .await;
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if is_unique_violation(&error) => Ok(false),
        Err(error) => Err(RecordsError::from(error).into()),
    }
}
