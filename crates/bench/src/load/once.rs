//! A single request on a connection of its own.

use std::{net::SocketAddr, time::Instant};

use anyhow::Context;
use penstock_rush::connection::HttpAnswer;

use super::{LoadOptions, LoadScript, run};

/// The answer to a single request.
#[derive(Clone, Debug)]
pub struct OnceAnswered {
    pub at: Instant,
    pub status: u16,
    pub body: String,
    /// Head and body.
    pub total_bytes: usize,
}

struct OnceScript<'a> {
    request: Option<&'a [u8]>,
    answered: Option<OnceAnswered>,
}

impl LoadScript for OnceScript<'_> {
    fn next_request(&mut self) -> Option<(u64, &[u8])> {
        self.request.take().map(|request| (0, request))
    }

    fn answered(&mut self, _number: u64, answer: &HttpAnswer<'_>) {
        self.answered = Some(OnceAnswered {
            at: Instant::now(),
            status: answer.status,
            body: String::from_utf8_lossy(answer.body).into_owned(),
            total_bytes: answer.total_bytes,
        });
    }
}

pub fn ask_once(address: SocketAddr, request: &[u8]) -> anyhow::Result<OnceAnswered> {
    let once = OnceScript { request: Some(request), answered: None };
    let outcome = run(&LoadOptions::new(address, 1), once)?;
    outcome.script.answered.with_context(|| format!("no answer from {address}"))
}
