//! The only way to Redis: it knows which server is master of a key, reconnects by itself, and never repeats a
//! command that may have been run.

use std::{fmt, sync::Arc};

use redis::{Cmd, FromRedisValue, Pipeline, Value};
use tokio::{runtime::Handle, time::Instant};

use crate::{
    call::PipelineCall,
    error::{LinkError, answered},
    options::{RedisMode, RedisOptions},
    script::Script,
    server::CallKind,
    servers::Servers,
    topology::slot_of,
};

/// A cheap handle.
#[derive(Clone)]
pub struct Link {
    pub(crate) servers: Arc<Servers>,
}

impl fmt::Debug for Link {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Link").field("options", self.options()).finish_non_exhaustive()
    }
}

impl Link {
    /// Finds the masters. The connections live on the current runtime.
    pub async fn connect(options: RedisOptions) -> Result<Self, LinkError> {
        let link = Self { servers: Servers::new(options)? };
        link.servers.refresh(link.deadline()).await?;
        link.greet_masters().await?;
        Ok(link)
    }

    /// Greets all masters. If one does not answer, its keys wait, and the others can be used.
    async fn greet_masters(&self) -> Result<(), LinkError> {
        let masters = self.masters();
        let mut silent = Vec::new();
        for master in &masters {
            match self.greet(master).await {
                Err(error) if error.is_silence() => silent.push(error),
                greeted => greeted?,
            }
        }
        if silent.len() == masters.len() {
            return silent.into_iter().next().map_or(Ok(()), Err);
        }
        for error in silent {
            tracing::warn!(%error, "this master's sales wait until it is back; starting for the others");
        }
        Ok(())
    }

    pub(crate) async fn greet(&self, master: &str) -> Result<(), LinkError> {
        let mut ping = redis::pipe();
        ping.cmd("PING");
        let answer = self.send_to(master, &ping).await?.pop();
        answered::<String>(master, answer).map(drop)
    }

    /// Another link to the same servers, whose connections live on the current runtime. It can be made while
    /// no server is up.
    pub fn on_this_runtime(&self) -> Result<Self, LinkError> {
        Ok(Self { servers: self.servers.on_this_runtime()? })
    }

    pub fn options(&self) -> &RedisOptions {
        &self.servers.options
    }

    pub fn is_cluster(&self) -> bool {
        matches!(self.options().mode, RedisMode::Cluster { .. })
    }

    pub fn runtime(&self) -> &Handle {
        &self.servers.runtime
    }

    /// When a call that begins now has to be over.
    pub fn deadline(&self) -> Instant {
        self.servers.deadline()
    }

    /// The master of a key, as far as it is known without asking.
    pub fn master_of(&self, key: &str) -> Option<Arc<str>> {
        self.servers.topology().master_of(slot_of(key)).cloned()
    }

    pub fn masters(&self) -> Vec<Arc<str>> {
        self.servers.topology().masters()
    }

    /// Lets this link load the script on servers that lack it. Call this once, before the script is called.
    pub fn learn(&self, script: &Script) {
        self.servers.learn(script);
    }

    /// Runs commands of one slot, the slot of `key`, on its master in one round trip, and answers one value
    /// for each. A command that failed on its own has a `Value::ServerError`. With `confirm` the replicas
    /// have to confirm the writes. If a server turns a command away without running it (it is no longer the
    /// master, it lacks the script), the command is sent again to the right server.
    pub async fn run(&self, key: &str, pipeline: Pipeline, confirm: bool) -> Result<Vec<Value>, LinkError> {
        self.run_by(key, pipeline, confirm, self.deadline()).await
    }

    /// Like `run`, with a deadline of the caller's.
    pub async fn run_by(
        &self,
        key: &str,
        pipeline: Pipeline,
        confirm: bool,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        PipelineCall::new(&self.servers, key, confirm, pipeline.len(), deadline).finish(pipeline).await
    }

    /// The same for commands of several slots that are on one server as far as is known; `key` belongs to one
    /// of the slots. A command that the server turned away was not run and has the error as its value.
    pub async fn run_mixed(
        &self,
        key: &str,
        pipeline: Pipeline,
        confirm: bool,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        let call = PipelineCall::new(&self.servers, key, confirm, pipeline.len(), deadline);
        call.of_several_slots().finish(pipeline).await
    }

    /// Runs one command and converts its answer.
    pub async fn call<T: FromRedisValue>(&self, key: &str, command: Cmd) -> Result<T, LinkError> {
        self.call_one(key, command, false).await
    }

    /// The same, and the replicas have to confirm what the answer rests on.
    pub async fn call_confirmed<T: FromRedisValue>(&self, key: &str, command: Cmd) -> Result<T, LinkError> {
        self.call_one(key, command, true).await
    }

    async fn call_one<T: FromRedisValue>(
        &self,
        key: &str,
        command: Cmd,
        confirm: bool,
    ) -> Result<T, LinkError> {
        let mut pipeline = redis::pipe();
        pipeline.add_command(command);
        answered(key, self.run(key, pipeline, confirm).await?.pop())
    }

    /// Sends commands to one server, whatever its role.
    pub async fn send_to(&self, address: &str, pipeline: &Pipeline) -> Result<Vec<Value>, LinkError> {
        self.servers.at(address)?.send(CallKind::Plain, pipeline, self.deadline()).await
    }
}
