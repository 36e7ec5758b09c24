//! One-time codes. A code is kept twice: as the last one that its address asked for, and as the last one sent
//! to the phone. A guess is compared with the code of its own address. If the address has none, for example
//! because its user has moved to another network, the guess is compared with the phone's code. So nobody else
//! can replace or use up the code of an address by asking for codes or guessing.
//!
//! Every step begins with the lock of the phone's row, so that parallel requests and guesses are counted one
//! by one.

use penstock_domain::Timestamp;
use sqlx::AssertSqlSafe;

use crate::{
    Records, RecordsError,
    columns::{integer, moment},
    error::is_unique_violation,
    session::Session,
};

/// The number of wrong guesses after which a code is void: for its own address, and for all others together.
pub const TRIES_PER_CODE: i32 = 5;

/// The codes of a window that one address may take from the half of a phone's codes that is kept for
/// newcomers: the first one may get lost on its way.
const KEPT_FOR_EACH_ORIGIN: i64 = 2;

/// How often storing a code is tried: once more than necessary.
const MAX_ATTEMPTS: u32 = 3;

#[derive(Debug, thiserror::Error)]
pub enum PutCodeError {
    #[error("too many codes were requested; try again in {retry_after_seconds} seconds")]
    TooMany { retry_after_seconds: u32 },
    #[error(transparent)]
    Records(#[from] RecordsError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeCheck {
    Right,
    Wrong,
    /// There is no code to guess: none was sent, it expired, it was used, or too many guesses were wrong.
    Void,
}

/// A requested code.
#[derive(Clone, Copy, Debug)]
pub struct NewCode<'a> {
    pub phone: &'a str,
    /// The address that asks.
    pub origin: &'a str,
    pub digest: &'a [u8],
    pub expires_at: Timestamp,
    pub now: Timestamp,
    /// Codes that one address may have sent to the phone in a window, which begins with the first of them, …
    pub max_per_origin: u32,
    /// … and all addresses together. The last half is for addresses that have had no more than one.
    pub max_per_phone: u32,
    pub window_seconds: u32,
}

impl NewCode<'_> {
    fn window_millis(&self) -> i64 {
        i64::from(self.window_seconds) * 1000
    }
}

/// Identifies a stored code.
#[derive(Clone, Copy)]
struct Key<'a> {
    phone: &'a str,
    /// None: the last one sent to the phone.
    origin: Option<&'a str>,
}

type Statement<'q> = sqlx::query::Query<'q, sqlx::Any, <sqlx::Any as sqlx::Database>::Arguments>;

impl Key<'_> {
    fn table(self) -> &'static str {
        if self.origin.is_some() { "codes_by_origin" } else { "one_time_codes" }
    }

    fn condition(self) -> &'static str {
        if self.origin.is_some() { "phone = ? AND origin = ?" } else { "phone = ?" }
    }

    /// Binds the parameters of the condition.
    fn bind<'q>(self, statement: Statement<'q>) -> Statement<'q> {
        let statement = statement.bind(self.phone.to_owned());
        match self.origin {
            Some(origin) => statement.bind(origin.to_owned()),
            None => statement,
        }
    }
}

impl Records {
    /// Stores a new code, which replaces an earlier one of the same address.
    pub async fn put_code(&self, code: NewCode<'_>) -> Result<(), PutCodeError> {
        let for_phone = Key { phone: code.phone, origin: None };
        let for_origin = Key { phone: code.phone, origin: Some(code.origin) };
        // With several writers, another request may store the phone's first code in between; the next attempt
        // finds its row.
        for _ in 0..MAX_ATTEMPTS {
            let mut transaction = self.begin().await?;
            // How many codes the address has had is read under the phone's lock. Without a row, no address
            // has had one.
            let is_put = if lock(&mut transaction, code.phone).await? {
                let sent = sent_in_window(&mut transaction, for_origin, &code).await?;
                let is_new = sent < KEPT_FOR_EACH_ORIGIN;
                let max_per_phone = if is_new { code.max_per_phone } else { code.max_per_phone.div_ceil(2) };
                put(&mut transaction, for_phone, &code, max_per_phone).await?
            } else {
                insert(&mut transaction, for_phone, &code, code.max_per_phone.into()).await?
            };
            if is_put && put(&mut transaction, for_origin, &code, code.max_per_origin).await? {
                transaction.commit().await.map_err(RecordsError::from)?;
                return Ok(());
            }
            transaction.rollback().await.map_err(RecordsError::from)?;
        }
        Err(RecordsError::Unavailable("too many codes for one phone were stored at once".into()).into())
    }

