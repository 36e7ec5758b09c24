//! Accounts for the buyers, made through the API in the usual way: a one-time code, a name, a password.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{anyhow, bail, ensure};
use serde_json::{Value, json};

use super::{RehearsalNews, RehearsalOptions};
use crate::{
    api::{ApiReply, ShopApi},
    crowd::BuyerAccount,
};

/// Hashing a password takes tens of milliseconds of CPU on the server, so more accounts would take too long.
const MAX_ACCOUNTS: u64 = 5_000;
const AT_ONCE: usize = 8;
const PASSWORD: &str = "penstock-rehearsal";
/// No country has this code, so nobody's phone rings.
const COUNTRY: &str = "+999";
const COME_IN: &str = "let them come with tokens: give the server's --data DIR if it is a demo, its --config FILE, or its JWT \
                       secret in PENSTOCK_IDENTITY__JWT__SECRET";
const MAX_TRIES: u32 = 20;
const TELL_EVERY: Duration = Duration::from_secs(2);

/// One account for each buyer. Accounts of an earlier rehearsal with the same seed are used again.
pub(super) fn accounts(
    api: &ShopApi,
    options: &RehearsalOptions,
    tell: &mut impl FnMut(RehearsalNews<'_>),
) -> anyhow::Result<Arc<[BuyerAccount]>> {
    let buyers = options.scenario.crowd.buyers;
    ensure!(
        buyers <= MAX_ACCOUNTS,
        "{buyers} buyers need as many accounts, and at most {MAX_ACCOUNTS} are signed up; {COME_IN}"
    );
    let account = |number| BuyerAccount {
        phone: format!("{COUNTRY}{:04}{number:07}", options.seed % 10_000),
        password: PASSWORD.to_owned(),
    };
    let accounts: Arc<[BuyerAccount]> = (0..buyers).map(account).collect();
    let made = AtomicUsize::new(0);
    let part = accounts.len().div_ceil(AT_ONCE).max(1);
    thread::scope(|scope| {
        let sign_up = |accounts: &[BuyerAccount]| -> anyhow::Result<()> {
            for account in accounts {
                sign_up(api, account)?;
                made.fetch_add(1, Ordering::Relaxed);
            }
            Ok(())
        };
        let workers: Vec<_> =
            accounts.chunks(part).map(|accounts| scope.spawn(move || sign_up(accounts))).collect();
        let mut told_at = Instant::now();
        while workers.iter().any(|worker| !worker.is_finished()) {
            thread::sleep(Duration::from_millis(20));
            if told_at.elapsed() >= TELL_EVERY {
                told_at = Instant::now();
                tell(RehearsalNews::Says(format!(
                    "Signing up: {} of {buyers}.",
                    made.load(Ordering::Relaxed)
                )));
            }
        }
        for worker in workers {
            worker.join().map_err(|_| anyhow!("a thread that signs up panicked"))??;
        }
        Ok(Arc::clone(&accounts))
    })
}

fn sign_up(api: &ShopApi, account: &BuyerAccount) -> anyhow::Result<()> {
    let phone = &account.phone;
    // An existing account needs no code; a phone number gets only a few codes.
    let credentials = json!({"phone": phone, "password": account.password});
    if patiently(api, "/api/v1/sessions", &credentials)?.status == 201 {
        return Ok(());
    }
    let reply = patiently(api, "/api/v1/otp", &json!({"phone": phone}))?;
    ensure!(reply.status == 202, "POST /api/v1/otp was answered {}", reply.in_words());
    let Some(code) = reply.body.get("code").and_then(Value::as_str) else {
        bail!(
            "the server sends one-time codes to phones, which simulated buyers don't have; {COME_IN}. Or rehearse on a \
             server with identity.codes_in_answers = true"
        );
    };
    let person = json!({"phone": phone, "otp": code, "name": "Rehearsal", "password": account.password});
    let reply = patiently(api, "/api/v1/accounts", &person)?;
    ensure!(reply.status == 201, "POST /api/v1/accounts was answered {}", reply.in_words());
    Ok(())
}

/// Waits and asks again while the server is busy.
fn patiently(api: &ShopApi, path: &str, body: &Value) -> anyhow::Result<ApiReply> {
    let mut reply = api.ask("POST", path, None, Some(body))?;
    for _ in 0..MAX_TRIES {
        if !matches!(reply.status, 429 | 503) {
            break;
        }
        thread::sleep(Duration::from_secs(1));
        reply = api.ask("POST", path, None, Some(body))?;
    }
    Ok(reply)
}
