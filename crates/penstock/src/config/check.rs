//! Refuses values that are out of bounds, alone or together.

use std::net::SocketAddr;

use toml::Value;
use tracing_subscriber::EnvFilter;

use super::{
    Config, Networks,
    layers::Layers,
    settings::{Rule, SETTINGS},
};

/// Checks each value against the rule of its setting.
pub(super) fn each(layers: &mut Layers) {
    for setting in SETTINGS {
        let problem = match layers.value(setting.key) {
            Some(Value::Integer(number)) => number_problem(setting.rule, *number),
            Some(Value::String(text)) => text_problem(setting.rule, text),
            _ => None,
        };
        if let Some(problem) = problem {
            let source = layers.source(setting.key).clone();
            layers.complain(setting.key, &source, problem);
        }
    }
}

fn number_problem(rule: Rule, number: i64) -> Option<String> {
    match rule {
        Rule::Between(min, max) if !(min..=max).contains(&number) => {
            Some(format!("{number} is out of bounds; it has to be {min} to {max}"))
        }
        _ => None,
    }
}

fn text_problem(rule: Rule, text: &str) -> Option<String> {
    match rule {
        Rule::Address if text.parse::<SocketAddr>().is_err() => {
            Some(format!("{text:?} is not an address such as 127.0.0.1:8080"))
        }
        Rule::Networks => text.parse::<Networks>().err().map(|error| error.to_string()),
        Rule::OneOf(choices) if !choices.contains(&text) => {
            Some(format!("{text:?} is none of {}", choices.join(", ")))
        }
        Rule::LogFilter => match text.parse::<EnvFilter>() {
            Ok(_) if !text.trim().is_empty() => None,
            Ok(_) => Some("is empty; info is the default".to_owned()),
            Err(error) => Some(format!("{text:?} is not a log filter: {error}")),
        },
        // A header can't carry them otherwise.
        Rule::Secret if !text.chars().all(|character| character.is_ascii_graphic()) => {
            Some("has to consist of visible ASCII characters without spaces".to_owned())
        }
        _ => None,
    }
}

/// Checks limits against each other.
pub(super) fn together(config: &Config, layers: &mut Layers) {
    let mut require = |fine: bool, key: &str, problem: String| {
        if !fine {
            let source = layers.source(key).clone();
            layers.complain(key, &source, problem);
        }
    };
    require(!config.data.as_os_str().is_empty(), "data", "has to name a folder".to_owned());
    let ledger = &config.ledger;
    require(
        ledger.max_batch <= ledger.max_queued,
        "ledger.max_batch",
        format!("{} is more than ledger.max_queued ({}) can hold", ledger.max_batch, ledger.max_queued),
    );
    let gate = &config.gate;
    require(
        gate.pow_min_bits <= gate.pow_max_bits,
        "gate.pow_min_bits",
        format!("{} is more than gate.pow_max_bits ({})", gate.pow_min_bits, gate.pow_max_bits),
    );
    let limits = &gate.limits;
    require(
        limits.in_flight_min <= limits.in_flight_max,
        "gate.limits.in_flight_min",
        format!("{} is more than gate.limits.in_flight_max ({})", limits.in_flight_min, limits.in_flight_max),
    );
    let identity = &config.identity;
    require(
        identity.previous_secret.get().is_none() || identity.secret.get().is_some(),
        "identity.previous_secret",
        "needs identity.secret: the secret in the data folder is rotated with `penstock admin rotate-secret`"
            .to_owned(),
    );
    let jwt = &config.identity.jwt;
    require(
        jwt.secret.get().is_none() || jwt.public_key.as_os_str().is_empty(),
        "identity.jwt.public_key",
        "excludes identity.jwt.secret: a shop signs with one or the other".to_owned(),
    );
    let settle = &config.settle;
    require(
        settle.batch as u64 <= u64::from(settle.max_decisions_per_second),
        "settle.batch",
        format!(
            "{} is more than settle.max_decisions_per_second ({}) lets through in a second",
            settle.batch, settle.max_decisions_per_second
        ),
    );
    require(
        settle.backoff_min_milliseconds <= settle.backoff_max_milliseconds,
        "settle.backoff_min_milliseconds",
        format!(
            "{} is more than settle.backoff_max_milliseconds ({})",
            settle.backoff_min_milliseconds, settle.backoff_max_milliseconds
        ),
    );
}