    /// Checks one guess. A wrong one uses up a try; a right one leaves the code valid.
    pub async fn check_code(
        &self,
        phone: &str,
        origin: &str,
        digest: &[u8],
        now: Timestamp,
    ) -> Result<CodeCheck, RecordsError> {
        let mut transaction = self.begin().await?;
        let check = guess(&mut transaction, phone, origin, digest, now).await?;
        match check {
            CodeCheck::Wrong => transaction.commit().await?,
            CodeCheck::Right | CodeCheck::Void => transaction.rollback().await?,
        }
        Ok(check)
    }

    /// Checks one guess. A right one uses up all codes of the phone.
    pub async fn take_code(
        &self,
        phone: &str,
        origin: &str,
        digest: &[u8],
        now: Timestamp,
    ) -> Result<CodeCheck, RecordsError> {
        let mut transaction = self.begin().await?;
        let check = guess(&mut transaction, phone, origin, digest, now).await?;
        if check == CodeCheck::Right {
            for statement in [
                "UPDATE one_time_codes SET tries_left = 0 WHERE phone = ?",
                "UPDATE codes_by_origin SET tries_left = 0 WHERE phone = ?",
            ] {
                sqlx::query(statement).bind(phone).execute(&mut transaction).await?;
            }
        }
        transaction.commit().await?;
        Ok(check)
    }
}

/// Compares with the code of the address if it has a valid one, otherwise with the phone's. It uses up a try
/// before it compares.
async fn guess(
    connection: &mut Session,
    phone: &str,
    origin: &str,
    digest: &[u8],
    now: Timestamp,
) -> Result<CodeCheck, RecordsError> {
    lock(connection, phone).await?;
    let own = Key { phone, origin: Some(origin) };
    let has_own =
        sqlx::query("SELECT 1 FROM codes_by_origin WHERE phone = ? AND origin = ? AND expires_at > ?")
            .bind(phone)
            .bind(origin)
            .bind(now.as_millis())
            .fetch_optional(&mut *connection)
            .await?
            .is_some();
    let key = if has_own { own } else { Key { phone, origin: None } };
    let (table, condition) = (key.table(), key.condition());
    let try_it = AssertSqlSafe(format!(
        "UPDATE {table} SET tries_left = tries_left - 1 WHERE {condition} AND tries_left > 0 AND expires_at > ?"
    ));
    let tried = key.bind(sqlx::query(try_it)).bind(now.as_millis()).execute(&mut *connection).await?;
    if tried.rows_affected() == 0 {
        return Ok(CodeCheck::Void);
    }
    let compare = AssertSqlSafe(format!("SELECT 1 FROM {table} WHERE {condition} AND code_digest = ?"));
    let same = key.bind(sqlx::query(compare)).bind(digest.to_vec()).fetch_optional(&mut *connection).await?;
    Ok(if same.is_some() { CodeCheck::Right } else { CodeCheck::Wrong })
}

/// Locks the phone's row with an update that changes nothing. False: there is no row yet.
async fn lock(connection: &mut Session, phone: &str) -> Result<bool, RecordsError> {
    let locked = sqlx::query("UPDATE one_time_codes SET phone = phone WHERE phone = ?")
        .bind(phone)
        .execute(&mut *connection)
        .await?;
    Ok(locked.rows_affected() == 1)
}

