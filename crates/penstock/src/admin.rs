//! `penstock admin` and `penstock migrate`: what an operator does to the database of record directly.

use std::io::{BufRead as _, stdin};

use anyhow::{Context as _, bail};
use penstock_domain::AccountId;
use penstock_records::{CreateAccountError, NewAccount, Records};
use serde_json::json;

use crate::{
    cli::{CreateArgs, PromoteArgs},
    clock,
    config::Config,
    database, folder,
    folder::DataFolder,
    output,
};

const PASSWORD_VARIABLE: &str = "PENSTOCK_ADMIN_PASSWORD";

/// What was asked can't be done because of how it was asked.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(String);

pub(crate) async fn create(config: &Config, args: &CreateArgs) -> anyhow::Result<()> {
    let password = read_password(args.password_stdin)?;
    let account = new_account(&args.phone, &args.name, &password, true)?;
    folder::ensure(&config.data)?;
    let records = database::open(config).await?;
    let created = records.create_account(account).await;
    records.close().await;
    let account = created.with_context(|| format!("no account was made for {}", args.phone))?;
    if args.json {
        let (id, phone, name) = (account.id.to_string(), account.phone, account.name);
        return output::json(&json!({ "id": id, "phone": phone, "name": name, "admin": true }));
    }
    output::write(&format!("{} ({}) is an admin now and can sign in.", account.name, account.phone))
}

pub(crate) async fn promote(config: &Config, args: &PromoteArgs) -> anyhow::Result<()> {
    folder::require_readable(&config.data)?;
    let records = database::open_existing(config).await?;
    let promoted = records.promote(&args.phone, true).await;
    records.close().await;
    if !promoted? {
        bail!("there is no account with the phone number {}", args.phone);
    }
    if args.json {
        return output::json(&json!({ "phone": args.phone, "admin": true }));
    }
    output::write(&format!("{} is an admin from the next sign-in on.", args.phone))
}

/// Applies what the schema lacks. `serve` does the same by itself.
pub(crate) async fn migrate(config: &Config, json: bool) -> anyhow::Result<()> {
    let _folder = DataFolder::open(&config.data)?;
    database::open(config).await?.close().await;
    if json {
        return output::json(&json!({ "migrated": true }));
    }
    output::write("The database of record is up to date.")
}

/// An account without the admin role, if the phone number has none yet.
pub(crate) async fn ensure_account(
    records: &Records,
    phone: &str,
    name: &str,
    password: &str,
) -> anyhow::Result<()> {
    if records.account_by_phone(phone).await?.is_some() {
        return Ok(());
    }
    match records.create_account(new_account(phone, name, password, false)?).await {
        Ok(_) | Err(CreateAccountError::PhoneTaken) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

fn new_account(phone: &str, name: &str, password: &str, admin: bool) -> anyhow::Result<NewAccount> {
    let checked = penstock_http::check_new_account(phone, name, password)
        .map_err(|problem| UsageError(problem.to_string()))?;
    let mut random = [0u8; 8];
    getrandom::fill(&mut random).context("the system gives no random bytes")?;
    Ok(NewAccount {
        id: AccountId::from_random(u64::from_le_bytes(random)),
        phone: phone.to_owned(),
        name: name.to_owned(),
        password_hash: penstock_http::hash_password(password)?,
        admin,
        created_at: clock::now(),
    })
}

fn read_password(from_stdin: bool) -> anyhow::Result<String> {
    if from_stdin {
        let mut line = String::new();
        stdin().lock().read_line(&mut line).context("the password can't be read from stdin")?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    std::env::var(PASSWORD_VARIABLE).map_err(|_| {
        let help = format!("give a password: pipe it in with --password-stdin, or set {PASSWORD_VARIABLE}");
        UsageError(help).into()
    })
}
