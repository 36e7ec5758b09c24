//! Refuses values that are out of bounds, alone or in combination.

use std::net::SocketAddr;

use penstock_shop::identity::Country;
use toml::Value;
use tracing_subscriber::EnvFilter;

use super::{
    Config, Engine, Networks, RedisMode,
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
        Rule::OptionalAddress if !text.is_empty() => text_problem(Rule::Address, text),
        Rule::Networks => text.parse::<Networks>().err().map(|error| error.to_string()),
        Rule::Servers => servers_problem(text),
        Rule::Country => text.parse::<Country>().err().map(|error| format!("{text:?} {error}")),
        Rule::OneOf(choices) if !choices.contains(&text) => {
            Some(format!("{text:?} is not one of {}", choices.join(", ")))
        }
        Rule::LogFilter => match text.parse::<EnvFilter>() {
            Ok(_) if !text.trim().is_empty() => None,
            Ok(_) => Some("is empty; info is the default".to_owned()),
            Err(error) => Some(format!("{text:?} is not a log filter: {error}")),
        },
        // Otherwise a header can't carry it.
        Rule::Secret if !text.chars().all(|character| character.is_ascii_graphic()) => {
            Some("has to consist of visible ASCII characters without spaces".to_owned())
        }
        _ => None,
    }
}

fn servers_problem(text: &str) -> Option<String> {
    let is_server = |server: &str| {
        let port = server.trim().rsplit_once(':').filter(|(host, _)| !host.is_empty());
        port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0))
    };
    let wrong = text.split(',').find(|server| !is_server(server))?;
    Some(format!("{:?} is not a server such as 10.0.0.5:6379", wrong.trim()))
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
    let url = config.records.url.get();
    require(
        config.engine == Engine::Embedded || url.is_some_and(|url| url.starts_with("mysql://")),
        "records.url",
        "has to name the database of a cluster, such as mysql://user:password@host:3306/penstock".to_owned(),
    );
    require(
        config.engine == Engine::Cluster || url.is_none(),
        "records.url",
        "is for a cluster: set engine to cluster, or leave it out".to_owned(),
    );
    let redis = &config.redis;
    require(
        redis.mode != RedisMode::Single || !redis.servers.contains(','),
        "redis.servers",
        "names several servers; redis.mode single takes one".to_owned(),
    );
    require(
        redis.wait_milliseconds < redis.timeout_milliseconds,
        "redis.wait_milliseconds",
        format!(
            "{} has to be less than redis.timeout_milliseconds ({})",
            redis.wait_milliseconds, redis.timeout_milliseconds
        ),
    );
    // A Redis Cluster derives the slot from the text between braces: all sales would be on one server.
    require(
        !redis.prefix.contains(['{', '}']),
        "redis.prefix",
        format!("{:?} has a brace; leave it out", redis.prefix),
    );
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
        "can't be set together with identity.jwt.secret: set one of them".to_owned(),
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
