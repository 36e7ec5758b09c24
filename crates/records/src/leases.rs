//! Which settler settles which stream, and how far it is settled. A settler has a stream's lease for a few
//! seconds by the database's clock, and each batch that it settles renews the lease. Taking a lease raises
//! the stream's fence, and so does anybody who has to be sure that nothing is settled meanwhile: a settler
//! with an older fence can no longer write.

use std::sync::Arc;

use penstock_domain::{Cursor, Mark};
use sqlx::{Any, AssertSqlSafe, QueryBuilder, any::AnyRow};

use crate::{
    Records, RecordsError, SettleError,
    columns::{flag, integer, text},
    dialect::Dialect,
    error::is_unique_violation,
    session::Session,
};

/// How many streams one query asks for.
const MAX_LISTED: usize = 1000;

/// The right to settle a stream, until its fence is raised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub stream: Arc<str>,
    pub fence: u64,
    /// How far the stream was settled when the lease was taken; the settler moves it on.
    pub cursor: Cursor,
    /// Only decisions of this epoch's history may be settled under the lease. A new epoch also raises the
    /// fence.
    pub epoch: u64,
    seconds: u32,
}

/// What is known about a stream's settlement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamView {
    pub stream: Arc<str>,
    pub cursor: Cursor,
    /// The owner of the last lease; None if there was none, or if it was given back.
    pub owner: Option<String>,
    /// Whether the owner's time is not over yet.
    pub leased: bool,
}

impl Records {
    /// How far `stream` is settled; the default if nothing is settled yet.
    pub async fn cursor(&self, stream: &str) -> Result<Cursor, RecordsError> {
        read_cursor(&mut self.reader().await?, stream).await
    }

    /// Takes the lease of `stream` for `seconds`. None: another settler has it.
    pub async fn lease(
        &self,
        stream: &str,
        owner: &str,
        seconds: u32,
    ) -> Result<Option<Lease>, RecordsError> {
        let mut transaction = self.begin().await?;
        let now = self.dialect.now_millis();
        let take = format!(
            "UPDATE settlement_cursors SET fence = fence + 1, owner = ?, lease_until = {now} + ? \
             WHERE stream = ? AND (owner = ? OR lease_until <= {now})"
        );
        let taken = sqlx::query(AssertSqlSafe(take))
            .bind(owner)
            .bind(millis(seconds))
            .bind(stream)
            .bind(owner)
            .execute(&mut transaction)
            .await?;
        let row = sqlx::query("SELECT position, mark, fence, epoch FROM settlement_cursors WHERE stream = ?")
            .bind(stream)
            .fetch_optional(&mut transaction)
            .await?;
        let lease = |fence, cursor, epoch| Lease { stream: stream.into(), fence, cursor, epoch, seconds };
        let lease = match row {
            Some(_) if taken.rows_affected() == 0 => {
                transaction.rollback().await?;
                return Ok(None);
            }
            Some(row) => lease(natural(&row, "fence")?, stored_cursor(&row)?, natural(&row, "epoch")?),
            None if begin_stream(&mut transaction, self.dialect, stream, owner, seconds).await? => {
                lease(FIRST_FENCE, Cursor::default(), 0)
            }
            None => {
                transaction.rollback().await?;
                return Ok(None);
            }
        };
        transaction.commit().await?;
        Ok(Some(lease))
    }

    /// Restarts the time of a lease. False: its fence was raised.
    pub async fn renew(&self, lease: &Lease) -> Result<bool, RecordsError> {
        let now = self.dialect.now_millis();
        let renew =
            format!("UPDATE settlement_cursors SET lease_until = {now} + ? WHERE stream = ? AND fence = ?");
        let renewed = sqlx::query(AssertSqlSafe(renew))
            .bind(millis(lease.seconds))
            .bind(&*lease.stream)
            .bind(lease.fence as i64)
            .execute(&mut self.writer().await?)
            .await?;
        Ok(renewed.rows_affected() == 1)
    }

    /// Gives back all leases of `owner`, so that nobody has to wait until they run out.
    pub async fn release(&self, owner: &str) -> Result<(), RecordsError> {
        sqlx::query("UPDATE settlement_cursors SET owner = '', lease_until = 0 WHERE owner = ?")
            .bind(owner)
            .execute(&mut self.writer().await?)
            .await?;
        Ok(())
    }

