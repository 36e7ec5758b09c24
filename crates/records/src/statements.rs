//! Statements about many rows. A list has one of a few fixed lengths, and rows are inserted in a few fixed
//! numbers at a time, so that every statement is prepared once and reused. It knows no table.

use sqlx::AssertSqlSafe;

use crate::{
    RecordsError,
    connection::{DatabaseConnection, Statement},
};

/// The possible lengths of a list in `IN (…)`, far below the bind limits of SQLite (32,766) and MySQL
/// (65,535). Together with the other statements of settlement, they fit into a connection's cache of a
/// hundred.
const LIST_LENGTHS: [usize; 15] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 384, 512, 640, 768, 896, 1024];
pub(crate) const MAX_LISTED: usize = LIST_LENGTHS[LIST_LENGTHS.len() - 1];

/// The numbers of rows that one statement writes. Each is half of the one before, so five hundred rows take
/// six statements.
pub(crate) const ROWS_PER_STATEMENT: [usize; 10] = [512, 256, 128, 64, 32, 16, 8, 4, 2, 1];
/// The most columns of rows that are inserted together.
const MAX_COLUMNS: usize = 13;
/// SQLite's limit, which is lower than MySQL's.
const MAX_BINDS: usize = 32_766;
const _: () = assert!(ROWS_PER_STATEMENT[0] * MAX_COLUMNS <= MAX_BINDS);
const _: () = assert!(ROWS_PER_STATEMENT[ROWS_PER_STATEMENT.len() - 1] == 1);

fn list_length(values: usize) -> usize {
    LIST_LENGTHS.into_iter().find(|length| *length >= values).unwrap_or(values)
}

pub(crate) fn marks(values: usize) -> String {
    vec!["?"; list_length(values)].join(",")
}

/// Binds a list to the placeholders of `marks`; the last value fills the rest.
pub(crate) fn bind_list<'q, T>(
    statement: Statement<'q>,
    values: &[T],
    bind: impl Fn(Statement<'q>, &T) -> Statement<'q>,
) -> Statement<'q> {
    let rest = list_length(values.len()) - values.len();
    let filling = std::iter::repeat_n(values.last(), rest).flatten();
    values.iter().chain(filling).fold(statement, bind)
}

/// Inserts rows by a statement that begins with `into`. Each row binds as many values as there are
/// `columns`.
pub(crate) async fn insert<'r, R>(
    connection: &mut DatabaseConnection,
    into: &'static str,
    columns: usize,
    mut rows: &'r [R],
    bind: impl for<'q> Fn(Statement<'q>, &'r R) -> Statement<'q>,
) -> Result<(), RecordsError> {
    debug_assert!(columns <= MAX_COLUMNS, "{into}");
    let row_marks = format!("({})", vec!["?"; columns].join(","));
    for rows_per_statement in ROWS_PER_STATEMENT {
        if rows.len() < rows_per_statement {
            continue;
        }
        let statement = format!("{into}{}", vec![row_marks.as_str(); rows_per_statement].join(","));
        while let Some((now, later)) = rows.split_at_checked(rows_per_statement) {
            connection.change(now.iter().fold(sqlx::query(AssertSqlSafe(statement.as_str())), &bind)).await?;
            rows = later;
        }
    }
    Ok(())
}
