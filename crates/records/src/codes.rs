//! One-time codes. A code is kept twice: as the last one that its address asked for, and as the last one sent
//! to the phone. A guess is compared with the code of its own address. If the address has none, for example
//! because its user has moved to another network, the guess is compared with the phone's code. So nobody else
//! can replace or use up the code of an address by asking for codes or guessing.
//!
//! Every step begins with the lock of the phone's row, so that parallel requests and guesses are counted one
//! by one.

use penstock_domain::Timestamp;
use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{integer, moment},
    connection::{DatabaseConnection, Statement},
};

/// The number of wrong guesses after which a code is void: for its own address, and for all others together.
pub const TRIES_PER_CODE: i32 = 5;

/// Half of a phone's codes in a window are kept for newcomers. An address counts as one until it has had
/// this many codes: the first may have got lost on its way.
const KEPT_FOR_EACH_ORIGIN: i64 = 2;

/// How often storing a code is tried. Two attempts would be enough.
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
struct CodeKey<'a> {
    phone: &'a str,
    /// None: the last one sent to the phone.
    origin: Option<&'a str>,
}

impl CodeKey<'_> {
    /// The table, and the condition that finds the row in it.
    fn row(self) -> (&'static str, &'static str) {
        match self.origin {
            Some(_) => ("codes_by_origin", "phone = ? AND origin = ?"),
            None => ("one_time_codes", "phone = ?"),
        }
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
        let for_phone = CodeKey { phone: code.phone, origin: None };
        let for_origin = CodeKey { phone: code.phone, origin: Some(code.origin) };
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
                transaction.commit().await?;
                return Ok(());
            }
            transaction.rollback().await?;
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
                transaction.change(sqlx::query(statement).bind(phone)).await?;
            }
        }
        transaction.commit().await?;
        Ok(check)
    }
}

/// Compares with the code of the address if it has a valid one, otherwise with the phone's. It uses up a try
/// before it compares.
async fn guess(
    connection: &mut DatabaseConnection,
    phone: &str,
    origin: &str,
    digest: &[u8],
    now: Timestamp,
) -> Result<CodeCheck, RecordsError> {
    lock(connection, phone).await?;
    let own = CodeKey { phone, origin: Some(origin) };
    let find_own =
        sqlx::query("SELECT 1 FROM codes_by_origin WHERE phone = ? AND origin = ? AND expires_at > ?")
            .bind(phone)
            .bind(origin)
            .bind(now.as_millis());
    let has_own = connection.one(find_own, |_| Ok(())).await?.is_some();
    let key = if has_own { own } else { CodeKey { phone, origin: None } };
    let (table, condition) = key.row();
    let try_it = AssertSqlSafe(format!(
        "UPDATE {table} SET tries_left = tries_left - 1 WHERE {condition} AND tries_left > 0 AND expires_at > ?"
    ));
    if connection.change(key.bind(sqlx::query(try_it)).bind(now.as_millis())).await? == 0 {
        return Ok(CodeCheck::Void);
    }
    let compare = AssertSqlSafe(format!("SELECT 1 FROM {table} WHERE {condition} AND code_digest = ?"));
    let same = connection.one(key.bind(sqlx::query(compare)).bind(digest.to_vec()), |_| Ok(())).await?;
    Ok(if same.is_some() { CodeCheck::Right } else { CodeCheck::Wrong })
}

/// Locks the phone's row with an update that changes nothing. False: there is no row yet.
async fn lock(connection: &mut DatabaseConnection, phone: &str) -> Result<bool, RecordsError> {
    let lock = sqlx::query("UPDATE one_time_codes SET phone = phone WHERE phone = ?").bind(phone);
    Ok(connection.change(lock).await? == 1)
}

async fn sent_in_window(
    connection: &mut DatabaseConnection,
    key: CodeKey<'_>,
    code: &NewCode<'_>,
) -> Result<i64, RecordsError> {
    let (table, condition) = key.row();
    let query = AssertSqlSafe(format!(
        "SELECT sent_in_window FROM {table} WHERE {condition} AND window_started_at > ?"
    ));
    let begun_after = code.now.plus_millis(-code.window_millis()).as_millis();
    let query = key.bind(sqlx::query(query)).bind(begun_after);
    Ok(connection.one(query, |row| integer(row, "sent_in_window")).await?.unwrap_or(0))
}

/// Stores the code. False: try again.
async fn put(
    connection: &mut DatabaseConnection,
    key: CodeKey<'_>,
    code: &NewCode<'_>,
    max_per_window: u32,
) -> Result<bool, PutCodeError> {
    let max_per_window = i64::from(max_per_window);
    Ok(replace(connection, key, code, max_per_window).await?
        || insert(connection, key, code, max_per_window).await?)
}

/// Replaces an earlier code, in a new window or in the same one. False: neither was possible.
async fn replace(
    connection: &mut DatabaseConnection,
    key: CodeKey<'_>,
    code: &NewCode<'_>,
    max_per_window: i64,
) -> Result<bool, RecordsError> {
    let (table, condition) = key.row();
    // MySQL assigns the columns in this order; SQLite reads all of them before.
    let replace = AssertSqlSafe(format!(
        "UPDATE {table} SET code_digest = ?, expires_at = ?, tries_left = ?, \
         sent_in_window = CASE WHEN window_started_at <= ? THEN 1 ELSE sent_in_window + 1 END, \
         window_started_at = CASE WHEN window_started_at <= ? THEN ? ELSE window_started_at END \
         WHERE {condition} AND (window_started_at <= ? OR sent_in_window < ?)"
    ));
    let begun_before = code.now.plus_millis(-code.window_millis()).as_millis();
    let statement = sqlx::query(replace)
        .bind(code.digest.to_vec())
        .bind(code.expires_at.as_millis())
        .bind(TRIES_PER_CODE)
        .bind(begun_before)
        .bind(begun_before)
        .bind(code.now.as_millis());
    Ok(connection.change(key.bind(statement).bind(begun_before).bind(max_per_window)).await? == 1)
}

/// No row could be changed: the window is full, or this is the first code. False: another request has
/// inserted the row in the meantime.
async fn insert(
    connection: &mut DatabaseConnection,
    key: CodeKey<'_>,
    code: &NewCode<'_>,
    max_per_window: i64,
) -> Result<bool, PutCodeError> {
    let (table, condition) = key.row();
    let query =
        AssertSqlSafe(format!("SELECT window_started_at, sent_in_window FROM {table} WHERE {condition}"));
    let read = |row: &AnyRow| Ok((moment(row, "window_started_at")?, integer(row, "sent_in_window")?));
    if let Some((started_at, sent)) = connection.one(key.bind(sqlx::query(query)), read).await? {
        let millis_left = started_at.plus_millis(code.window_millis()).millis_since(code.now);
        if millis_left <= 0 || sent < max_per_window {
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
    let insert = key
        .bind(sqlx::query(insert))
        .bind(code.digest.to_vec())
        .bind(code.expires_at.as_millis())
        .bind(TRIES_PER_CODE)
        .bind(code.now.as_millis());
    Ok(connection.insert_new(insert).await?)
}
