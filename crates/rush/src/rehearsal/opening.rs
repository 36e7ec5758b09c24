//! The server's clock, as far as it can be told from here: buyers press when the server opens, not when we think
//! it does.

use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::{Api, text};

/// The look with the shortest way there and back tells the time best.
const LOOKS: usize = 9;

/// What time it was at the server at a moment of ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    at: Instant,
    time: Timestamp,
}

impl ServerClock {
    /// `look` gives the sale as the server shows it now.
    pub(super) fn read(look: impl Fn() -> anyhow::Result<Value>) -> anyhow::Result<Self> {
        let mut best: Option<(Duration, Self)> = None;
        for _ in 0..LOOKS {
            let sent_at = Instant::now();
            let terms = look()?;
            let took = sent_at.elapsed();
            let time = timestamp(&terms, "server_time")?;
            if best.is_none_or(|(shortest, _)| took < shortest) {
                best = Some((took, Self { at: sent_at + took / 2, time }));
            }
        }
        best.map(|(_, clock)| clock).context("the server's clock was not read")
    }

    /// Our moment of the sale's opening. One without an opening is open from the start.
    pub(super) fn opening(&self, terms: &Value) -> anyhow::Result<Instant> {
        if terms.get("opens_at").is_none_or(Value::is_null) {
            return Ok(self.at);
        }
        let from_now: SignedDuration = timestamp(terms, "opens_at")?.duration_since(self.time);
        let moment = match Duration::try_from(from_now) {
            Ok(ahead) => self.at.checked_add(ahead),
            // It has opened already, and the rehearsal begins when it begins.
            Err(_) => Some(self.at),
        };
        moment.context("the sale opens too far in the future")
    }

    /// The moment of the reading, by the server's clock.
    pub(super) fn read_at(&self) -> String {
        self.time.to_string()
    }
}

fn timestamp(terms: &Value, field: &str) -> anyhow::Result<Timestamp> {
    let text = text(terms, field)?;
    text.parse().with_context(|| format!("{field} is no time: {text}"))
}

/// The server's time to the second, from the head of an answer.
pub(super) fn server_date(api: &Api) -> anyhow::Result<Timestamp> {
    let date = api.date()?;
    let parsed =
        jiff::fmt::rfc2822::parse(&date).with_context(|| format!("the server's date is {date:?}"))?;
    Ok(parsed.timestamp())
}
