//! What only a file can do.

use penstock_records::{Records, RecordsError, sqlite_url};

use super::shop::{item, moment};

#[tokio::test]
async fn a_folder_with_strange_characters_can_be_reopened() {
    let folder = tempfile::tempdir().unwrap();
    let strange = folder.path().join("50% off? #1 灯");
    std::fs::create_dir(&strange).unwrap();
    let url = sqlite_url(&strange.join("records.db"));
    let records = Records::open(&url, 2).await.unwrap();
    records.create_item(&item(1, moment(0))).await.unwrap();
    assert!(strange.join("records.db").exists());
}

#[tokio::test]
async fn a_missing_folder_is_unavailable() {
    let refused = Records::open("sqlite:///does/not/exist/records.db", 2).await;
    assert!(matches!(refused, Err(RecordsError::Unavailable(_))), "{refused:?}");
}

#[tokio::test]
async fn records_that_are_opened_later_work_once_the_database_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let place = folder.path().join("not yet");
    let url = sqlite_url(&place.join("records.db"));
    let records = Records::open_later(&url, 2).unwrap();
    let early = records.create_item(&item(1, moment(0))).await;
    assert!(matches!(early, Err(RecordsError::Unavailable(_))), "{early:?}");
    std::fs::create_dir(&place).unwrap();
    Records::open(&url, 2).await.unwrap().close().await;
    records.create_item(&item(1, moment(0))).await.unwrap();
    assert_eq!(records.item(item(1, moment(0)).id).await.unwrap(), Some(item(1, moment(0))));
}
