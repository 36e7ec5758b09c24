//! A database for each test: a SQLite file, or one of many on a MariaDB server that the tests share.

use std::{
    ops::Deref,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU32, Ordering},
    },
};

use penstock_local::{MariaDb, MariaDbSettings};
use penstock_records::sqlite_url;
use sqlx::{AnyConnection, Connection, Executor};
use tempfile::TempDir;

pub(crate) struct SqliteFile {
    folder: TempDir,
}

impl SqliteFile {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn url(&self) -> String {
        sqlite_url(&self.folder.path().join("records.db"))
    }

    /// A connection that may break references between tables.
    pub(crate) async fn connect(&self) -> AnyConnection {
        let mut connection = connect(&self.url()).await;
        connection.execute("PRAGMA foreign_keys = OFF").await.unwrap();
        connection
    }

    /// Blocks other writers until the connection is closed.
    pub(crate) async fn lock(&self) -> AnyConnection {
        let mut connection = self.connect().await;
        connection.execute("BEGIN IMMEDIATE").await.unwrap();
        connection
    }

    /// Keeps a buyer called `eve` from ordering.
    pub(crate) async fn ban_eve(&self) {
        let trigger = "CREATE TRIGGER no_eve BEFORE INSERT ON orders WHEN NEW.buyer = 'eve' \
                       BEGIN SELECT RAISE(ABORT, 'eve is banned'); END";
        self.connect().await.execute(trigger).await.unwrap();
    }
}

pub(crate) struct MariaDbDatabase {
    server: Arc<Server>,
    name: String,
    url: String,
}

impl MariaDbDatabase {
    pub(crate) fn new() -> Self {
        static DATABASES: AtomicU32 = AtomicU32::new(0);
        let name = format!("test_{}", DATABASES.fetch_add(1, Ordering::Relaxed));
        let server = Server::shared();
        let url = server.create_database(&name).unwrap();
        Self { server, name, url }
    }

    pub(crate) fn url(&self) -> String {
        self.url.clone()
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) async fn connect(&self) -> AnyConnection {
        let mut connection = connect(&self.url()).await;
        connection.execute("SET foreign_key_checks = 0").await.unwrap();
        connection
    }

    pub(crate) async fn lock(&self) -> AnyConnection {
        let mut connection = self.connect().await;
        connection.execute("LOCK TABLES settlement_cursors READ").await.unwrap();
        connection
    }

    pub(crate) async fn ban_eve(&self) {
        let trigger = "CREATE TRIGGER no_eve BEFORE INSERT ON orders FOR EACH ROW \
                       IF NEW.buyer = 'eve' THEN SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = 'eve is banned'; END IF";
        self.connect().await.execute(trigger).await.unwrap();
    }

    pub(crate) fn server(&self) -> &MariaDb {
        &self.server
    }
}

async fn connect(url: &str) -> AnyConnection {
    sqlx::any::install_default_drivers();
    AnyConnection::connect(url).await.unwrap()
}

/// Lives as long as a test needs it: a static would outlive the program.
struct Server {
    mariadb: MariaDb,
    _folder: TempDir,
}

impl Server {
    fn shared() -> Arc<Self> {
        static RUNNING: Mutex<Weak<Server>> = Mutex::new(Weak::new());
        let mut running = RUNNING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(server) = running.upgrade() {
            return server;
        }
        let folder = tempfile::tempdir().unwrap();
        // Hundreds of tables are created and dropped: nothing has to be durable.
        let extra =
            ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-doublewrite=0"];
        let settings = MariaDbSettings { extra: extra.map(String::from).into() };
        let mariadb = MariaDb::start_with(folder.path(), settings).unwrap();
        let server = Arc::new(Self { mariadb, _folder: folder });
        *running = Arc::downgrade(&server);
        server
    }
}

impl Deref for Server {
    type Target = MariaDb;

    fn deref(&self) -> &MariaDb {
        &self.mariadb
    }
}
