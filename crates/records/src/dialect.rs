//! The two kinds of database, and what has to be said to each in its own words.

/// Which SQL a database speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    Sqlite,
    /// MySQL or MariaDB.
    MySql,
}

impl Dialect {
    /// None: neither of them.
    pub(crate) fn of_url(url: &str) -> Option<Self> {
        let (scheme, _) = url.split_once(':')?;
        match scheme {
            "sqlite" => Some(Self::Sqlite),
            "mysql" | "mariadb" => Some(Self::MySql),
            _ => None,
        }
    }

    /// Begins a transaction that may write. SQLite has one writer, which is better waited for now than half way;
    /// the others lock the rows they change. A node that freezes or is cut off in the middle would keep them locked;
    /// so a server is told to end a connection that is silent for so many seconds inside a transaction, and
    /// only there: the pool's connections may rest. (MySQL has no setting for transactions alone.)
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

    /// Begins a transaction that sees one moment of everything.
    pub(crate) const fn begin_snapshot(self) -> &'static str {
        match self {
            Self::Sqlite => "BEGIN",
            Self::MySql => "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        }
    }

    /// Orders by the key that begins with the buyer. A server whose statistics are from before a rush would rather read
    /// the whole sale; the name is the one that it gave the key.
    pub(crate) const fn orders_by_buyer(self) -> &'static str {
        match self {
            Self::Sqlite => "orders",
            Self::MySql => "orders FORCE INDEX (buyer)",
        }
    }

    /// The database's own clock, in milliseconds: what several nodes are judged by.
    pub(crate) const fn now_millis(self) -> &'static str {
        match self {
            Self::Sqlite => "CAST(unixepoch('subsec') * 1000 AS INTEGER)",
            Self::MySql => "CAST(UNIX_TIMESTAMP(NOW(3)) * 1000 AS SIGNED)",
        }
    }
}
