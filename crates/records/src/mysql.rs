//! What a MySQL or MariaDB server has to support, how each connection to it is set up, and the lock under
//! which its schema changes.
//!
//! Texts are compared byte by byte, including trailing spaces: two buyers whose names look alike are two
//! buyers. A binary collation without padding does that; MySQL and MariaDB each have one, under different
//! names. (`VARBINARY` would do it too, but SQLite would treat such a column as numbers.) So the database
//! sets the collation, and the schema names none.

use sqlx::{AnyConnection, AssertSqlSafe, Executor, Row};

use crate::{
    LOCK_PATIENCE, RecordsError, Role,
    columns::{integer, text},
    undo,
};

/// How long a client may be silent in a transaction before the server gives it up. `begin_write` of the
/// dialect has the same number.
const FROZEN_AFTER_SECONDS: u32 = 3;

/// How long a node waits for another one that changes the schema.
const SCHEMA_PATIENCE_SECONDS: u32 = 120;

type ServerVersion = (u32, u32, u32);

/// A kind of server.
struct ServerKind {
    name: &'static str,
    /// Compares texts byte by byte, including trailing spaces.
    collation: &'static str,
    minimum: ServerVersion,
}

/// From the first version with a binary collation that does not pad.
const MYSQL: ServerKind = ServerKind { name: "MySQL", collation: "utf8mb4_0900_bin", minimum: (8, 0, 17) };
/// From the first version that is tested.
const MARIADB: ServerKind =
    ServerKind { name: "MariaDB", collation: "utf8mb4_nopad_bin", minimum: (10, 6, 0) };

/// Makes a connection behave the same on every server: strict about values, InnoDB, and with a limit on
/// waiting for locks. A writer sees what others committed before it took a row's lock; a reader's transaction
/// sees a consistent snapshot. A settler that freezes in the middle of a transaction would keep its stream
/// locked, so the server gives it up. Between two statements, the `wait_timeout` with which a transaction
/// begins does that; MariaDB's own settings, which would override it, are switched off (MySQL takes them for
/// a comment). In the middle of a statement, the network timeouts do it.
pub(crate) async fn prepare_connection(
    connection: &mut AnyConnection,
    role: Role,
) -> Result<(), sqlx::Error> {
    let patience_seconds = LOCK_PATIENCE.as_secs();
    let settings = format!(
        "SET SESSION sql_mode = 'STRICT_ALL_TABLES,ONLY_FULL_GROUP_BY,NO_ENGINE_SUBSTITUTION', \
         default_storage_engine = InnoDB, foreign_key_checks = 1, unique_checks = 1, autocommit = 1, \
         innodb_lock_wait_timeout = {patience_seconds}, lock_wait_timeout = {patience_seconds}"
    );
    connection.execute(AssertSqlSafe(settings)).await?;
    if role == Role::Writer {
        let frozen = format!(
            "SET SESSION /*M! idle_transaction_timeout = 0, idle_readonly_transaction_timeout = 0, \
             idle_write_transaction_timeout = 0, */ \
             net_read_timeout = {FROZEN_AFTER_SECONDS}, net_write_timeout = {FROZEN_AFTER_SECONDS}"
        );
        connection.execute(AssertSqlSafe(frozen)).await?;
    }
    let isolation = match role {
        Role::Reader => "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        Role::Writer => "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    };
    connection.execute(isolation).await?;
    Ok(())
}

/// Brings the schema up to date, one node at a time.
pub(crate) async fn migrate(connection: &mut AnyConnection) -> Result<(), RecordsError> {
    let server = check_server(connection).await?;
    // On MariaDB the migrator's own lock does not wait at all, and does not say so.
    let row = sqlx::query("SELECT GET_LOCK(CONCAT('penstock:', MD5(DATABASE())), ?) AS locked")
        .bind(i64::from(SCHEMA_PATIENCE_SECONDS))
        .fetch_one(&mut *connection)
        .await?;
    if row.try_get::<Option<i64>, _>("locked")? != Some(1) {
        return Err(RecordsError::Unavailable(
            "another node has been changing the schema for too long".into(),
        ));
    }
    check_collation(connection, &server).await?;
    // Changing a table waits for the transactions that use it; giving up would leave the schema half changed.
    connection
        .execute(AssertSqlSafe(format!("SET SESSION lock_wait_timeout = {SCHEMA_PATIENCE_SECONDS}")))
        .await?;
    undo::take_back_unfinished(connection).await?;
    let mut migrator = undo::steps();
    migrator.set_locking(false);
    migrator.run(&mut *connection).await?;
    check_columns(connection, &server).await?;
    sqlx::query("SELECT RELEASE_LOCK(CONCAT('penstock:', MD5(DATABASE()))) AS released")
        .fetch_one(&mut *connection)
        .await?;
    Ok(())
}

