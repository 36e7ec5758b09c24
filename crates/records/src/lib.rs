//! The SQL system of record: accounts, catalogue, orders, stock log, settlement cursor, dead letters, outbox,
//! audit. It knows no ledger and reads no clock; callers never see a type of the database driver.

mod accounts;
mod audit;
mod catalogue;
mod codes;
mod columns;
mod dead_letters;
mod error;
mod orders;
mod settlement;

use std::{path::Path, str::FromStr, time::Duration};

pub use accounts::{Account, CreateAccountError, NewAccount};
pub use audit::{Audit, AuditReport, Difference, UnitCounts};
pub use catalogue::{Item, SaleRow};
pub use codes::{CodeCheck, PutCodeError, TRIES_PER_CODE};
pub use dead_letters::{DeadLetter, RetryError};
pub use error::RecordsError;
pub use orders::{OrderFilter, OrderRow};
pub use settlement::{SettleError, Settled};
use sqlx::{
    Any, AnyConnection, AnyPool, ConnectOptions, Connection, Executor, Transaction,
    any::{AnyConnectOptions, AnyPoolOptions},
};

/// How long a call waits for a connection or for another process's write before the records count as
/// unavailable.
const PATIENCE: Duration = Duration::from_secs(5);

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Role {
    Reader,
    Writer,
}

/// The cheap handle to the records.
#[derive(Clone, Debug)]
pub struct Records {
    readers: AnyPool,
    /// SQLite has one writer at a time; waiting for it here is fair, waiting for its lock is not.
    writers: AnyPool,
    begin_write: &'static str,
}

impl Records {
    /// Opens the database that `url` names and brings its schema up to date. A SQLite file is created.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self, RecordsError> {
        sqlx::any::install_default_drivers();
        let sqlite = url.starts_with("sqlite:");
        let url = if sqlite && !url.contains("mode=") {
            let separator = if url.contains('?') { '&' } else { '?' };
            format!("{url}{separator}mode=rwc")
        } else {
            url.to_owned()
        };
        let max_connections = max_connections.max(1);
        let writers = pool(&url, Role::Writer, if sqlite { 1 } else { max_connections }).await?;
        sqlx::migrate!("./migrations").run(&writers).await?;
        let readers = if sqlite { pool(&url, Role::Reader, max_connections).await? } else { writers.clone() };
        let begin_write = if sqlite { "BEGIN IMMEDIATE" } else { "BEGIN" };
        Ok(Self { readers, writers, begin_write })
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), RecordsError> {
        sqlx::query("SELECT 1").execute(&self.readers).await?;
        Ok(())
    }

    /// Waits for the calls under way and closes every connection.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }

    /// A transaction that may write from its first statement on, so that it can't fail half way because
    /// another one wrote in between.
    async fn begin(&self) -> Result<Transaction<'static, Any>, RecordsError> {
        Ok(self.writers.begin_with(self.begin_write).await?)
    }
}

/// The URL of the SQLite database in `file`.
pub fn sqlite_url(file: &Path) -> String {
    let mut url = String::from("sqlite://");
    for byte in file.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'-' | b'_' | b'~' => {
                url.push(char::from(*byte));
            }
            other => url.push_str(&format!("%{other:02X}")),
        }
    }
    url
}

async fn pool(url: &str, role: Role, max_connections: u32) -> Result<AnyPool, RecordsError> {
    // Statements of a thousand rows would drown the log.
    let url = AnyConnectOptions::from_str(url)?.disable_statement_logging();
    let options = AnyPoolOptions::new()
        .max_connections(max_connections)
        .acquire_timeout(PATIENCE)
        .after_connect(move |connection, _| Box::pin(prepare_connection(connection, role)))
        .after_release(|connection, _| Box::pin(is_usable(connection)));
    Ok(options.connect_with(url).await?)
}

/// A full disk makes SQLite roll a transaction back by itself, and then the driver's own rollback fails: the driver
/// counts the connection as inside a transaction for ever, so it is closed instead of used again.
async fn is_usable(connection: &mut AnyConnection) -> Result<bool, sqlx::Error> {
    // A rollback that is still under way comes first.
    connection.ping().await?;
    Ok(!connection.is_in_transaction())
}

/// SQLite: readers never wait for the writer (WAL), and what is committed is on the disk: the ledger forgets
/// decisions once they are settled, so settlement may not lose its tail.
async fn prepare_connection(connection: &mut AnyConnection, role: Role) -> Result<(), sqlx::Error> {
    if connection.backend_name() != "SQLite" {
        return Ok(());
    }
    let patience_millis = PATIENCE.as_millis();
    connection.execute(sqlx::AssertSqlSafe(format!("PRAGMA busy_timeout = {patience_millis}"))).await?;
    connection.execute("PRAGMA journal_mode = WAL").await?;
    connection.execute("PRAGMA synchronous = FULL").await?;
    connection.execute("PRAGMA foreign_keys = ON").await?;
    if role == Role::Writer {
        // 64 MiB of pages: the keys of orders come in no order, and their index should stay in memory.
        connection.execute("PRAGMA cache_size = -65536").await?;
        // 32 MiB of log: pages that change again and again are written back once.
        connection.execute("PRAGMA wal_autocheckpoint = 8192").await?;
    }
    Ok(())
}
