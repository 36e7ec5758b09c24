//! What only a file can do.

use penstock_records::{Records, RecordsError, sqlite_url};

use super::shop::{item, moment};

#[tokio::test]
async fn a_folder_with_strange_characters_is_found_again() {
    let folder = tempfile::tempdir().unwrap();
    let strange = folder.path().join("50% off? #1 灯");
    std::fs::create_dir(&strange).unwrap();
    let url = sqlite_url(&strange.join("records.db"));
    let records = Records::open(&url, 2).await.unwrap();
    records.create_item(&item(1, moment(0))).await.unwrap();
    assert!(strange.join("records.db").exists());
}

#[tokio::test]
async fn a_missing_folder_is_said_to_be_unavailable() {
    let refused = Records::open("sqlite:///does/not/exist/records.db", 2).await;
    assert!(matches!(refused, Err(RecordsError::Unavailable(_))), "{refused:?}");
}
