//! One call to Redis, until each of its commands was run once. A command that a server turned away without
//! running it is sent to the right server. A command that may have been run is never sent again.

use std::{sync::Arc, time::Duration};

use redis::{Cmd, Pipeline, Value};
use tokio::time::{Instant, sleep};

use crate::{
    error::{LinkError, answered},
    server::{CallKind, ServerConnections},
    servers::Servers,
    topology::slot_of,
};

/// How long a call waits before it asks again when a server is not ready.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct PipelineCall<'a> {
    servers: &'a Arc<Servers>,
    slot: u16,
    deadline: Instant,
    /// The number of replicas that have to confirm, and the fewest that confirmed any part of the call.
    wanted: u32,
    confirmed: u32,
    /// The places of the commands that have not been run yet.
    left: Vec<usize>,
    values: Vec<Value>,
    /// A server to ask once instead of the master: the slot is moving there.
    aside: Option<String>,
    /// The commands belong to several slots. Those that are turned away may belong to as many servers, so
    /// they are not sent again.
    is_mixed: bool,
    /// The server on which the scripts were loaded last.
    loaded_on: Option<Arc<str>>,
}

/// Why a command was not run.
enum NotRun {
    Moved(String),
    Ask(String),
    NoScript,
    NotReady(String),
}

impl<'a> PipelineCall<'a> {
    pub(crate) fn new(
        servers: &'a Arc<Servers>,
        key: &str,
        confirm: bool,
        length: usize,
        deadline: Instant,
    ) -> Self {
        Self {
            servers,
            slot: slot_of(key),
            deadline,
            wanted: if confirm { servers.options.wait_replicas } else { 0 },
            confirmed: u32::MAX,
            left: (0..length).collect(),
            values: vec![Value::Nil; length],
            aside: None,
            is_mixed: false,
            loaded_on: None,
        }
    }

    pub(crate) fn of_several_slots(self) -> Self {
        Self { is_mixed: true, ..self }
    }

    pub(crate) async fn finish(mut self, mut pipeline: Pipeline) -> Result<Vec<Value>, LinkError> {
        if self.left.is_empty() {
            return Ok(self.values);
        }
        let commands = pipeline.len();
        self.add_wait(&mut pipeline);
        let mut rest: Option<Pipeline> = None;
        loop {
            let server = self.server().await?;
            let sent = rest.as_ref().unwrap_or(&pipeline);
            let kind = if self.wanted > 0 { CallKind::Confirmed } else { CallKind::Plain };
            let asking = self.aside.take().is_some();
            match server.send(kind, sent, self.deadline).await {
                Ok(values) => match self.take(values, asking) {
                    None => return self.confirmed_values(),
                    Some(why) if self.is_mixed && !matches!(why, NotRun::NoScript) => {
                        self.servers.refresh_soon();
                        return self.confirmed_values();
                    }
                    Some(why) => self.make_way(&server, why).await?,
                },
                Err(error) => self.look_elsewhere(&server, error).await?,
            }
            if Instant::now() >= self.deadline {
                return Err(LinkError::unreachable(&server.address, "it was not ready in time"));
            }
            rest = Some(self.rest(pipeline.cmd_iter().take(commands)));
        }
    }

    async fn server(&self) -> Result<Arc<ServerConnections>, LinkError> {
        if let Some(address) = &self.aside {
            return self.servers.at(address);
        }
        if let Some(master) = self.servers.topology().master_of(self.slot) {
            return self.servers.at(master);
        }
        self.servers.refresh(self.deadline).await?;
        match self.servers.topology().master_of(self.slot) {
            Some(master) => self.servers.at(master),
            None => Err(LinkError::unreachable("cluster", format!("slot {} has no master", self.slot))),
        }
    }

