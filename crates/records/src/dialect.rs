//! The two kinds of database, and the SQL in which they differ.

/// The SQL dialect of a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    /// MySQL or MariaDB.
    MySql,
}

impl Dialect {
    /// None: the URL is of neither kind.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once(':')?;
        match scheme {
            "sqlite" => Some(Self::Sqlite),
            "mysql" | "mariadb" => Some(Self::MySql),
            _ => None,
        }
    }

    /// Begins a transaction that may write. SQLite has one writer, and it is better to wait for it now than
    /// half way. The others lock the rows that they change. A node that froze or was cut off in the middle
    /// would keep those rows locked. So the server is told to end a connection that is silent for some
    /// seconds inside a transaction, but not one that rests in the pool. (MySQL has no setting for
    /// transactions alone.)
    pub(crate) const fn begin_write(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN IMMEDIATE",
            Self::MySql => "SET SESSION wait_timeout = 3; START TRANSACTION",
        }
    }

    pub(crate) const fn commit(self) -> &'static str {
        match self {
            Self::Sqlite => "COMMIT",
            Self::MySql => "COMMIT; SET SESSION wait_timeout = DEFAULT",
        }
    }

    pub(crate) const fn rollback(self) -> &'static str {
        match self {
            Self::Sqlite => "ROLLBACK",
            Self::MySql => "ROLLBACK; SET SESSION wait_timeout = DEFAULT",
        }
    }

    /// Begins a transaction that sees a consistent snapshot.
    pub(crate) const fn begin_snapshot(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN",
            Self::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        }
    }

    /// Reads orders by the key that begins with the buyer. A server whose statistics are from before a rush
    /// would otherwise read the whole sale. The name is the one that the server gave the key.
    pub(crate) const fn orders_by_buyer(self) -> &'static str {
        match self {
            Self::Sqlite => "orders",
            Self::MySql => "orders FORCE INDEX (buyer)",
        }
    }

    /// The database's own clock, in milliseconds, on which several nodes agree.
    pub(crate) const fn now_millis(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            Self::MySql => "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
        }
    }
}
