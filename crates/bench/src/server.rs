//! A Penstock process under measurement, started as a user would start it.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::ensure;
use penstock_local::{self as local, ChildProcess};
use penstock_rush::api::ShopApi;

use crate::{
    bench::Bench,
    host,
    load::{BuyerTape, LoadOutcome, Tape, TapeCall, bearers, orders_path},
};

const SECRET: &str = "penstock-bench-secret-0123456789abcdef";
const ADMIN_TOKEN: &str = "penstock-bench-admin-0123456789abcdef";
const START_LIMIT: Duration = Duration::from_secs(120);
const READY: &str = "penstock ready on http://";

/// Settings as variables, such as `PENSTOCK_LEDGER__MAX_BATCH`.
pub(crate) type Settings = [(&'static str, &'static str)];

#[derive(Debug)]
pub(crate) struct MeasuredServer {
    process: ChildProcess,
    pub(crate) api: ShopApi,
    /// From the start to the line that says it can sell.
    pub(crate) ready_after: Duration,
}

impl MeasuredServer {
    /// As variables, for the server and for its administrator or its shop.
    pub(crate) const SECRETS: [(&str, &str); 2] =
        [("PENSTOCK_IDENTITY__JWT__SECRET", SECRET), ("PENSTOCK_ADMIN_TOKEN", ADMIN_TOKEN)];

    /// Starts with an empty data folder.
    pub(crate) fn start(bench: &Bench<'_>, core: Option<usize>, settings: &Settings) -> anyhow::Result<Self> {
        Self::start_in(&bench.fresh_folder("penstock")?, bench, core, settings)
    }

    pub(crate) fn start_in(
        data: &Path,
        bench: &Bench<'_>,
        core: Option<usize>,
        settings: &Settings,
    ) -> anyhow::Result<Self> {
        let mut command = local::command(&bench.options.server, core);
        // It chooses a free port by itself and prints it, so nobody can take the port in between.
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.envs(Self::SECRETS).envs(settings.iter().copied());
        let log = data.with_extension("log");
        let started = Instant::now();
        let mut process = ChildProcess::start("penstock", command, &log)?;
        let ready =
            |line: &str| line.split_once(READY)?.1.trim().trim_end_matches('/').parse::<SocketAddr>().ok();
        let (address, at) = process.wait_for_line(START_LIMIT, ready)?;
        let api = ShopApi::new(address, ADMIN_TOKEN);
        Ok(Self { process, api, ready_after: at - started })
    }

    /// `count` orders, each by a different buyer; the first is number `first_buyer`.
    pub(crate) fn orders(&self, sale: &str, first_buyer: u64, count: usize) -> anyhow::Result<Tape> {
        let (address, identity) = (self.api.address, &bearers(SECRET.as_bytes()));
        let buyers = BuyerTape { address, identity, first_buyer, buyers: u64::MAX, count };
        buyers.build(&TapeCall::order(&orders_path(sale)))
    }

    /// `count` requests of `call` by `buyers` buyers, with tokens that the server accepts.
    pub(crate) fn calls(&self, call: &TapeCall<'_>, buyers: u64, count: usize) -> anyhow::Result<Tape> {
        let (address, identity) = (self.api.address, &bearers(SECRET.as_bytes()));
        BuyerTape { address, identity, first_buyer: 0, buyers, count }.build(call)
    }

    /// The same with forged tokens.
    pub(crate) fn forged_calls(&self, call: &TapeCall<'_>, count: usize) -> anyhow::Result<Tape> {
        let identity = &bearers(b"not-the-secret-of-this-server-0123456789");
        let address = self.api.address;
        BuyerTape { address, identity, first_buyer: 0, buyers: u64::MAX, count }.build(call)
    }

    pub(crate) fn peak_resident_bytes(&self) -> anyhow::Result<u64> {
        host::peak_resident_bytes(self.process.id())
    }

    pub(crate) fn resident_bytes(&self) -> anyhow::Result<u64> {
        host::resident_bytes(self.process.id())
    }

    pub(crate) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        host::cpu_seconds(self.process.id())
    }

    /// Fails unless exactly `accepted` of `units` are gone and the audit is clean.
    pub(crate) fn verify(&self, sale: &str, units: u64, accepted: u64) -> anyhow::Result<()> {
        let available = self.api.available(sale)?;
        ensure!(
            available + accepted == units,
            "{accepted} of {units} units were accepted, but {available} are still available"
        );
        self.api.audit()
    }

    pub(crate) fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }

    pub(crate) fn kill(self) -> anyhow::Result<()> {
        self.process.kill()
    }
}

/// Fails if any request of a run got a result other than `status`.
pub(crate) fn ensure_only<S>(outcome: &LoadOutcome<S>, status: u16) -> anyhow::Result<()> {
    ensure_told(outcome, status, &[])
}

/// Fails if no request was answered with `status`, or if one got no answer, or an answer that is neither that
/// nor one of `codes`.
pub(crate) fn ensure_told<S>(outcome: &LoadOutcome<S>, status: u16, codes: &[&str]) -> anyhow::Result<()> {
    let total = &outcome.total;
    let told = total.status(status) + codes.iter().map(|code| total.code(code)).sum::<u64>();
    ensure!(
        total.status(status) > 0 && told == total.answers && total.errors == 0,
        "expected nothing but {}; got {}",
        [&[status.to_string().as_str()], codes].concat().join(", "),
        total.in_words()
    );
    Ok(())
}
