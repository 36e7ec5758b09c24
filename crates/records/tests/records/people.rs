//! Accounts, sessions and one-time codes.

use penstock_domain::{AccountId, Timestamp};
use penstock_records::{CodeCheck, CreateAccountError, NewAccount, NewCode, PutCodeError, Records};

use super::{
    Database,
    shop::{moment, open},
};

fn new_account(id: u64, phone: &str) -> NewAccount {
    NewAccount {
        id: AccountId::from_random(id),
        phone: phone.into(),
        name: "Ada".into(),
        password_hash: "$argon2id$…".into(),
        admin: false,
        created_at: moment(0),
    }
}

#[tokio::test]
async fn an_account_reads_back_as_created_after_a_restart() {
    let database = Database::new();
    let records = open(&database).await;
    let created = records.create_account(new_account(1, "+4912345")).await.unwrap();
    records.close().await;
    let records = open(&database).await;
    assert_eq!(records.account(created.id).await.unwrap(), Some(created.clone()));
    assert_eq!(records.account_by_phone("+4912345").await.unwrap(), Some(created));
    assert_eq!(records.account_by_phone("+4912346").await.unwrap(), None);
}

#[tokio::test]
async fn a_phone_number_has_one_account() {
    let database = Database::new();
    let records = open(&database).await;
    records.create_account(new_account(1, "+4912345")).await.unwrap();
    let second = records.create_account(new_account(2, "+4912345")).await;
    assert!(matches!(second, Err(CreateAccountError::PhoneTaken)), "{second:?}");
}

#[tokio::test]
async fn accounts_are_found_under_several_numbers_in_the_order_of_the_numbers() {
    let database = Database::new();
    let records = open(&database).await;
    for (id, phone) in [(1, "+8613800138000"), (2, "13800138000"), (3, "+8613800138001")] {
        records.create_account(new_account(id, phone)).await.unwrap();
    }
    let phones = ["13800138000", "+8613800138000", "8613800138000"].map(str::to_owned);
    let found = records.accounts_by_phone(&phones).await.unwrap();
    let found: Vec<&str> = found.iter().map(|account| account.phone.as_str()).collect();
    assert_eq!(found, ["13800138000", "+8613800138000"]);
    assert!(records.accounts_by_phone(&phones[2..]).await.unwrap().is_empty());
}

#[tokio::test]
async fn a_new_password_ends_the_sessions_before_it() {
    let database = Database::new();
    let records = open(&database).await;
    let account = records.create_account(new_account(1, "+4912345")).await.unwrap();
    assert!(records.accounts_with_revocations(Timestamp::from_millis(0)).await.unwrap().is_empty());
    assert!(records.set_password(account.id, "$argon2id$other", moment(9)).await.unwrap());
    assert_eq!(
        records.accounts_with_revocations(moment(0)).await.unwrap(),
        vec![(account.id, moment(9))],
        "sessions from before the change are void"
    );
    assert!(records.accounts_with_revocations(moment(9)).await.unwrap().is_empty());
    let changed = records.account(account.id).await.unwrap().unwrap();
    assert_eq!(
        (changed.password_hash.as_str(), changed.sessions_valid_after),
        ("$argon2id$other", moment(9))
    );
    assert!(!records.set_password(AccountId::from_random(9), "x", moment(9)).await.unwrap());
}

#[tokio::test]
async fn the_admin_role_can_be_given_and_taken() {
    let database = Database::new();
    let records = open(&database).await;
    let account = records.create_account(new_account(1, "+4912345")).await.unwrap();
    assert!(records.promote("+4912345", true).await.unwrap());
    assert!(records.account(account.id).await.unwrap().unwrap().admin);
    assert!(records.promote("+4912345", false).await.unwrap());
    assert!(!records.account(account.id).await.unwrap().unwrap().admin);
    assert!(!records.promote("+4900000", true).await.unwrap());
}