async fn check_server(connection: &mut AnyConnection) -> Result<ServerKind, RecordsError> {
    let row = sqlx::query("SELECT CAST(VERSION() AS CHAR) AS version, CAST(DATABASE() AS CHAR) AS chosen")
        .fetch_one(&mut *connection)
        .await?;
    let stated = text(&row, "version")?;
    if crate::columns::optional_text(&row, "chosen")?.is_none() {
        return Err(RecordsError::Unsuitable("its URL names no database: mysql://user@host/database".into()));
    }
    let server = if stated.contains("MariaDB") { MARIADB } else { MYSQL };
    if read_version(&stated).is_some_and(|version| version >= server.minimum) {
        return Ok(server);
    }
    let ServerKind { name, minimum: (major, minor, patch), .. } = server;
    Err(RecordsError::Unsuitable(format!(
        "it is {name} {stated}, but it has to be {major}.{minor}.{patch} or newer"
    )))
}

/// Reads `8.0.36`, `10.11.6-MariaDB-1` or `8.0.mysql_aurora.3.04`. A patch that is not a number counts as a
/// late one.
fn read_version(stated: &str) -> Option<ServerVersion> {
    let mut parts = stated.split(['.', '-']);
    let mut next = || parts.next().and_then(|part| part.parse::<u32>().ok());
    Some((next()?, next()?, next().unwrap_or(u32::MAX)))
}

/// Gives a database without tables the required collation; a database with tables is left alone.
async fn check_collation(connection: &mut AnyConnection, server: &ServerKind) -> Result<(), RecordsError> {
    let row = sqlx::query(
        "SELECT CAST(DATABASE() AS CHAR) AS name, CAST(@@collation_database AS CHAR) AS collation, \
         (SELECT COUNT(*) FROM information_schema.tables WHERE table_schema = DATABASE()) AS tables_there",
    )
    .fetch_one(&mut *connection)
    .await?;
    let (name, stored, needed) = (text(&row, "name")?, text(&row, "collation")?, server.collation);
    if stored == needed {
        return Ok(());
    }
    let name = name.replace('`', "``");
    let statement = format!("ALTER DATABASE `{name}` CHARACTER SET utf8mb4 COLLATE {needed}");
    if integer(&row, "tables_there")? > 0 {
        return Err(RecordsError::Unsuitable(format!(
            "its collation is {stored}, which treats different texts as equal; {statement}, before it has tables"
        )));
    }
    connection.execute(AssertSqlSafe(statement)).await?;
    Ok(())
}

/// A dump from elsewhere may have brought other collations along.
async fn check_columns(connection: &mut AnyConnection, server: &ServerKind) -> Result<(), RecordsError> {
    let ours: Vec<String> = undo::tables().iter().map(|table| format!("'{table}'")).collect();
    let query = AssertSqlSafe(format!(
        "SELECT CAST(table_name AS CHAR) AS in_table, CAST(column_name AS CHAR) AS in_column, \
         CAST(collation_name AS CHAR) AS collation FROM information_schema.columns \
         WHERE table_schema = DATABASE() AND collation_name IS NOT NULL AND collation_name <> ? \
         AND table_name IN ({}) LIMIT 1",
        ours.join(", ")
    ));
    let row = sqlx::query(query).bind(server.collation).fetch_optional(&mut *connection).await?;
    let Some(row) = row else { return Ok(()) };
    let (table, column, collation) =
        (text(&row, "in_table")?, text(&row, "in_column")?, text(&row, "collation")?);
    let needed = server.collation;
    Err(RecordsError::Unsuitable(format!(
        "{table}.{column} has the collation {collation}, but {needed} is needed"
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_begins_with_the_limit_on_its_silence() {
        let begin = crate::dialect::Dialect::MySql.begin_write();
        assert!(begin.starts_with(&format!("SET SESSION wait_timeout = {FROZEN_AFTER_SECONDS};")), "{begin}");
    }

    #[test]
    fn versions_are_read_as_servers_state_them() {
        let version = |major, minor, patch| Some((major, minor, patch));
        assert_eq!(read_version("8.0.36"), version(8, 0, 36));
        assert_eq!(read_version("8.4.0-cluster"), version(8, 4, 0));
        assert_eq!(read_version("10.11.6-MariaDB-0+deb12u1"), version(10, 11, 6));
        assert_eq!(read_version("8.0.mysql_aurora.3.04"), version(8, 0, u32::MAX));
        assert_eq!(read_version("postgres"), None);
    }

    #[test]
    fn servers_that_are_too_old_are_older_than_the_minimum() {
        assert!(read_version("8.0.16").unwrap() < MYSQL.minimum);
        assert!(read_version("5.7.44").unwrap() < MYSQL.minimum);
        assert!(read_version("10.5.27-MariaDB").unwrap() < MARIADB.minimum);
        assert!(read_version("11.4.2-MariaDB").unwrap() > MARIADB.minimum);
    }
}
