//! Takes back an interrupted step of the schema, so that it can be done again. SQLite does a step completely
//! or not at all; MySQL and MariaDB keep what a step had created when its node was killed. Nothing has used
//! those parts yet, because a database with an unfinished step is not opened.

use sqlx::{AnyConnection, AssertSqlSafe, Executor, migrate::Migrator};

use crate::{RecordsError, columns::integer};

/// The steps of the schema. A step that changes existing things can't be taken back; it would have to be
/// safe to run twice.
pub(crate) fn steps() -> Migrator {
    sqlx::migrate!("./migrations")
}

/// What a step adds.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Added {
    Table(String),
    Column { table: String, column: String },
}

/// Everything that a step adds, in the order of its lines.
fn added(sql: &str) -> Vec<Added> {
    let added = |line: &str| match *line.split([' ', '(']).collect::<Vec<_>>() {
        ["CREATE", "TABLE", table, ..] => Some(Added::Table(table.to_owned())),
        ["ALTER", "TABLE", table, "ADD", "COLUMN", column, ..] => {
            Some(Added::Column { table: table.to_owned(), column: column.to_owned() })
        }
        _ => None,
    };
    sql.lines().filter_map(added).collect()
}

/// All tables of the schema.
pub(crate) fn tables() -> Vec<String> {
    let steps = steps();
    let added = steps.iter().flat_map(|step| added(step.sql.as_str()));
    added.filter_map(|added| if let Added::Table(table) = added { Some(table) } else { None }).collect()
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
    let steps = steps();
    let Some(step) = steps.iter().find(|step| step.version == version) else { return Ok(()) };
    // What was added last goes first, because tables refer to earlier ones. Dropping a column drops its
    // index.
    for added in added(step.sql.as_str()).into_iter().rev() {
        match added {
            Added::Table(table) => {
                connection.execute(AssertSqlSafe(format!("DROP TABLE IF EXISTS {table}"))).await?;
            }
            Added::Column { table, column } => {
                if exists(connection, "columns", &table, Some(&column)).await? {
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
    use super::*;

    #[test]
    fn every_step_of_the_schema_can_be_taken_back() {
        for step in steps().iter() {
            let sql = step.sql.as_str();
            assert!(!added(sql).is_empty(), "{}", step.description);
            let code: Vec<&str> = sql.lines().filter(|line| !line.starts_with("--")).collect();
            for statement in code.join("\n").split(';').map(str::trim).filter(|text| !text.is_empty()) {
                let begins = ["CREATE ", "INSERT INTO "].iter().any(|begin| statement.starts_with(begin));
                assert!(begins || statement.contains(" ADD COLUMN "), "{statement}");
            }
        }
    }

    #[test]
    fn a_step_is_read_line_by_line() {
        let sql = "CREATE TABLE room (\n    id BIGINT\n);\nCREATE INDEX rooms ON room (id);\n\
                   ALTER TABLE sales ADD COLUMN room BIGINT NOT NULL DEFAULT 0;";
        let (table, column) = ("sales".to_owned(), "room".to_owned());
        assert_eq!(added(sql), [Added::Table("room".to_owned()), Added::Column { table, column }]);
    }

    #[test]
    fn every_table_of_the_schema_is_known() {
        let tables = tables();
        assert!(
            ["accounts", "orders", "waitlist", "codes_by_origin"]
                .iter()
                .all(|table| tables.contains(&(*table).to_owned()))
        );
        assert_eq!(tables.len(), 17, "{tables:?}");
    }
}
