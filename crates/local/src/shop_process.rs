//! A node or a settlement worker of a cluster: the program `penstock`, which can be started, killed, paused
//! and started again.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Command, ExitStatus},
    time::Duration,
};

use anyhow::{Context, bail};

use crate::{commands, plan::ShopPlan, process::ChildProcess};

/// A debug build on a loaded machine is slow.
const START_LIMIT: Duration = Duration::from_secs(90);

#[derive(Clone, Copy, Debug)]
pub(crate) enum ShopRole {
    Node(SocketAddr),
    Settler,
}

/// A node or a settlement worker.
#[derive(Debug)]
pub struct ShopProcess {
    name: String,
    role: ShopRole,
    program: PathBuf,
    configuration: PathBuf,
    log: PathBuf,
    variables: Vec<(String, String)>,
    process: Option<ChildProcess>,
}

impl ShopProcess {
    pub(crate) fn new(
        plan: &ShopPlan,
        configuration: &Path,
        role: ShopRole,
        number: usize,
        logs: &Path,
    ) -> Self {
        let name = match role {
            ShopRole::Node(_) => format!("node-{number}"),
            ShopRole::Settler => format!("settle-{number}"),
        };
        Self {
            log: logs.join(format!("{name}.log")),
            name,
            role,
            program: plan.program.clone(),
            configuration: configuration.to_owned(),
            variables: plan.variables.clone(),
            process: None,
        }
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    pub fn log(&self) -> &Path {
        &self.log
    }

    /// The address on which a node listens.
    pub fn address(&self) -> anyhow::Result<SocketAddr> {
        match self.role {
            ShopRole::Node(address) => Ok(address),
            ShopRole::Settler => bail!("{} does not listen", self.name),
        }
    }

    pub fn is_running(&self) -> bool {
        self.process.is_some()
    }

    pub fn process_id(&self) -> Option<u32> {
        self.process.as_ref().map(ChildProcess::id)
    }

    /// Sets an environment variable for its next start, such as `PENSTOCK_REDIS__SERVERS`.
    pub fn set(&mut self, name: &str, value: &str) {
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Returns when the process reports that it is ready.
    pub fn start(&mut self) -> anyhow::Result<()> {
        if self.process.is_some() && self.ended().is_none() {
            bail!("{} runs already", self.name);
        }
        self.process = None;
        let mut command = Command::new(&self.program);
        commands::without_callers_settings(&mut command);
        let ready = match self.role {
            ShopRole::Node(address) => {
                command.arg("serve").arg("--listen").arg(address.to_string());
                "penstock ready on "
            }
            ShopRole::Settler => {
                command.arg("settle");
                "penstock settles "
            }
        };
        command.arg("--config").arg(&self.configuration);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        let mut process = ChildProcess::start("penstock", command, &self.log)?;
        process
            .wait_for_line(START_LIMIT, move |line| line.starts_with(ready).then_some(()))
            .with_context(|| format!("{} does not start", self.name))?;
        self.process = Some(process);
        Ok(())
    }

    /// How it has ended, if something else has killed it.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.process.as_mut()?.ended()
    }

    /// Sends SIGTERM and waits until it has ended.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.running()?;
        self.process.take().context("it does not run")?.stop()
    }

    /// Sends SIGKILL, which is like a power cut.
    pub fn kill(&mut self) -> anyhow::Result<()> {
        self.running()?;
        self.process.take().context("it does not run")?.kill()
    }

    /// Stops it doing anything; its connections stay open.
    pub fn pause(&mut self) -> anyhow::Result<()> {
        self.running()?.pause()
    }

    /// Goes on after `pause`.
    pub fn resume(&mut self) -> anyhow::Result<()> {
        self.running()?.resume()
    }

    fn running(&mut self) -> anyhow::Result<&mut ChildProcess> {
        self.process.as_mut().with_context(|| format!("{} does not run", self.name))
    }
}
