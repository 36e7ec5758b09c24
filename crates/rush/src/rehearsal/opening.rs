//! Reads the server's clock from outside: buyers press when the server opens the sale, which it does by its
//! own clock.

use std::time::{Duration, Instant};

use anyhow::Context;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use crate::api::{ShopApi, text};

/// The most looks at the sale; the look with the shortest round trip tells the time best.
const LOOKS: usize = 9;

/// What the server's clock showed at a moment of our own.
#[derive(Clone, Copy, Debug)]
pub(super) struct ServerClock {
    at: Instant,
    time: Timestamp,
}

impl ServerClock {
    /// `look` returns the sale as the server shows it now.
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

    /// The moment of the sale's opening by our clock. A sale without an opening time is open from the start.
    pub(super) fn opening(&self, terms: &Value) -> anyhow::Result<Instant> {
        if terms.get("opens_at").is_none_or(Value::is_null) {
            return Ok(self.at);
        }
        let from_now: SignedDuration = timestamp(terms, "opens_at")?.duration_since(self.time);
        let moment = match Duration::try_from(from_now) {
            Ok(ahead) => self.at.checked_add(ahead),
            // The sale is open already, so the run counts from the start of the rehearsal.
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
    text.parse().with_context(|| format!("{field} is not a time: {text}"))
}

/// The server's time to the second, from the head of an answer.
pub(super) fn server_date(api: &ShopApi) -> anyhow::Result<Timestamp> {
    let date = api.date()?;
    let parsed =
        jiff::fmt::rfc2822::parse(&date).with_context(|| format!("the server's date is {date:?}"))?;
    Ok(parsed.timestamp())
}
