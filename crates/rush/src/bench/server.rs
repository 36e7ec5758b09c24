//! A Penstock process under measurement, started as a user would start it.

use std::{
    net::SocketAddr,
    path::Path,
    time::{Duration, Instant},
};

use anyhow::ensure;
use penstock_local::{self as local, ChildProcess};

use crate::{
    api::Api,
    host,
    load::{BuyerTape, Call, OrderTape, Outcome, Tape},
};

const SECRET: &str = "penstock-bench-secret-0123456789abcdef";
const ADMIN_TOKEN: &str = "penstock-bench-admin-0123456789abcdef";
const START_LIMIT: Duration = Duration::from_secs(120);
const READY: &str = "penstock ready on http://";

#[derive(Debug)]
pub(super) struct Server {
    process: ChildProcess,
    pub(super) api: Api,
    /// From the start to the line that says it can sell.
    pub(super) ready_after: Duration,
}

impl Server {
    /// As variables, for the server and for its administrator or its shop.
    pub(super) const SECRETS: [(&str, &str); 2] =
        [("PENSTOCK_IDENTITY__JWT__SECRET", SECRET), ("PENSTOCK_ADMIN_TOKEN", ADMIN_TOKEN)];

    pub(super) fn start(binary: &Path, data: &Path, core: Option<usize>) -> anyhow::Result<Self> {
        Self::start_with(binary, data, core, &[])
    }

    /// Takes settings as variables, such as `PENSTOCK_LEDGER__MAX_BATCH`.
    pub(super) fn start_with(
        binary: &Path,
        data: &Path,
        core: Option<usize>,
        settings: &[(&str, &str)],
    ) -> anyhow::Result<Self> {
        let mut command = local::command(binary, core);
        // It chooses a free port by itself and prints it, so nobody can take the port in between.
        command.args(["serve", "--listen", "127.0.0.1:0", "--data"]).arg(data);
        command.envs(Self::SECRETS).envs(settings.iter().copied());
        let log = data.with_extension("log");
        let started = Instant::now();
        let mut process = ChildProcess::start("penstock", command, &log)?;
        let ready =
            |line: &str| line.split_once(READY)?.1.trim().trim_end_matches('/').parse::<SocketAddr>().ok();
        let (address, at) = process.wait_for_line(START_LIMIT, ready)?;
        let api = Api::new(address, ADMIN_TOKEN);
        Ok(Self { process, api, ready_after: at - started })
    }

    /// `count` orders, each by a different buyer; the first is number `first_buyer`.
    pub(super) fn orders(&self, sale: &str, first_buyer: u64, count: usize) -> anyhow::Result<Tape> {
        let secret = SECRET.as_bytes();
        OrderTape { address: self.api.address, sale, secret, first_buyer, count }.build()
    }

    /// `count` requests of `call` by `buyers` buyers, with tokens that the server accepts.
    pub(super) fn calls(&self, call: &Call<'_>, buyers: u64, count: usize) -> anyhow::Result<Tape> {
        let secret = SECRET.as_bytes();
        BuyerTape { address: self.api.address, secret, first_buyer: 0, buyers, count }.build(call)
    }

    /// The same with forged tokens.
    pub(super) fn forged_calls(&self, call: &Call<'_>, count: usize) -> anyhow::Result<Tape> {
        let (address, secret) = (self.api.address, b"not-the-secret-of-this-server-0123456789".as_slice());
        BuyerTape { address, secret, first_buyer: 0, buyers: u64::MAX, count }.build(call)
    }

    pub(super) fn peak_resident_bytes(&self) -> anyhow::Result<u64> {
        host::peak_resident_bytes(self.process.id())
    }

    pub(super) fn resident_bytes(&self) -> anyhow::Result<u64> {
        host::resident_bytes(self.process.id())
    }

    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        host::cpu_seconds(self.process.id())
    }

    /// Fails unless exactly `accepted` of `units` are gone and the audit is clean.
    pub(super) fn verify(&self, sale: &str, units: u64, accepted: u64) -> anyhow::Result<()> {
        let available = self.api.available(sale)?;
        ensure!(
            available + accepted == units,
            "{accepted} of {units} units were accepted, but {available} are still available"
        );
        self.api.audit()
    }

    pub(super) fn stop(self) -> anyhow::Result<()> {
        self.process.stop()
    }

    pub(super) fn kill(self) -> anyhow::Result<()> {
        self.process.kill()
    }
}

/// Fails if any request of a run got a result other than `status`.
pub(super) fn ensure_only<S>(outcome: &Outcome<S>, status: u16) -> anyhow::Result<()> {
    let total = &outcome.total;
    ensure!(total.answers > 0, "no answer came");
    ensure!(
        total.status(status) == total.answers && total.errors == 0,
        "expected nothing but {status}; got {:?}, codes {:?}, {} lost connections",
        total.statuses(),
        total.codes(),
        total.errors
    );
    Ok(())
}

/// Fails if a request got no answer, or an answer other than yes or `busy`.
pub(super) fn ensure_told<S>(outcome: &Outcome<S>) -> anyhow::Result<()> {
    let total = &outcome.total;
    let told = total.status(201) + total.code("busy");
    ensure!(
        total.status(201) > 0 && told == total.answers && total.errors == 0,
        "expected 201 and busy; got {:?}, codes {:?}, lost {:?}",
        total.statuses(),
        total.codes(),
        total.losses
    );
    Ok(())
}
