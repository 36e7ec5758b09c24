//! `penstock admin` and `penstock migrate`: what an operator does directly to the database of record.

use std::io::{BufRead as _, stdin};

use anyhow::{Context as _, bail};
use penstock_records::{CreateAccountError, Records};
use penstock_shop::identity::{Country, new_account, phone_forms};
use serde_json::json;

use crate::{
    cli::{CreateArgs, PromoteArgs},
    clock,
    config::{Config, EngineKind},
    database,
    folder::{self, DataFolder},
    output, secret_file, secrets,
};

const PASSWORD_VARIABLE: &str = "PENSTOCK_ADMIN_PASSWORD";

const CONFIGURED: &str = "the secret comes from the configuration: set identity.secret (PENSTOCK_SECRET) to the new one and \
    identity.previous_secret (PENSTOCK_PREVIOUS_SECRET) to the old one, and restart";
/// Every node has to accept what any node signs, also while only half of them have been restarted.
const CONFIGURED_IN_A_CLUSTER: &str = "the secret comes from the configuration, so it takes two rounds. First set \
    identity.previous_secret (PENSTOCK_PREVIOUS_SECRET) to the new one and restart all nodes, one by one: they accept it. \
    Then set identity.secret (PENSTOCK_SECRET) to it and identity.previous_secret to the old one, and restart all nodes again: \
    they sign with it";

#[derive(Debug, thiserror::Error)]
#[error("give a password: pipe it in with --password-stdin, or set {PASSWORD_VARIABLE}")]
pub(crate) struct NoPassword;

pub(crate) async fn create(config: &Config, args: &CreateArgs) -> anyhow::Result<()> {
    let password = read_password(args.password_stdin)?;
    let home = config.identity.default_country;
    let new = new_account(&args.phone, home, &args.name, &password, true, clock::now())?;
    let forms = phone_forms(&args.phone, home)?;
    folder::ensure(&config.data)?;
    let records = database::open(config).await?;
    let created = match records.accounts_by_phone(&forms).await?.is_empty() {
        true => records.create_account(new).await,
        false => Err(CreateAccountError::PhoneTaken),
    };
    records.close().await;
    let account = created.with_context(|| format!("cannot create an account for {}", args.phone))?;
    let (id, phone, name) = (account.id.to_string(), account.phone, account.name);
    let shown = json!({ "id": id, "phone": phone, "name": name, "admin": true });
    output::result(args.json, &shown, || format!("{name} ({phone}) is an admin now and can sign in."))
}

pub(crate) async fn promote(config: &Config, args: &PromoteArgs) -> anyhow::Result<()> {
    folder::require_readable(&config.data)?;
    let forms = phone_forms(&args.phone, config.identity.default_country)?;
    let records = database::open_existing(config).await?;
    let promoted = promote_first(&records, &forms).await;
    records.close().await;
    let Some(phone) = promoted? else {
        bail!("there is no account with the phone number {}", args.phone);
    };
    let shown = json!({ "phone": phone, "admin": true });
    output::result(args.json, &shown, || format!("{phone} is an admin now."))
}

/// Promotes the account stored under the first of these numbers that has one, and returns that number.
async fn promote_first(records: &Records, forms: &[String]) -> anyhow::Result<Option<String>> {
    let accounts = records.accounts_by_phone(forms).await?;
    let Some(account) = accounts.into_iter().next() else { return Ok(None) };
    records.promote(&account.phone, true).await?;
    Ok(Some(account.phone))
}

/// Brings the schema up to date. `serve` does this by itself.
pub(crate) async fn migrate(config: &Config, json: bool) -> anyhow::Result<()> {
    let _folder = DataFolder::open(&config.data)?;
    database::open(config).await?.close().await;
    output::result(json, &json!({ "migrated": true }), || "The database of record is up to date.".to_owned())
}

/// Replaces the secret in the data folder, or in the records of a cluster. Running servers pick it up.
pub(crate) async fn rotate_secret(config: &Config, json: bool) -> anyhow::Result<()> {
    let embedded = config.engine == EngineKind::Embedded;
    if embedded {
        folder::require_readable(&config.data)?;
    }
    if config.identity.secret.get().is_some() {
        bail!("{}", if embedded { CONFIGURED } else { CONFIGURED_IN_A_CLUSTER });
    }
    if embedded {
        secret_file::rotate(&config.data)?;
    } else {
        let records = database::open_existing(config).await?;
        let rotated = secrets::rotate_in(&records).await;
        records.close().await;
        rotated?;
    }
    output::result(json, &json!({ "rotated": true }), || {
        "The secret was replaced. What the previous one signed stays valid until the next rotation."
            .to_owned()
    })
}

/// Creates an account without the admin role, unless the phone number has one.
pub(crate) async fn ensure_account(
    records: &Records,
    phone: &str,
    name: &str,
    password: &str,
) -> anyhow::Result<()> {
    if records.account_by_phone(phone).await?.is_some() {
        return Ok(());
    }
    let new = new_account(phone, Country::default(), name, password, false, clock::now())?;
    match records.create_account(new).await {
        Ok(_) | Err(CreateAccountError::PhoneTaken) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Gives an account the admin role and this password, and creates it if the phone number has none. Earlier
/// sessions end.
pub(crate) async fn renew_admin(
    records: &Records,
    phone: &str,
    name: &str,
    password: &str,
) -> anyhow::Result<()> {
    let new = new_account(phone, Country::default(), name, password, true, clock::now())?;
    let Some(known) = records.account_by_phone(phone).await? else {
        records.create_account(new).await?;
        return Ok(());
    };
    records.set_password(known.id, &new.password_hash, new.created_at).await?;
    records.promote(phone, true).await?;
    Ok(())
}

fn read_password(from_stdin: bool) -> anyhow::Result<String> {
    if from_stdin {
        let mut line = String::new();
        stdin().lock().read_line(&mut line).context("the password can't be read from stdin")?;
        return Ok(line.trim_end_matches(['\r', '\n']).to_owned());
    }
    std::env::var(PASSWORD_VARIABLE).map_err(|_| NoPassword.into())
}