    /// How far each of `streams` is settled and by whom, in the same order.
    pub async fn leases(&self, streams: &[Arc<str>]) -> Result<Vec<StreamView>, RecordsError> {
        let unknown = |stream: &Arc<str>| StreamView {
            stream: stream.clone(),
            cursor: Cursor::default(),
            owner: None,
            leased: false,
        };
        let mut views: Vec<StreamView> = streams.iter().map(unknown).collect();
        let now = self.dialect.now_millis();
        for views in views.chunks_mut(MAX_LISTED) {
            let mut query = QueryBuilder::<Any>::new(format!(
                "SELECT stream, position, mark, owner, CASE WHEN lease_until > {now} THEN 1 ELSE 0 END AS leased \
                 FROM settlement_cursors WHERE stream IN ("
            ));
            let mut list = query.separated(", ");
            for view in views.iter() {
                list.push_bind(&*view.stream);
            }
            query.push(")");
            for row in query.build().fetch_all(&mut self.reader().await?).await? {
                let stream = text(&row, "stream")?;
                let Some(view) = views.iter_mut().find(|view| *view.stream == *stream) else { continue };
                view.cursor = stored_cursor(&row)?;
                view.owner = Some(text(&row, "owner")?).filter(|owner| !owner.is_empty());
                view.leased = flag(&row, "leased")?;
            }
        }
        Ok(views)
    }
}

/// The fence of a stream's first lease.
const FIRST_FENCE: u64 = 1;

/// False: another settler has just done it.
async fn begin_stream(
    connection: &mut Session,
    dialect: Dialect,
    stream: &str,
    owner: &str,
    seconds: u32,
) -> Result<bool, RecordsError> {
    let now = dialect.now_millis();
    let insert = format!(
        "INSERT INTO settlement_cursors (stream, position, mark, owner, lease_until, fence) \
         VALUES (?, 0, ?, ?, {now} + ?, ?)"
    );
    let inserted = sqlx::query(AssertSqlSafe(insert))
        .bind(stream)
        .bind(Mark::default().to_string())
        .bind(owner)
        .bind(millis(seconds))
        .bind(FIRST_FENCE as i64)
        .execute(&mut *connection)
        .await;
    match inserted {
        Ok(_) => Ok(true),
        Err(error) if is_unique_violation(&error) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn read_cursor(connection: &mut Session, stream: &str) -> Result<Cursor, RecordsError> {
    let row = sqlx::query("SELECT position, mark FROM settlement_cursors WHERE stream = ?")
        .bind(stream)
        .fetch_optional(&mut *connection)
        .await?;
    row.as_ref().map_or(Ok(Cursor::default()), stored_cursor)
}

/// Moves the cursor of a lease on from the position `from`, if it is still there and the lease holds, and
/// renews the lease. It comes first in its transaction, so that of two settlers one waits for the other.
pub(crate) async fn move_cursor(
    connection: &mut Session,
    dialect: Dialect,
    lease: &Lease,
    from: u64,
    to: Cursor,
) -> Result<(), SettleError> {
    let now = dialect.now_millis();
    let move_on = format!(
        "UPDATE settlement_cursors SET position = ?, mark = ?, lease_until = {now} + ? \
         WHERE stream = ? AND position = ? AND fence = ? AND epoch = ?"
    );
    let moved = sqlx::query(AssertSqlSafe(move_on))
        .bind(to.position as i64)
        .bind(to.mark.to_string())
        .bind(millis(lease.seconds))
        .bind(&*lease.stream)
        .bind(from as i64)
        .bind(lease.fence as i64)
        .bind(lease.epoch as i64)
        .execute(&mut *connection)
        .await?;
    if moved.rows_affected() == 1 {
        return Ok(());
    }
    let row = sqlx::query("SELECT position, fence, epoch FROM settlement_cursors WHERE stream = ?")
        .bind(&*lease.stream)
        .fetch_optional(&mut *connection)
        .await?;
    match row {
        Some(row) if (natural(&row, "fence")?, natural(&row, "epoch")?) == (lease.fence, lease.epoch) => {
            Err(SettleError::CursorMoved { position: natural(&row, "position")? })
        }
        _ => Err(SettleError::Fenced),
    }
}

fn stored_cursor(row: &AnyRow) -> Result<Cursor, RecordsError> {
    let mark = text(row, "mark")?;
    let mark = mark.parse().map_err(|_| RecordsError::damaged(format!("mark is {mark:?}")))?;
    Ok(Cursor { position: natural(row, "position")?, mark })
}

fn natural(row: &AnyRow, column: &str) -> Result<u64, RecordsError> {
    u64::try_from(integer(row, column)?).map_err(RecordsError::damaged)
}

fn millis(seconds: u32) -> i64 {
    i64::from(seconds) * 1000
}