#[tokio::test]
async fn a_revoked_session_is_remembered_until_it_would_have_ended() {
    let database = Database::new();
    let records = open(&database).await;
    records.revoke_session("session-1", moment(10), moment(5)).await.unwrap();
    records.revoke_session("session-1", moment(10), moment(6)).await.unwrap();
    let ended = vec![("session-1".into(), moment(10))];
    assert_eq!(records.revoked_sessions_since(moment(5)).await.unwrap(), ended);
    assert!(records.revoked_sessions_since(moment(6)).await.unwrap().is_empty(), "it had ended before");
    assert_eq!(records.revoked_sessions(moment(9)).await.unwrap(), vec![("session-1".into(), moment(10))]);
    assert!(records.revoked_sessions(moment(10)).await.unwrap().is_empty());
    records.forget_expired(moment(11)).await.unwrap();
    assert!(records.revoked_sessions(moment(0)).await.unwrap().is_empty());
}

const HERE: &str = "192.0.2.1";

async fn put(records: &Records, digest: &[u8], now: Timestamp) -> Result<(), PutCodeError> {
    put_from(records, HERE, digest, now).await
}

async fn put_from(
    records: &Records,
    origin: &str,
    digest: &[u8],
    now: Timestamp,
) -> Result<(), PutCodeError> {
    let code = NewCode {
        phone: "+4912345",
        origin,
        digest,
        expires_at: now.plus_seconds(300),
        now,
        max_per_origin: 3,
        max_per_phone: 8,
        window_seconds: 3600,
    };
    records.put_code(code).await
}

async fn take(records: &Records, digest: &[u8], now: Timestamp) -> CodeCheck {
    records.take_code("+4912345", HERE, digest, now).await.unwrap()
}

#[tokio::test]
async fn a_right_code_works_once() {
    let database = Database::new();
    let records = open(&database).await;
    assert_eq!(take(&records, b"right", moment(0)).await, CodeCheck::Void);
    put(&records, b"right", moment(0)).await.unwrap();
    assert_eq!(take(&records, b"wrong", moment(1)).await, CodeCheck::Wrong);
    assert_eq!(take(&records, b"right", moment(1)).await, CodeCheck::Right);
    assert_eq!(take(&records, b"right", moment(1)).await, CodeCheck::Void);
}

#[tokio::test]
async fn a_code_expires_and_a_new_one_replaces_it() {
    let database = Database::new();
    let records = open(&database).await;
    put(&records, b"first", moment(0)).await.unwrap();
    assert_eq!(take(&records, b"first", moment(300)).await, CodeCheck::Void);
    put(&records, b"second", moment(301)).await.unwrap();
    assert_eq!(take(&records, b"first", moment(302)).await, CodeCheck::Wrong);
    assert_eq!(take(&records, b"second", moment(302)).await, CodeCheck::Right);
}

#[tokio::test]
async fn five_wrong_guesses_void_a_code_even_when_they_come_at_once() {
    let database = Database::new();
    let records = open(&database).await;
    put(&records, b"right", moment(0)).await.unwrap();
    let guesses = (0..40).map(|_| {
        let records = records.clone();
        tokio::spawn(async move { take(&records, b"wrong", moment(1)).await })
    });
    let mut wrong = 0;
    for guess in guesses.collect::<Vec<_>>() {
        wrong += u32::from(guess.await.unwrap() == CodeCheck::Wrong);
    }
    assert_eq!(wrong, 5);
    assert_eq!(take(&records, b"right", moment(1)).await, CodeCheck::Void);
}

#[tokio::test]
async fn only_one_of_many_parallel_right_guesses_wins() {
    let database = Database::new();
    let records = open(&database).await;
    put(&records, b"right", moment(0)).await.unwrap();
    let guesses = (0..20).map(|_| {
        let records = records.clone();
        tokio::spawn(async move { take(&records, b"right", moment(1)).await })
    });
    let mut right = 0;
    for guess in guesses.collect::<Vec<_>>() {
        right += u32::from(guess.await.unwrap() == CodeCheck::Right);
    }
    assert_eq!(right, 1);
}

#[tokio::test]
async fn a_window_has_a_limited_number_of_codes() {
    let database = Database::new();
    let records = open(&database).await;
    for second in 0..3 {
        put(&records, b"code", moment(second)).await.unwrap();
    }
    let fourth = put(&records, b"code", moment(600)).await;
    assert!(matches!(fourth, Err(PutCodeError::TooMany { retry_after_seconds: 3000 })), "{fourth:?}");
    put(&records, b"later", moment(3600)).await.unwrap();
    assert_eq!(take(&records, b"later", moment(3601)).await, CodeCheck::Right);
}

