//! A connection for one call. Each of its statements has a deadline: otherwise a call would wait for a silent
//! or vanished server until the network gives up after a quarter of an hour. A connection is closed and not
//! reused if its statement was interrupted, or if it is inside a transaction when the call ends.

use std::{io, time::Duration};

use futures_util::{
    future::BoxFuture,
    stream::{self, BoxStream, StreamExt},
};
use sqlx::{
    Any, AnyConnection, Connection, Describe, Either, Error, Execute, Executor, SqlStr,
    any::{AnyQueryResult, AnyRow, AnyStatement, AnyTypeInfo},
    pool::PoolConnection,
};
use tokio::time::timeout;

use crate::{RecordsError, dialect::Dialect};

/// How long a connection that has rested may take to prove that it still answers.
const PING_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub(crate) struct Session {
    connection: PoolConnection<Any>,
    dialect: Dialect,
    /// How long the server may be silent while a statement is under way.
    patience: Duration,
    /// A statement is under way, or was interrupted.
    under_way: bool,
    in_transaction: bool,
}

impl Session {
    pub(crate) fn new(connection: PoolConnection<Any>, dialect: Dialect, patience: Duration) -> Self {
        Self { connection, dialect, patience, under_way: false, in_transaction: false }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Begins a transaction with a statement of the dialect.
    pub(crate) async fn begin(mut self, statement: &'static str) -> Result<Self, RecordsError> {
        self.in_transaction = true;
        (&mut self).execute(statement).await?;
        Ok(self)
    }

    pub(crate) async fn commit(self) -> Result<(), Error> {
        let statement = self.dialect.commit();
        self.end(statement).await
    }

    pub(crate) async fn rollback(self) -> Result<(), Error> {
        let statement = self.dialect.rollback();
        self.end(statement).await
    }

    async fn end(mut self, statement: &'static str) -> Result<(), Error> {
        (&mut self).execute(statement).await?;
        self.in_transaction = false;
        Ok(())
    }
}

impl Drop for Session {
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

fn silent() -> Error {
    Error::Io(io::Error::new(io::ErrorKind::TimedOut, "the database does not answer"))
}

/// True for errors after which the state of the connection is unknown.
fn is_final(error: &Error) -> bool {
    matches!(error, Error::Io(_) | Error::Tls(_) | Error::Protocol(_) | Error::WorkerCrashed)
}

impl<'c> Executor<'c> for &'c mut Session {
    type Database = Any;

    fn fetch_many<'e, 'q: 'e, E>(
        self,
        query: E,
    ) -> BoxStream<'e, Result<Either<AnyQueryResult, AnyRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        let Session { connection, patience, under_way, .. } = self;
        let patience = *patience;
        *under_way = true;
        let answers = (&mut **connection).fetch_many(query);
        stream::unfold(Some((answers, under_way)), move |state| async move {
            let (mut answers, under_way) = state?;
            match timeout(patience, answers.next()).await {
                Ok(Some(Ok(answer))) => Some((Ok(answer), Some((answers, under_way)))),
                Ok(Some(Err(error))) => {
                    *under_way = is_final(&error);
                    Some((Err(error), None))
                }
                Ok(None) => {
                    *under_way = false;
                    None
                }
                Err(_) => Some((Err(silent()), None)),
            }
        })
        .boxed()
    }

    fn fetch_optional<'e, 'q: 'e, E>(self, query: E) -> BoxFuture<'e, Result<Option<AnyRow>, Error>>
    where
        'c: 'e,
        E: 'q + Execute<'q, Any>,
    {
        Box::pin(async move {
            self.under_way = true;
            let answer = timeout(self.patience, (&mut *self.connection).fetch_optional(query)).await;
            let answer = answer.map_err(|_| silent())?;
            self.under_way = answer.as_ref().is_err_and(is_final);
            answer
        })
    }

    fn prepare_with<'e>(
        self,
        sql: SqlStr,
        parameters: &'e [AnyTypeInfo],
    ) -> BoxFuture<'e, Result<AnyStatement, Error>>
    where
        'c: 'e,
    {
        (&mut *self.connection).prepare_with(sql, parameters)
    }

    fn describe<'e>(self, sql: SqlStr) -> BoxFuture<'e, Result<Describe<Any>, Error>>
    where
        'c: 'e,
    {
        (&mut *self.connection).describe(sql)
    }
}
