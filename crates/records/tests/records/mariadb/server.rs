//! What only a server can do: be too old, be misconfigured, be opened by many at once, and be lost.

use std::time::Duration;

use futures_util::future::join_all;
use penstock_domain::{BuyerId, Mark, OrderId, OrderState};
use penstock_local::{Cut, CutProxy, MariaDb};
use penstock_records::{Cause, OrderFilter, Records, RecordsError, Refusal, SettleError};
use sqlx::Executor;
use tokio::time::timeout;

use super::{
    Database,
    shop::{Shop, item, moment, open},
};

#[tokio::test]
async fn many_nodes_may_open_an_empty_database_at_once() {
    let database = Database::new();
    let url = database.url();
    let opened = join_all((0..8).map(|_| Records::open(&url, 2))).await;
    let nodes: Vec<Records> = opened.into_iter().map(Result::unwrap).collect();
    nodes[0].create_item(&item(1, moment(0))).await.unwrap();
    assert!(nodes[7].item(item(1, moment(0)).id).await.unwrap().is_some());
}

/// Runs the steps of the schema before `version`, and of that one only the first `statements`, as if the node
/// had been killed.
async fn migrate_half_way(database: &Database, version: i64, statements: usize) {
    let mut connection = database.connect().await;
    let mut steps = sqlx::migrate!("./migrations");
    let all = steps.migrations.clone();
    steps.migrations = all.iter().filter(|step| step.version < version).cloned().collect();
    steps.set_locking(false).run(&mut connection).await.unwrap();
    let step = all.iter().find(|step| step.version == version).unwrap();
    let without_comments: String =
        step.sql.as_str().lines().filter(|line| !line.starts_with("--")).collect::<Vec<_>>().join("\n");
    for statement in without_comments.split(';').take(statements) {
        if !statement.trim().is_empty() {
            connection.execute(sqlx::AssertSqlSafe(statement.to_owned())).await.unwrap();
        }
    }
    sqlx::query("INSERT INTO _sqlx_migrations (version, description, success, checksum, execution_time) VALUES (?, 'half', 0, ?, -1)")
        .bind(version)
        .bind(&*step.checksum)
        .execute(&mut connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn an_interrupted_change_of_the_schema_is_done_again() {
    let versions: Vec<i64> = sqlx::migrate!("./migrations").iter().map(|step| step.version).collect();
    for version in versions {
        for statements in [0, 1, 2, 100] {
            let database = Database::new();
            migrate_half_way(&database, version, statements).await;
            let records = Records::open(&database.url(), 2).await;
            let records = records.unwrap_or_else(|error| panic!("{version} after {statements}: {error}"));
            records.create_item(&item(1, moment(0))).await.unwrap();
            assert!(records.lease("ledger", "ann", 60).await.unwrap().is_some());
            records.close().await;
        }
    }
}

#[tokio::test]
async fn an_empty_database_is_given_the_collation_it_needs() {
    let database = Database::new();
    let name = database.name();
    database.server().sql(&format!("ALTER DATABASE {name} COLLATE utf8mb4_general_ci")).unwrap();
    open(&database).await;
    let collation = database.server().sql(&format!(
        "SELECT default_collation_name FROM information_schema.schemata WHERE schema_name = '{name}'"
    ));
    assert_eq!(collation.unwrap(), "utf8mb4_nopad_bin");
}

#[tokio::test]
async fn a_database_that_treats_different_names_as_equal_is_refused() {
    let database = Database::new();
    let name = database.name();
    let foreign =
        format!("ALTER DATABASE {name} COLLATE utf8mb4_general_ci; CREATE TABLE {name}.theirs (id BIGINT)");
    database.server().sql(&foreign).unwrap();
    let refused = Records::open(&database.url(), 2).await;
    let Err(RecordsError::Unsuitable(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("utf8mb4_general_ci") && reason.contains("ALTER DATABASE"), "{reason}");
}

#[tokio::test]
async fn a_missing_database_is_not_waited_for() {
    let database = Database::new();
    let refused = Records::open(&format!("{}_not_there", database.url()), 2).await;
    assert!(matches!(refused, Err(RecordsError::Unsuitable(_))), "{refused:?}");
    let gone = Records::open("mysql://shop:secret@127.0.0.1:9/penstock", 2).await;
    assert!(matches!(gone, Err(RecordsError::Unavailable(_))), "{gone:?}");
}

#[tokio::test]
async fn a_column_that_treats_different_names_as_equal_is_refused() {
    for table in ["orders", "waitlist"] {
        let database = Database::new();
        open(&database).await.close().await;
        let change = format!(
            "ALTER TABLE {table} MODIFY buyer VARCHAR(160) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin NOT NULL"
        );
        database.connect().await.execute(sqlx::AssertSqlSafe(change)).await.unwrap();
        let refused = Records::open(&database.url(), 2).await;
        let Err(RecordsError::Unsuitable(reason)) = refused else { panic!("{refused:?}") };
        assert!(reason.contains(&format!("{table}.buyer")), "{reason}");
    }
}

#[tokio::test]
async fn a_page_of_orders_reads_little_more_than_the_page() {
    let shop = Shop::new(10, 1).await;
    // Several have the same time, so that the id has to decide, also in the middle of a page.
    shop.tamper(
        "INSERT INTO orders SELECT (SELECT MIN(id) FROM sales), seq, seq, 1, 1990, 'EUR', 'paid', seq DIV 7, 0, NULL, \
         0, seq, seq FROM seq_1_to_20000",
    )
    .await;
    let analyze = format!("ANALYZE TABLE {}.orders; SET GLOBAL userstat = 1", shop.database.name());
    shop.database.server().sql(&analyze).unwrap();
    let middle = OrderId { sale: shop.sale, number: 10_000 };
    let paid = OrderFilter { state: Some(OrderState::Paid), ..OrderFilter::default() };
    let of_sale = OrderFilter { sale: Some(shop.sale), ..OrderFilter::default() };
    for filter in [OrderFilter::default(), paid, of_sale] {
        for (after, newest) in [(None, 20_000), (Some(middle), 9_999)] {
            let read = "SELECT CAST(COALESCE(SUM(rows_read), 0) AS INTEGER) FROM information_schema.table_statistics \
                        WHERE table_schema = DATABASE() AND table_name = 'orders'";
            let before = shop.count(read).await;
            let page = shop.records.all_orders(&filter, after, 50).await.unwrap();
            let numbers: Vec<u32> = page.iter().map(|row| row.order.id.number).collect();
            assert_eq!(numbers, (newest - 49..=newest).rev().collect::<Vec<_>>());
            let rows_read = shop.count(read).await - before;
            assert!((50..100).contains(&rows_read), "{filter:?} after {after:?} read {rows_read} rows");
        }
    }
}

#[tokio::test]
async fn buyers_whose_names_differ_by_a_space_are_two_buyers() {
    let mut shop = Shop::new(10, 1).await;
    for name in ["ada", "Ada", "ada ", "adá"] {
        shop.claim(name, 1);
    }
    shop.settle().await;
    assert!(shop.audit().await.ok);
    let spaced = BuyerId::of_subject("ada ").unwrap();
    assert_eq!(shop.records.orders_of(&spaced, None, 10).await.unwrap().len(), 1);
}

#[tokio::test]
async fn a_text_that_does_not_fit_is_refused_and_not_cut() {
    let database = Database::new();
    let records = open(&database).await;
    let mut long = item(1, moment(0));
    long.title = "x".repeat(256);
    let refused = records.create_item(&long).await;
    assert!(matches!(refused, Err(RecordsError::Refused(_))), "{refused:?}");
}

#[tokio::test]
async fn a_missing_server_is_unavailable() {
    let refused = Records::open("mysql://penstock@127.0.0.1:1/penstock", 2).await;
    let Err(RecordsError::Unavailable(reason)) = refused else { panic!("{refused:?}") };
    assert!(reason.contains("refused"), "{reason}");
}

#[tokio::test]
async fn an_unknown_database_or_kind_of_database_is_refused_in_words() {
    let database = Database::new();
    let url = database.url().replace(database.name(), "nowhere");
    let refused = Records::open(&url, 2).await.unwrap_err().to_string();
    assert!(refused.contains("nowhere"), "{refused}");
    let refused = Records::open("postgres://127.0.0.1/penstock", 2).await;
    assert!(matches!(refused, Err(RecordsError::Unsuitable(_))), "{refused:?}");
}

#[tokio::test]
async fn a_server_that_dies_is_unavailable_until_it_is_back() {
    let folder = tempfile::tempdir().unwrap();
    let mut server = MariaDb::start(folder.path()).unwrap();
    let records = Records::open(&server.url(), 2).await.unwrap();
    records.create_item(&item(1, moment(0))).await.unwrap();
    server.kill().unwrap();
    let lost = records.item(item(1, moment(0)).id).await;
    assert!(matches!(lost, Err(RecordsError::Unavailable(_))), "{lost:?}");
    server.start_again().unwrap();
    assert!(records.item(item(1, moment(0)).id).await.unwrap().is_some(), "what was committed is there");
    records.create_item(&item(2, moment(0))).await.unwrap();
}

/// Longer than any call may take, shorter than a network takes to give up.
const FAR_TOO_LONG: Duration = Duration::from_secs(60);

#[tokio::test]
async fn a_silent_server_is_unavailable_until_it_is_back() {
    let database = Database::new();
    let server = database.server().address();
    // It has its own runtime, which can't be started inside another one.
    let started = tokio::task::spawn_blocking(move || CutProxy::start(server)).await;
    let mut proxy = started.unwrap().unwrap();
    let url = database.url().replace(&server.to_string(), &proxy.address().to_string());
    let records = Records::open(&url, 2).await.unwrap();
    let first = item(1, moment(0));
    records.create_item(&first).await.unwrap();
    proxy.cut(Cut::Silence).unwrap();
    let reads = timeout(FAR_TOO_LONG, records.item(first.id)).await.unwrap();
    assert!(matches!(reads, Err(RecordsError::Unavailable(_))), "{reads:?}");
    let takes = timeout(FAR_TOO_LONG, records.lease("ledger", "ann", 60)).await.unwrap();
    assert!(matches!(takes, Err(RecordsError::Unavailable(_))), "{takes:?}");
    proxy.mend().unwrap();
    assert!(records.item(first.id).await.unwrap().is_some());
    assert!(records.lease("ledger", "ann", 60).await.unwrap().is_some());
}

#[tokio::test]
async fn an_unanswered_statement_is_given_up_with_its_connection() {
    let shop = Shop::new(10, 2).await;
    let sleep = "CREATE TRIGGER sleepy BEFORE INSERT ON items FOR EACH ROW SET NEW.title = CONCAT(NEW.title, SLEEP(30))";
    shop.run(sleep).await;
    let slow = timeout(FAR_TOO_LONG, shop.records.create_item(&item(9, moment(0)))).await.unwrap();
    let Err(RecordsError::Unavailable(reason)) = slow else { panic!("{slow:?}") };
    assert!(reason.contains("does not answer"), "{reason}");
    // The other connections still work.
    assert!(shop.records.lease("another", "ann", 60).await.unwrap().is_some());
}

#[tokio::test]
async fn a_connection_that_the_server_has_ended_is_not_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let server = MariaDb::start(folder.path()).unwrap();
    let records = Records::open(&server.url(), 4).await.unwrap();
    for number in 1..=5 {
        records.create_item(&item(number, moment(0))).await.unwrap();
        assert!(records.lease("ledger", "ann", 60).await.unwrap().is_some());
        assert!(records.item(item(number, moment(0)).id).await.unwrap().is_some());
        let ended = server.sql("SELECT CONCAT('KILL ', id, ';') FROM information_schema.processlist WHERE id <> CONNECTION_ID() AND user = 'penstock'").unwrap();
        assert!(ended.lines().count() >= 2, "{ended}");
        server.sql(&ended).unwrap();
    }
}

#[tokio::test]
async fn a_deadlock_is_unavailable_and_not_poison() {
    let mut shop = Shop::new(10, 2).await;
    shop.claim("ada", 1);
    let deadlock = "CREATE TRIGGER deadlock BEFORE INSERT ON orders FOR EACH ROW \
                    SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213, MESSAGE_TEXT = 'Deadlock found'";
    shop.run(deadlock).await;
    let failed = shop.settle_in(1000).await;
    assert!(matches!(failed, Err(SettleError::Records(RecordsError::Unavailable(_)))), "{failed:?}");
    shop.run("DROP TRIGGER deadlock").await;
    shop.settle().await;
    assert!(shop.audit().await.ok);
}

#[tokio::test]
async fn streams_that_are_settled_at_once_give_their_dead_letters_different_numbers() {
    let shop = Shop::new(10, 2).await;
    let streams: Vec<String> = (0..8).map(|number| format!("stream-{number}")).collect();
    let put_aside = streams.iter().map(async |stream| {
        let lease = shop.records.lease(stream, "tests", 60).await.unwrap().unwrap();
        let why = Refusal::new(Cause::Database, "why not");
        shop.records.dead_letter(&lease, &shop.decisions[0], Mark::default(), &why, 1, shop.now).await
    });
    for result in join_all(put_aside).await {
        result.unwrap();
    }
    let letters = shop.records.dead_letters(None, 10).await.unwrap();
    assert_eq!(letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), (1..=8).collect::<Vec<_>>());
}
