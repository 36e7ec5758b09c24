//! Refuses values that contradict each other.

use super::{Config, EngineKind, RedisTopology, layers::Layers};

/// Checks limits against each other.
pub(super) fn together(config: &Config, layers: &mut Layers) {
    let mut require = |fine: bool, key: &str, problem: String| {
        if !fine {
            layers.refuse(key, problem);
        }
    };
    require(!config.data.as_os_str().is_empty(), "data", "has to name a folder".to_owned());
    let url = config.records.url.get();
    require(
        config.engine == EngineKind::Embedded || url.is_some_and(|url| url.starts_with("mysql://")),
        "records.url",
        "has to name the database of a cluster, such as mysql://user:password@host:3306/penstock".to_owned(),
    );
    require(
        config.engine == EngineKind::Cluster || url.is_none(),
        "records.url",
        "is for a cluster: set engine to cluster, or leave it out".to_owned(),
    );
    let redis = &config.redis;
    require(
        redis.mode != RedisTopology::Single || redis.servers.len() == 1,
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
    let identity = &config.identity;
    require(
        identity.previous_secret.get().is_none() || identity.secret.get().is_some(),
        "identity.previous_secret",
        "needs identity.secret: the secret in the data folder is rotated with `penstock admin rotate-secret`"
            .to_owned(),
    );
    let jwt = &config.identity.jwt;
    require(
        jwt.secret.get().is_none() || jwt.public_key.is_none(),
        "identity.jwt.public_key",
        "can't be set together with identity.jwt.secret: set one of them".to_owned(),
    );
    for (key, limiting, allows) in [
        ("ledger.max_batch", "ledger.max_queued", " can hold"),
        ("gate.pow_min_bits", "gate.pow_max_bits", ""),
        ("gate.limits.in_flight_min", "gate.limits.in_flight_max", ""),
        ("settle.batch", "settle.max_decisions_per_second", " lets through in a second"),
        ("settle.backoff_min_milliseconds", "settle.backoff_max_milliseconds", ""),
    ] {
        let (value, limit) = (layers.number(key), layers.number(limiting));
        if value > limit {
            layers.refuse(key, format!("{value} is more than {limiting} ({limit}){allows}"));
        }
    }
}