    fn rest<'c>(&self, commands: impl Iterator<Item = &'c Cmd>) -> Pipeline {
        let mut rest = redis::pipe();
        for (_, command) in commands.enumerate().filter(|(place, _)| self.left.contains(place)) {
            if self.aside.is_some() {
                rest.cmd("ASKING");
            }
            rest.add_command(command.clone());
        }
        self.add_wait(&mut rest);
        rest
    }

    fn add_wait(&self, pipeline: &mut Pipeline) {
        if self.wanted > 0 {
            pipeline.cmd("WAIT").arg(self.wanted).arg(self.servers.options.wait_milliseconds);
        }
    }

    /// Keeps the values of the commands that were run. If some were not, returns the reason.
    fn take(&mut self, mut values: Vec<Value>, asking: bool) -> Option<NotRun> {
        let confirmed = (self.wanted > 0).then(|| values.pop());
        let step = if asking { 2 } else { 1 };
        let answers = values.into_iter().skip(step - 1).step_by(step);
        let before = self.left.len();
        let mut why = None;
        let mut left = Vec::new();
        for (place, value) in std::mem::take(&mut self.left).into_iter().zip(answers) {
            if let Some(reason) = turned_away(&value) {
                why.get_or_insert(reason);
                left.push(place);
            }
            self.values[place] = value;
        }
        self.left = left;
        if let Some(confirmed) = confirmed
            && self.left.len() < before
        {
            self.confirmed = self.confirmed.min(answered("WAIT", confirmed).unwrap_or(0));
        }
        why
    }

    fn confirmed_values(self) -> Result<Vec<Value>, LinkError> {
        let Self { confirmed, wanted, values, .. } = self;
        if confirmed < wanted { Err(LinkError::Unconfirmed { confirmed, wanted }) } else { Ok(values) }
    }

    async fn make_way(&mut self, server: &ServerConnections, why: NotRun) -> Result<(), LinkError> {
        match why {
            NotRun::Moved(address) => {
                self.servers.point(self.slot, &address);
                self.servers.refresh_soon();
                Ok(())
            }
            NotRun::Ask(address) => {
                self.aside = Some(address);
                Ok(())
            }
            NotRun::NoScript => self.load_scripts(server).await,
            NotRun::NotReady(reason) => {
                if Instant::now() + PAUSE >= self.deadline {
                    return Err(LinkError::unreachable(&server.address, reason));
                }
                sleep(PAUSE).await;
                // If that fails, the same server is asked again.
                let _ = self.servers.refresh(self.deadline).await;
                Ok(())
            }
        }
    }

    /// Loads all scripts of this link: a server that lacks one is new.
    async fn load_scripts(&mut self, server: &ServerConnections) -> Result<(), LinkError> {
        let load = self.servers.load_scripts();
        let is_again = self.loaded_on.replace(server.address.clone()).as_ref() == Some(&server.address);
        if is_again || load.is_empty() {
            return Err(LinkError::refused(
                &server.address,
                "it lacks a script that this node does not have",
            ));
        }
        for loaded in server.send(CallKind::Plain, &load, self.deadline).await? {
            answered::<String>(&server.address, Some(loaded))?;
        }
        Ok(())
    }

    /// After a failure: Ok if another server is master now and nothing was run yet.
    async fn look_elsewhere(&self, failed: &ServerConnections, error: LinkError) -> Result<(), LinkError> {
        if !matches!(error, LinkError::Unreachable { .. }) || Instant::now() >= self.deadline {
            self.servers.refresh_soon();
            return Err(error);
        }
        if self.servers.refresh(self.deadline).await.is_err() {
            return Err(error);
        }
        match self.servers.topology().master_of(self.slot) {
            Some(master) if *master != failed.address => Ok(()),
            _ => Err(error),
        }
    }
}

/// Whether a server turned the command away without running any of it.
pub fn is_turned_away(value: &Value) -> bool {
    turned_away(value).is_some()
}

fn turned_away(value: &Value) -> Option<NotRun> {
    let Value::ServerError(error) = value else { return None };
    let not_ready = || NotRun::NotReady(error.to_string());
    let address = || Some(error.details()?.split_ascii_whitespace().nth(1)?.to_string());
    match error.code() {
        "MOVED" => Some(address().map_or_else(not_ready, NotRun::Moved)),
        "ASK" => Some(address().map_or_else(not_ready, NotRun::Ask)),
        "NOSCRIPT" => Some(NotRun::NoScript),
        // A server that answers one of these has not run any part of a command or script: a script's first
        // write fails.
        "TRYAGAIN" | "CLUSTERDOWN" | "MASTERDOWN" | "LOADING" | "READONLY" | "BUSY" => Some(not_ready()),
        _ => None,
    }
}
