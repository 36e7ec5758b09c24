//! A Lua script, called by the name that Redis gives it.

use std::sync::Arc;

use redis::Cmd;

#[derive(Clone, Debug)]
pub struct Script {
    source: Arc<str>,
    sha: Arc<str>,
}

impl Script {
    pub fn new(source: &str) -> Self {
        Self { source: source.into(), sha: redis::Script::new(source).get_hash().into() }
    }

    pub(crate) fn sha(&self) -> &Arc<str> {
        &self.sha
    }

    /// The beginning of a call. The number of keys, the keys and the arguments come next.
    pub fn call(&self) -> Cmd {
        let mut call = redis::cmd("EVALSHA");
        call.arg(&*self.sha);
        call
    }

    pub(crate) fn load(&self) -> Cmd {
        let mut load = redis::cmd("SCRIPT");
        load.arg("LOAD").arg(&*self.source);
        load
    }
}
