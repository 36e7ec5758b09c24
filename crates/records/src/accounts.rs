//! Accounts, and which of their sessions are no longer valid.

use penstock_domain::{AccountId, Timestamp};
use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{flag, integer, moment, text},
};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Account {
    pub id: AccountId,
    pub phone: String,
    pub name: String,
    pub password_hash: String,
    pub admin: bool,
    /// Sessions that began before this moment are void. The start of time until the password changes.
    pub sessions_valid_after: Timestamp,
    pub created_at: Timestamp,
}

#[derive(Clone, Debug)]
pub struct NewAccount {
    pub id: AccountId,
    pub phone: String,
    pub name: String,
    pub password_hash: String,
    pub admin: bool,
    pub created_at: Timestamp,
}

#[derive(Debug, thiserror::Error)]
pub enum CreateAccountError {
    #[error("the phone number has an account already")]
    PhoneTaken,
    #[error(transparent)]
    Records(#[from] RecordsError),
}

impl Records {
    pub async fn create_account(&self, new: NewAccount) -> Result<Account, CreateAccountError> {
        let account = Account {
            id: new.id,
            phone: new.phone,
            name: new.name,
            password_hash: new.password_hash,
            admin: new.admin,
            sessions_valid_after: Timestamp::from_millis(0),
            created_at: new.created_at,
        };
        let insert = sqlx::query(
            "INSERT INTO accounts (id, phone, name, password_hash, is_admin, sessions_valid_after, created_at) \
             VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(account.id.as_i64())
        .bind(account.phone.as_str())
        .bind(account.name.as_str())
        .bind(account.password_hash.as_str())
        .bind(i32::from(account.admin))
        .bind(account.sessions_valid_after.as_millis())
        .bind(account.created_at.as_millis());
        let is_new = self.writer().await?.insert_new(insert).await?;
        if is_new { Ok(account) } else { Err(CreateAccountError::PhoneTaken) }
    }

    pub async fn account(&self, id: AccountId) -> Result<Option<Account>, RecordsError> {
        let query = sqlx::query("SELECT * FROM accounts WHERE id = ?").bind(id.as_i64());
        self.reader().await?.one(query, read_account).await
    }

    pub async fn account_by_phone(&self, phone: &str) -> Result<Option<Account>, RecordsError> {
        let query = sqlx::query("SELECT * FROM accounts WHERE phone = ?").bind(phone);
        self.reader().await?.one(query, read_account).await
    }

    /// The accounts stored under one of these numbers, in the order of the numbers. There are few of them.
    pub async fn accounts_by_phone(&self, phones: &[String]) -> Result<Vec<Account>, RecordsError> {
        let places = vec!["?"; phones.len()].join(", ");
        let query = AssertSqlSafe(format!("SELECT * FROM accounts WHERE phone IN ({places})"));
        let query = phones.iter().fold(sqlx::query(query), |query, phone| query.bind(phone.as_str()));
        let mut accounts = self.reader().await?.all(query, read_account).await?;
        accounts.sort_by_key(|account| phones.iter().position(|phone| *phone == account.phone));
        Ok(accounts)
    }

    /// Sets the password and ends every session that began before `now`. False: there is no such account.
    pub async fn set_password(
        &self,
        id: AccountId,
        hash: &str,
        now: Timestamp,
    ) -> Result<bool, RecordsError> {
        let update =
            sqlx::query("UPDATE accounts SET password_hash = ?, sessions_valid_after = ? WHERE id = ?")
                .bind(hash)
                .bind(now.as_millis())
                .bind(id.as_i64());
        Ok(self.writer().await?.change(update).await? == 1)
    }

    /// Grants or revokes the admin role. False: no account has this phone number.
    pub async fn promote(&self, phone: &str, admin: bool) -> Result<bool, RecordsError> {
        let update = sqlx::query("UPDATE accounts SET is_admin = ? WHERE phone = ?")
            .bind(i32::from(admin))
            .bind(phone);
        Ok(self.writer().await?.change(update).await? == 1)
    }

    /// Ends one session. This is remembered until the session would have ended by itself.
    pub async fn revoke_session(
        &self,
        session: &str,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<(), RecordsError> {
        let insert =
            sqlx::query("INSERT INTO revoked_sessions (session_id, expires_at, revoked_at) VALUES (?, ?, ?)")
                .bind(session)
                .bind(expires_at.as_millis())
                .bind(now.as_millis());
        self.writer().await?.insert_new(insert).await?;
        Ok(())
    }

    /// The revoked sessions that would otherwise still be valid.
    pub async fn revoked_sessions(&self, now: Timestamp) -> Result<Vec<(String, Timestamp)>, RecordsError> {
        let query = sqlx::query("SELECT session_id, expires_at FROM revoked_sessions WHERE expires_at > ?")
            .bind(now.as_millis());
        self.reader().await?.all(query, read_revoked).await
    }

    /// The sessions that were revoked at `since` or later.
    pub async fn revoked_sessions_since(
        &self,
        since: Timestamp,
    ) -> Result<Vec<(String, Timestamp)>, RecordsError> {
        let query = sqlx::query("SELECT session_id, expires_at FROM revoked_sessions WHERE revoked_at >= ?")
            .bind(since.as_millis());
        self.reader().await?.all(query, read_revoked).await
    }

    /// The accounts that ended their earlier sessions after `since`, and when. A caller asks for the lifetime
    /// of a session; older revocations no longer matter.
    pub async fn accounts_with_revocations(
        &self,
        since: Timestamp,
    ) -> Result<Vec<(AccountId, Timestamp)>, RecordsError> {
        let query =
            sqlx::query("SELECT id, sessions_valid_after FROM accounts WHERE sessions_valid_after > ?")
                .bind(since.as_millis().max(0));
        let read = |row: &AnyRow| {
            Ok((AccountId::from_i64(integer(row, "id")?), moment(row, "sessions_valid_after")?))
        };
        self.reader().await?.all(query, read).await
    }

    /// Deletes sessions and codes that ended before `before`: no answer depends on them.
    pub async fn forget_expired(&self, before: Timestamp) -> Result<(), RecordsError> {
        for statement in [
            "DELETE FROM revoked_sessions WHERE expires_at < ?",
            "DELETE FROM one_time_codes WHERE expires_at < ?",
            "DELETE FROM codes_by_origin WHERE expires_at < ?",
        ] {
            self.writer().await?.change(sqlx::query(statement).bind(before.as_millis())).await?;
        }
        Ok(())
    }
}

fn read_revoked(row: &AnyRow) -> Result<(String, Timestamp), RecordsError> {
    Ok((text(row, "session_id")?, moment(row, "expires_at")?))
}

fn read_account(row: &AnyRow) -> Result<Account, RecordsError> {
    Ok(Account {
        id: AccountId::from_i64(integer(row, "id")?),
        phone: text(row, "phone")?,
        name: text(row, "name")?,
        password_hash: text(row, "password_hash")?,
        admin: flag(row, "is_admin")?,
        sessions_valid_after: moment(row, "sessions_valid_after")?,
        created_at: moment(row, "created_at")?,
    })
}