#[tokio::test]
async fn parallel_requests_for_codes_are_limited_too() {
    let database = Database::new();
    let records = open(&database).await;
    let requests = (0..20).map(|_| {
        let records = records.clone();
        tokio::spawn(async move { put(&records, b"code", moment(0)).await.is_ok() })
    });
    let mut sent = 0;
    for request in requests.collect::<Vec<_>>() {
        sent += u32::from(request.await.unwrap());
    }
    assert_eq!(sent, 3);
}

/// The last half of a phone's codes is for addresses that have had no more than one, however often they ask.
#[tokio::test]
async fn parallel_requests_of_a_new_address_take_two_of_the_codes_that_are_kept_for_new_addresses() {
    let database = Database::new();
    let records = open(&database).await;
    for origin in ["a", "a", "b", "b"] {
        put_from(&records, origin, b"code", moment(0)).await.unwrap();
    }
    for newcomer in ["c", "d"] {
        let requests = (0..12).map(|_| {
            let records = records.clone();
            tokio::spawn(async move { put_from(&records, newcomer, b"code", moment(0)).await.is_ok() })
        });
        let mut sent = 0;
        for request in requests.collect::<Vec<_>>() {
            sent += u32::from(request.await.unwrap());
        }
        assert_eq!(sent, 2, "{newcomer}");
    }
}

#[tokio::test]
async fn codes_are_forgotten_after_their_end_and_not_before() {
    let database = Database::new();
    let records = open(&database).await;
    for second in 0..3 {
        put(&records, b"code", moment(second)).await.unwrap();
    }
    records.forget_expired(moment(300)).await.unwrap();
    assert!(put(&records, b"code", moment(300)).await.is_err());
    records.forget_expired(moment(400)).await.unwrap();
    put(&records, b"code", moment(400)).await.unwrap();
}

#[tokio::test]
async fn others_who_ask_or_guess_do_not_touch_the_code_of_an_address() {
    let database = Database::new();
    let records = open(&database).await;
    put(&records, b"ours", moment(0)).await.unwrap();
    for second in 1..=3 {
        put_from(&records, "203.0.113.9", b"theirs", moment(second)).await.unwrap();
    }
    assert!(put_from(&records, "203.0.113.9", b"theirs", moment(4)).await.is_err());
    for stranger in ["203.0.113.9", "203.0.113.10"] {
        for _ in 0..6 {
            records.check_code("+4912345", stranger, b"wrong", moment(5)).await.unwrap();
        }
        let void = records.check_code("+4912345", stranger, b"theirs", moment(5)).await.unwrap();
        assert_eq!(void, CodeCheck::Void, "{stranger}");
    }
    let right = records.check_code("+4912345", HERE, b"ours", moment(6)).await.unwrap();
    assert_eq!(right, CodeCheck::Right, "a check does not use it up");
    assert_eq!(take(&records, b"ours", moment(6)).await, CodeCheck::Right);
    assert_eq!(take(&records, b"ours", moment(6)).await, CodeCheck::Void);
}

#[tokio::test]
async fn the_last_code_is_valid_from_everywhere_until_one_is_used() {
    let database = Database::new();
    let records = open(&database).await;
    put(&records, b"first", moment(0)).await.unwrap();
    put_from(&records, "203.0.113.9", b"last", moment(1)).await.unwrap();
    let elsewhere = |digest: &'static [u8]| records.take_code("+4912345", "198.51.100.1", digest, moment(2));
    assert_eq!(elsewhere(b"first").await.unwrap(), CodeCheck::Wrong);
    assert_eq!(elsewhere(b"last").await.unwrap(), CodeCheck::Right);
    assert_eq!(elsewhere(b"last").await.unwrap(), CodeCheck::Void);
    assert_eq!(take(&records, b"first", moment(2)).await, CodeCheck::Void, "the phone has proved itself");
}

#[tokio::test]
async fn half_of_a_phones_codes_are_kept_for_two_from_each_address() {
    let database = Database::new();
    let records = open(&database).await;
    let mut sent = 0;
    for origin in ["a", "b"] {
        for _ in 0..4 {
            sent += u32::from(put_from(&records, origin, b"code", moment(0)).await.is_ok());
        }
    }
    assert_eq!(sent, 5, "three for the first address, two for the second");
    for number in 0..8 {
        sent += u32::from(put_from(&records, &number.to_string(), b"code", moment(0)).await.is_ok());
    }
    assert_eq!(sent, 8);
}
