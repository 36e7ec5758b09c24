//! A connection for one call. Each of its statements has a deadline: otherwise a call would wait for a
//! silent or vanished server until the network gives up after a quarter of an hour. A connection is closed
//! and not reused if its statement was interrupted, or if it is inside a transaction when the call ends.

use std::{io, time::Duration};

use futures_util::TryStreamExt as _;
use sqlx::{
    Any, AnyConnection, Connection, Error, Executor as _,
    any::{AnyArguments, AnyRow},
    pool::PoolConnection,
    query::Query,
};
use tokio::time::{error::Elapsed, timeout};

use crate::{RecordsError, dialect::Dialect};

/// How long a connection that has rested may take to prove that it still answers.
const PING_PATIENCE: Duration = Duration::from_secs(2);

pub(crate) type Statement<'q> = Query<'q, Any, AnyArguments>;

#[derive(Debug)]
pub(crate) struct DatabaseConnection {
    connection: PoolConnection<Any>,
    dialect: Dialect,
    /// How long the server may be silent while a statement is under way.
    patience: Duration,
    /// A statement is under way, or was interrupted.
    under_way: bool,
    in_transaction: bool,
}

impl DatabaseConnection {
    pub(crate) fn new(connection: PoolConnection<Any>, dialect: Dialect, patience: Duration) -> Self {
        Self { connection, dialect, patience, under_way: false, in_transaction: false }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Begins a transaction with a statement of the dialect.
    pub(crate) async fn begin(mut self, statement: &'static str) -> Result<Self, RecordsError> {
        self.in_transaction = true;
        self.run(statement).await?;
        Ok(self)
    }

    pub(crate) async fn commit(self) -> Result<(), RecordsError> {
        let statement = self.dialect.commit();
        self.end(statement).await
    }

    pub(crate) async fn rollback(self) -> Result<(), RecordsError> {
        let statement = self.dialect.rollback();
        self.end(statement).await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), RecordsError> {
        self.run(statement).await?;
        self.in_transaction = false;
        Ok(())
    }

    async fn run(&mut self, statement: &'static str) -> Result<(), RecordsError> {
        self.under_way = true;
        let answer = timeout(self.patience, self.connection.execute(statement)).await;
        self.finish(answer)?;
        Ok(())
    }

    /// If the server did not answer, the state of the connection is unknown.
    fn finish<T>(&mut self, answer: Result<Result<T, Error>, Elapsed>) -> Result<T, Error> {
        let silent = || Error::Io(io::Error::new(io::ErrorKind::TimedOut, "the database does not answer"));
        let answer = answer.unwrap_or_else(|_| Err(silent()));
        self.under_way = answer.as_ref().is_err_and(is_final);
        answer
    }

    /// All rows that `query` finds. Between two of them, the server may be silent for as long as `patience`
    /// says.
    pub(crate) async fn rows(&mut self, query: Statement<'_>) -> Result<Vec<AnyRow>, RecordsError> {
        self.under_way = true;
        let mut rows = Vec::new();
        let mut answers = query.fetch(&mut *self.connection);
        let end = loop {
            match timeout(self.patience, answers.try_next()).await {
                Ok(Ok(Some(row))) => rows.push(row),
                end => break end,
            }
        };
        drop(answers);
        self.finish(end)?;
        Ok(rows)
    }

    /// The row that `query` finds, if there is one.
    pub(crate) async fn one<T>(
        &mut self,
        query: Statement<'_>,
        read: impl FnOnce(&AnyRow) -> Result<T, RecordsError>,
    ) -> Result<Option<T>, RecordsError> {
        self.under_way = true;
        let answer = timeout(self.patience, query.fetch_optional(&mut *self.connection)).await;
        self.finish(answer)?.as_ref().map(read).transpose()
    }

    /// What all rows say that `query` finds.
    pub(crate) async fn all<T>(
        &mut self,
        query: Statement<'_>,
        read: impl Fn(&AnyRow) -> Result<T, RecordsError>,
    ) -> Result<Vec<T>, RecordsError> {
        self.rows(query).await?.iter().map(read).collect()
    }

    /// Changes rows, and returns how many.
    pub(crate) async fn change(&mut self, statement: Statement<'_>) -> Result<u64, RecordsError> {
        Ok(self.execute(statement).await?)
    }

    async fn execute(&mut self, statement: Statement<'_>) -> Result<u64, Error> {
        self.under_way = true;
        let answer = timeout(self.patience, statement.execute(&mut *self.connection)).await;
        Ok(self.finish(answer)?.rows_affected())
    }

    /// False: a row with this key is there already.
    pub(crate) async fn insert_new(&mut self, insert: Statement<'_>) -> Result<bool, RecordsError> {
        match self.execute(insert).await {
            Ok(_) => Ok(true),
            Err(Error::Database(refused)) if refused.is_unique_violation() => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Drop for DatabaseConnection {
    fn drop(&mut self) {
        if self.under_way || self.in_transaction {
            self.connection.close_on_drop();
        }
    }
}

/// Whether a connection of the pool can be used; the server may have ended it, or may be gone.
pub(crate) async fn answers(connection: &mut AnyConnection) -> Result<bool, Error> {
    Ok(timeout(PING_PATIENCE, connection.ping()).await.is_ok_and(|answer| answer.is_ok()))
}

/// True for errors after which the state of the connection is unknown.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed)
}