async fn sent_in_window(
    connection: &mut Session,
    key: Key<'_>,
    code: &NewCode<'_>,
) -> Result<i64, RecordsError> {
    let (table, condition) = (key.table(), key.condition());
    let query = AssertSqlSafe(format!(
        "SELECT sent_in_window FROM {table} WHERE {condition} AND window_started_at > ?"
    ));
    let begun_after = code.now.plus_millis(-code.window_millis()).as_millis();
    let row = key.bind(sqlx::query(query)).bind(begun_after).fetch_optional(&mut *connection).await?;
    row.as_ref().map_or(Ok(0), |row| integer(row, "sent_in_window"))
}

/// Stores the code. False: try again.
async fn put(
    connection: &mut Session,
    key: Key<'_>,
    code: &NewCode<'_>,
    max_per_window: u32,
) -> Result<bool, PutCodeError> {
    let max_per_window = i64::from(max_per_window);
    Ok(replace(connection, key, code, max_per_window).await?
        || insert(connection, key, code, max_per_window).await?)
}

/// Replaces an earlier code, in a new window or in the same one. False: neither was possible.
async fn replace(
    connection: &mut Session,
    key: Key<'_>,
    code: &NewCode<'_>,
    max_per_window: i64,
) -> Result<bool, RecordsError> {
    let (table, condition) = (key.table(), key.condition());
    let new_window = AssertSqlSafe(format!(
        "UPDATE {table} SET code_digest = ?, expires_at = ?, tries_left = ?, window_started_at = ?, \
         sent_in_window = 1 WHERE {condition} AND window_started_at <= ?"
    ));
    let statement = sqlx::query(new_window)
        .bind(code.digest.to_vec())
        .bind(code.expires_at.as_millis())
        .bind(TRIES_PER_CODE)
        .bind(code.now.as_millis());
    let begun_before = code.now.plus_millis(-code.window_millis()).as_millis();
    let replaced = key.bind(statement).bind(begun_before).execute(&mut *connection).await?;
    if replaced.rows_affected() == 1 {
        return Ok(true);
    }
    let same_window = AssertSqlSafe(format!(
        "UPDATE {table} SET code_digest = ?, expires_at = ?, tries_left = ?, \
         sent_in_window = sent_in_window + 1 WHERE {condition} AND sent_in_window < ?"
    ));
    let statement = sqlx::query(same_window)
        .bind(code.digest.to_vec())
        .bind(code.expires_at.as_millis())
        .bind(TRIES_PER_CODE);
    let replaced = key.bind(statement).bind(max_per_window).execute(&mut *connection).await?;
    Ok(replaced.rows_affected() == 1)
}

/// No row could be changed: the window is full, or this is the first code. False: another request has
/// inserted the row in the meantime.
async fn insert(
    connection: &mut Session,
    key: Key<'_>,
    code: &NewCode<'_>,
    max_per_window: i64,
) -> Result<bool, PutCodeError> {
    let (table, condition) = (key.table(), key.condition());
    let query =
        AssertSqlSafe(format!("SELECT window_started_at, sent_in_window FROM {table} WHERE {condition}"));
    let row = key.bind(sqlx::query(query)).fetch_optional(&mut *connection).await;
    if let Some(row) = row.map_err(RecordsError::from)? {
        let window_ends = moment(&row, "window_started_at")?.plus_millis(code.window_millis());
        let millis_left = window_ends.millis_since(code.now);
        if millis_left <= 0 || integer(&row, "sent_in_window")? < max_per_window {
            return Ok(false);
        }
        let retry_after_seconds = u32::try_from(millis_left.saturating_add(999) / 1000).unwrap_or(u32::MAX);
        return Err(PutCodeError::TooMany { retry_after_seconds });
    }
    let (columns, places) = match key.origin {
        Some(_) => ("phone, origin", "?, ?"),
        None => ("phone", "?"),
    };
    let insert = AssertSqlSafe(format!(
        "INSERT INTO {table} ({columns}, code_digest, expires_at, tries_left, window_started_at, sent_in_window) \
         VALUES ({places}, ?, ?, ?, ?, 1)"
    ));
    let inserted = key
        .bind(sqlx::query(insert))
        .bind(code.digest.to_vec())
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
