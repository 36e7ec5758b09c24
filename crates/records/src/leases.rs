//! Which settler settles which stream, and how far it is settled. A settler has a stream's lease for a few
//! seconds by the database's clock, and each batch that it settles renews the lease. Taking a lease raises
//! the stream's fence, and a settler with an older fence can no longer write. A ledger that needs
//! settlement to stop for a moment raises the fence, too.

use std::sync::Arc;

use penstock_domain::{Cursor, Mark};
use sqlx::{AssertSqlSafe, any::AnyRow};

use crate::{
    Records, RecordsError,
    columns::{flag, natural, text},
    connection::DatabaseConnection,
    dialect::Dialect,
    statements::{MAX_LISTED, bind_list, marks},
};

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
    pub(crate) seconds: u32,
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
        let take =
            sqlx::query(AssertSqlSafe(take)).bind(owner).bind(millis(seconds)).bind(stream).bind(owner);
        let is_taken = transaction.change(take).await? == 1;
        let lease = |fence, cursor, epoch| Lease { stream: stream.into(), fence, cursor, epoch, seconds };
        let query =
            sqlx::query("SELECT position, mark, fence, epoch FROM settlement_cursors WHERE stream = ?")
                .bind(stream);
        let read =
            |row: &AnyRow| Ok(lease(natural(row, "fence")?, stored_cursor(row)?, natural(row, "epoch")?));
        let lease = match transaction.one(query, read).await? {
            Some(known) => is_taken.then_some(known),
            None => begin_stream(&mut transaction, self.dialect, stream, owner, seconds)
                .await?
                .then(|| lease(FIRST_FENCE, Cursor::default(), 0)),
        };
        match lease {
            Some(_) => transaction.commit().await?,
            None => transaction.rollback().await?,
        }
        Ok(lease)
    }

    /// Restarts the time of a lease. False: its fence was raised.
    pub async fn renew(&self, lease: &Lease) -> Result<bool, RecordsError> {
        let now = self.dialect.now_millis();
        let renew =
            format!("UPDATE settlement_cursors SET lease_until = {now} + ? WHERE stream = ? AND fence = ?");
        let renew = sqlx::query(AssertSqlSafe(renew))
            .bind(millis(lease.seconds))
            .bind(&*lease.stream)
            .bind(lease.fence as i64);
        Ok(self.writer().await?.change(renew).await? == 1)
    }

    /// Gives back all leases of `owner`, so that nobody has to wait until they run out.
    pub async fn release(&self, owner: &str) -> Result<(), RecordsError> {
        let release =
            sqlx::query("UPDATE settlement_cursors SET owner = '', lease_until = 0 WHERE owner = ?");
        self.writer().await?.change(release.bind(owner)).await?;
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
            let query = AssertSqlSafe(format!(
                "SELECT stream, position, mark, owner, CASE WHEN lease_until > {now} THEN 1 ELSE 0 END AS leased \
                 FROM settlement_cursors WHERE stream IN ({})",
                marks(views.len())
            ));
            let query =
                bind_list(sqlx::query(query), views, |query, view| query.bind(view.stream.to_string()));
            for row in self.reader().await?.rows(query).await? {
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
    connection: &mut DatabaseConnection,
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
    let insert = sqlx::query(AssertSqlSafe(insert))
        .bind(stream)
        .bind(Mark::default().to_string())
        .bind(owner)
        .bind(millis(seconds))
        .bind(FIRST_FENCE as i64);
    connection.insert_new(insert).await
}

pub(crate) async fn read_cursor(
    connection: &mut DatabaseConnection,
    stream: &str,
) -> Result<Cursor, RecordsError> {
    let query = sqlx::query("SELECT position, mark FROM settlement_cursors WHERE stream = ?").bind(stream);
    Ok(connection.one(query, stored_cursor).await?.unwrap_or_default())
}

fn stored_cursor(row: &AnyRow) -> Result<Cursor, RecordsError> {
    let mark = text(row, "mark")?;
    let mark = mark.parse().map_err(|_| RecordsError::damaged(format!("mark is {mark:?}")))?;
    Ok(Cursor { position: natural(row, "position")?, mark })
}

pub(crate) fn millis(seconds: u32) -> i64 {
    i64::from(seconds) * 1000
}
