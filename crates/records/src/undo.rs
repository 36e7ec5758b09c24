//! Takes back an interrupted step of the schema, so that it can be done again. SQLite does a step completely
//! or not at all; MySQL and MariaDB keep what a step had created when its node was killed. Nothing has used
//! those parts yet, because a database with an unfinished step is not opened.

use sqlx::{AnyConnection, AssertSqlSafe, Executor};

use crate::{RecordsError, columns::integer};

/// What a step adds.
#[derive(Clone, Copy, Debug)]
enum Added {
    /// Tables that refer to others come first.
    Tables(&'static [&'static str]),
    Columns {
        table: &'static str,
        columns: &'static [&'static str],
    },
}

/// Each step of the schema by its number. A step that changes existing things can't be taken back; it would
/// have to be safe to run twice.
const STEPS: [(i64, Added); 12] = [
    (
        1,
        Added::Tables(&[
            "outbox",
            "dead_letters",
            "settlement_cursors",
            "stock_log",
            "orders",
            "sales",
            "items",
            "one_time_codes",
            "revoked_sessions",
            "accounts",
        ]),
    ),
    (2, Added::Tables(&["counters", "sale_stock"])),
    (3, Added::Columns { table: "settlement_cursors", columns: &["mark", "owner", "lease_until", "fence"] }),
    (4, Added::Tables(&["secrets"])),
    (5, Added::Columns { table: "settlement_cursors", columns: &["epoch"] }),
    // Dropping the column drops its index.
    (6, Added::Columns { table: "revoked_sessions", columns: &["revoked_at"] }),
    (7, Added::Tables(&["waiting_rooms"])),
    (8, Added::Tables(&["waitlist"])),
    (9, Added::Tables(&["pictures"])),
    (10, Added::Columns { table: "sales", columns: &["terms_fixed_at"] }),
    (11, Added::Columns { table: "dead_letters", columns: &["cause"] }),
    (12, Added::Tables(&["codes_by_origin"])),
];

/// All tables of the schema.
pub(crate) fn tables() -> impl Iterator<Item = &'static str> {
    STEPS.iter().flat_map(|(_, added)| match added {
        Added::Tables(tables) => tables.iter().copied(),
        Added::Columns { .. } => [].iter().copied(),
    })
}

/// Takes an unfinished step back, if there is one. There is at most one: the next step begins when the last
/// is done.
pub(crate) async fn take_back_unfinished(connection: &mut AnyConnection) -> Result<(), RecordsError> {
    if !exists(connection, "tables", "_sqlx_migrations", None).await? {
        return Ok(());
    }
    let unfinished =
        sqlx::query("SELECT version FROM _sqlx_migrations WHERE success = 0 ORDER BY version LIMIT 1")
            .fetch_optional(&mut *connection)
            .await?;
    let Some(row) = unfinished else { return Ok(()) };
    let version = integer(&row, "version")?;
    // An unknown step belongs to a newer Penstock; the migrator says so.
    let Some((_, added)) = STEPS.iter().find(|(step, _)| *step == version) else { return Ok(()) };
    match added {
        Added::Tables(tables) => {
            for table in *tables {
                connection.execute(AssertSqlSafe(format!("DROP TABLE IF EXISTS {table}"))).await?;
            }
        }
        Added::Columns { table, columns } => {
            for column in *columns {
                if exists(connection, "columns", table, Some(column)).await? {
                    let drop = format!("ALTER TABLE {table} DROP COLUMN {column}");
                    connection.execute(AssertSqlSafe(drop)).await?;
                }
            }
        }
    }
    // This comes last: if it is interrupted, the whole step is taken back again.
    sqlx::query("DELETE FROM _sqlx_migrations WHERE version = ? AND success = 0")
        .bind(version)
        .execute(&mut *connection)
        .await?;
    Ok(())
}

/// Whether the schema has a table, or a column of it. `kind` is a table of `information_schema`.
async fn exists(
    connection: &mut AnyConnection,
    kind: &'static str,
    table: &str,
    column: Option<&str>,
) -> Result<bool, RecordsError> {
    let of_column = if column.is_some() { "AND column_name = ?" } else { "" };
    let query = AssertSqlSafe(format!(
        "SELECT COUNT(*) AS found FROM information_schema.{kind} \
         WHERE table_schema = DATABASE() AND table_name = ? {of_column}"
    ));
    let mut query = sqlx::query(query).bind(table);
    if let Some(column) = column {
        query = query.bind(column);
    }
    let row = query.fetch_one(&mut *connection).await?;
    Ok(integer(&row, "found")? > 0)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_step_of_the_schema_can_be_taken_back() {
        let steps = sqlx::migrate!("./migrations");
        let versions: Vec<i64> = steps.iter().map(|step| step.version).collect();
        assert_eq!(STEPS.map(|(version, _)| version).to_vec(), versions);
    }

    #[test]
    fn no_table_of_the_schema_is_forgotten() {
        let steps = sqlx::migrate!("./migrations");
        let made: BTreeSet<&str> = steps
            .iter()
            .flat_map(|step| step.sql.as_str().lines())
            .filter_map(|line| line.strip_prefix("CREATE TABLE ")?.split([' ', '(']).next())
            .collect();
        assert!(made.contains("waitlist") && made.contains("orders"), "{made:?}");
        assert_eq!(tables().collect::<BTreeSet<_>>(), made);
    }
}
