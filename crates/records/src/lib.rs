//! The SQL system of record: accounts, catalogue, orders, stock log, settlement cursor, dead letters, outbox,
//! audit. It knows no ledger and reads no clock; callers never see a type of the database driver.

mod accounts;
mod audit;
mod catalogue;
mod codes;
mod columns;
mod connection;
mod dead_letters;
mod dialect;
mod drafts;
mod error;
mod leases;
mod mysql;
mod orders;
mod outbox;
mod pictures;
mod refunds;
mod refusal;
mod rooms;
mod secrets;
mod settled;
mod settlement;
mod statements;
mod undo;
mod units;
mod waitlist;

use std::{path::Path, str::FromStr, time::Duration};

pub use accounts::{Account, CreateAccountError, NewAccount};
pub use audit::{
    Audit, AuditReport, Difference, Finding, LedgerForgets, OrderTime, SaleStanding, Source, StreamAudit,
    WaiterFound,
};
pub use catalogue::{Item, SaleRow};
pub use codes::{CodeCheck, NewCode, PutCodeError, TRIES_PER_CODE};
use connection::DatabaseConnection;
pub use dead_letters::DeadLetter;
use dialect::Dialect;
pub use drafts::ChangeDraftError;
pub use error::RecordsError;
pub use leases::{Lease, StreamView};
pub use orders::{OrderFilter, OrderRow};
pub use refusal::{Cause, Refusal};
pub use rooms::StoredRoom;
pub use secrets::StoredSecrets;
pub use settlement::{RetryError, SettleError, SettledBatch};
use sqlx::{
    AnyConnection, AnyPool, ConnectOptions, Connection, Executor,
    any::{AnyConnectOptions, AnyPoolOptions},
};
use tokio::time::timeout;
pub use units::UnitCounts;

/// How long a call waits for a connection, and each of its statements for an answer, before the records count
/// as unavailable.
const PATIENCE: Duration = Duration::from_secs(5);
const DISK_PATIENCE: Duration = Duration::from_secs(60);
/// An audit sums up whole tables, and nobody waits for it.
const AUDIT_PATIENCE: Duration = Duration::from_secs(600);
/// A change of the schema may have to copy a table.
const SCHEMA_PATIENCE: Duration = Duration::from_secs(3600);
/// How long a call waits for another one's write. Shorter than `PATIENCE`, so that the error says that it
/// waited for a lock.
const LOCK_PATIENCE: Duration = Duration::from_secs(4);
const _: () = assert!(LOCK_PATIENCE.as_secs() < PATIENCE.as_secs());

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
    /// SQLite has one writer at a time. Waiting for it here is fair; waiting for its lock is not.
    writers: AnyPool,
    dialect: Dialect,
}

impl Records {
    /// Opens the database that `url` names (`sqlite:…`, `mysql:…`) and brings its schema up to date. A SQLite
    /// file is created; a MySQL or MariaDB database has to exist. Readers and writers may have
    /// `max_connections` each.
    pub async fn open(url: &str, max_connections: u32) -> Result<Self, RecordsError> {
        let address = DatabaseAddress::of(url, max_connections)?;
        if address.dialect == Dialect::MySql {
            // A single connection says why it can't be opened; a pool only says that it waited.
            let mut connection = answered(PATIENCE, AnyConnection::connect(&address.url))
                .await?
                .map_err(error::of_connecting)?;
            answered(PATIENCE, prepare_connection(&mut connection, Role::Writer)).await??;
            answered(SCHEMA_PATIENCE, mysql::migrate(&mut connection)).await??;
            connection.close().await?;
        }
        let (options, url) = address.pool(Role::Writer)?;
        let writers = options.connect_with(url).await?;
        if address.dialect == Dialect::Sqlite {
            undo::steps().run(&writers).await?;
        }
        let (options, url) = address.pool(Role::Reader)?;
        let readers = options.connect_with(url).await?;
        Ok(Self { readers, writers, dialect: address.dialect })
    }

    /// Opens a database that can't be reached yet: until it can, calls are `Unavailable`. The caller has to
    /// `open` it as soon as it can be reached, to bring its schema up to date.
    pub fn open_later(url: &str, max_connections: u32) -> Result<Self, RecordsError> {
        let address = DatabaseAddress::of(url, max_connections)?;
        let lazily = |role| {
            let (options, url) = address.pool(role)?;
            Ok::<_, RecordsError>(options.connect_lazy_with(url))
        };
        Ok(Self { readers: lazily(Role::Reader)?, writers: lazily(Role::Writer)?, dialect: address.dialect })
    }

    /// Whether the database answers.
    pub async fn ping(&self) -> Result<(), RecordsError> {
        self.reader().await?.change(sqlx::query("SELECT 1")).await?;
        Ok(())
    }

    /// How many calls can read at the same time.
    pub fn max_readers(&self) -> u32 {
        self.readers.options().get_max_connections()
    }

    /// Waits for the calls under way and closes every connection.
    pub async fn close(&self) {
        self.readers.close().await;
        self.writers.close().await;
    }

    /// A disk may be slow, but it does not go silent for good, and a write that it was given can't be taken
    /// back.
    fn patience(&self) -> Duration {
        match self.dialect {
            Dialect::Sqlite => DISK_PATIENCE,
            Dialect::MySql => PATIENCE,
        }
    }

    async fn reader(&self) -> Result<DatabaseConnection, RecordsError> {
        Ok(DatabaseConnection::new(self.readers.acquire().await?, self.dialect, self.patience()))
    }

    async fn writer(&self) -> Result<DatabaseConnection, RecordsError> {
        Ok(DatabaseConnection::new(self.writers.acquire().await?, self.dialect, self.patience()))
    }

    /// A transaction that may write from its first statement on, so that it can't fail half way because
    /// another one wrote in between.
    async fn begin(&self) -> Result<DatabaseConnection, RecordsError> {
        self.writer().await?.begin(self.dialect.begin_write()).await
    }

    /// A transaction that sees a consistent snapshot for as long as an audit takes.
    async fn snapshot(&self) -> Result<DatabaseConnection, RecordsError> {
        let connection = self.readers.acquire().await?;
        DatabaseConnection::new(connection, self.dialect, AUDIT_PATIENCE)
            .begin(self.dialect.begin_snapshot())
            .await
    }
}

/// Waits for `answer`, at most for `patience`.
async fn answered<T>(patience: Duration, answer: impl Future<Output = T>) -> Result<T, RecordsError> {
    timeout(patience, answer)
        .await
        .map_err(|_| RecordsError::Unavailable("the database does not answer".into()))
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

/// Where a database is, and how many connections to it are allowed.
struct DatabaseAddress {
    url: String,
    dialect: Dialect,
    max_readers: u32,
    max_writers: u32,
}

impl DatabaseAddress {
    fn of(url: &str, max_connections: u32) -> Result<Self, RecordsError> {
        sqlx::any::install_default_drivers();
        let Some(dialect) = Dialect::of_url(url) else {
            return Err(RecordsError::Unsuitable("its URL begins with neither sqlite: nor mysql:".into()));
        };
        let max_readers = max_connections.max(1);
        let (url, max_writers) = match dialect {
            Dialect::Sqlite if url.contains("mode=") => (url.to_owned(), 1),
            Dialect::Sqlite => (format!("{url}{}mode=rwc", if url.contains('?') { '&' } else { '?' }), 1),
            Dialect::MySql => (url.to_owned(), max_readers),
        };
        Ok(Self { url, dialect, max_readers, max_writers })
    }

    fn pool(&self, role: Role) -> Result<(AnyPoolOptions, AnyConnectOptions), RecordsError> {
        // Statements of a thousand rows would flood the log.
        let url = AnyConnectOptions::from_str(&self.url)?.disable_statement_logging();
        let max_connections = if role == Role::Writer { self.max_writers } else { self.max_readers };
        let mut options = AnyPoolOptions::new()
            .max_connections(max_connections)
            .acquire_timeout(PATIENCE)
            .after_connect(move |connection, _| Box::pin(prepare_connection(connection, role)));
        if self.dialect == Dialect::MySql {
            // The pool's own checks have no deadline.
            options = options
                .test_before_acquire(false)
                .before_acquire(|connection, _| Box::pin(connection::answers(connection)))
                .after_release(|connection, _| Box::pin(connection::answers(connection)));
        }
        Ok((options, url))
    }
}

async fn prepare_connection(connection: &mut AnyConnection, role: Role) -> Result<(), sqlx::Error> {
    if connection.backend_name() == "SQLite" {
        return prepare_sqlite(connection, role).await;
    }
    mysql::prepare_connection(connection, role).await
}

/// SQLite: readers never wait for the writer (WAL), and commits are on the disk. The ledger forgets decisions
/// once they are settled, so settlement must not lose its end.
async fn prepare_sqlite(connection: &mut AnyConnection, role: Role) -> Result<(), sqlx::Error> {
    let patience_millis = LOCK_PATIENCE.as_millis();
    connection.execute(sqlx::AssertSqlSafe(format!("PRAGMA busy_timeout = {patience_millis}"))).await?;
    connection.execute("PRAGMA journal_mode = WAL").await?;
    connection.execute("PRAGMA synchronous = FULL").await?;
    connection.execute("PRAGMA foreign_keys = ON").await?;
    if role == Role::Writer {
        // 64 MiB of pages: the keys of orders come in random order, and their index should stay in memory.
        connection.execute("PRAGMA cache_size = -65536").await?;
        // 32 MiB of log: pages that change again and again are written back once.
        connection.execute("PRAGMA wal_autocheckpoint = 8192").await?;
    }
    Ok(())
}
