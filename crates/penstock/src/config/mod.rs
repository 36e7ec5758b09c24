//! The configuration: defaults, then a TOML file, then `PENSTOCK_…` variables, then flags. One struct per
//! component; the components themselves know nothing about files and variables.

mod check;
mod layers;
mod networks;
mod print;
mod settings;

use std::{
    fmt,
    net::SocketAddr,
    num::NonZeroU32,
    path::{Path, PathBuf},
};

use serde::Deserialize;

pub(crate) use layers::Source;
use layers::{Complaint, Layers};
pub(crate) use networks::Networks;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Config {
    pub(crate) engine: Engine,
    pub(crate) data: PathBuf,
    pub(crate) http: Http,
    pub(crate) identity: Identity,
    pub(crate) gate: Gate,
    pub(crate) ledger: Ledger,
    pub(crate) redis: Redis,
    pub(crate) records: Records,
    pub(crate) settle: Settle,
    pub(crate) log: Log,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Engine {
    Embedded,
    Cluster,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Http {
    pub(crate) listen: SocketAddr,
    pub(crate) workers: usize,
    pub(crate) max_connections: usize,
    pub(crate) max_connections_per_address: usize,
    pub(crate) max_unread_kibibytes_per_connection: usize,
    pub(crate) max_unread_mebibytes: usize,
    pub(crate) trusted_proxies: Networks,
    pub(crate) request_seconds: u64,
    pub(crate) idle_seconds: u64,
    pub(crate) drain_seconds: u64,
    pub(crate) secure_cookies: bool,
    pub(crate) problem_type_base: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Identity {
    pub(crate) secret: Secret,
    pub(crate) previous_secret: Secret,
    pub(crate) admin_token: Secret,
    pub(crate) session_seconds: u32,
    pub(crate) password_hashes_at_once: usize,
    pub(crate) password_core_percent: u32,
    pub(crate) password_hashes_waiting: usize,
    pub(crate) default_country: String,
    pub(crate) codes_in_answers: bool,
    pub(crate) jwt: Jwt,
    pub(crate) codes: Codes,
    pub(crate) limits: Limits,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Jwt {
    pub(crate) secret: Secret,
    pub(crate) public_key: PathBuf,
    pub(crate) issuer: String,
    pub(crate) audience: String,
    pub(crate) leeway_seconds: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Codes {
    pub(crate) lifetime_seconds: u32,
    pub(crate) max_per_window: u32,
    pub(crate) max_per_phone: u32,
    pub(crate) window_seconds: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Limits {
    pub(crate) codes_by_address_burst: NonZeroU32,
    pub(crate) codes_by_address_every_seconds: u64,
    pub(crate) sign_ups_by_address_burst: NonZeroU32,
    pub(crate) sign_ups_by_address_every_seconds: u64,
    pub(crate) sign_ins_by_address_burst: NonZeroU32,
    pub(crate) sign_ins_by_address_every_seconds: u64,
    pub(crate) sign_ins_by_phone_burst: NonZeroU32,
    pub(crate) sign_ins_by_phone_every_seconds: u64,
    pub(crate) sign_ins_by_phone_and_address_burst: NonZeroU32,
    pub(crate) sign_ins_by_phone_and_address_every_seconds: u64,
    pub(crate) sign_ins_by_device_burst: NonZeroU32,
    pub(crate) sign_ins_by_device_every_seconds: u64,
    pub(crate) sign_ins_by_account_burst: NonZeroU32,
    pub(crate) sign_ins_by_account_every_seconds: u64,
    pub(crate) max_keys: usize,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Gate {
    pub(crate) challenge_seconds: u32,
    pub(crate) pow_min_bits: u8,
    pub(crate) pow_max_bits: u8,
    pub(crate) pow_easy_per_second: u32,
    pub(crate) max_used_challenges: usize,
    pub(crate) captcha_pool: usize,
    pub(crate) pass_seconds: u32,
    pub(crate) pass_factor: u32,
    pub(crate) max_passes: usize,
    pub(crate) turn_seconds: u32,
    pub(crate) admissions_per_second: u32,
    pub(crate) limits: GateLimits,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct GateLimits {
    pub(crate) by_buyer_burst: NonZeroU32,
    pub(crate) by_buyer_per_second: NonZeroU32,
    pub(crate) by_address_burst: NonZeroU32,
    pub(crate) by_address_per_second: NonZeroU32,
    pub(crate) reads_by_buyer_burst: NonZeroU32,
    pub(crate) reads_by_buyer_per_second: NonZeroU32,
    pub(crate) reads_by_address_burst: NonZeroU32,
    pub(crate) reads_by_address_per_second: NonZeroU32,
    pub(crate) tickets_by_buyer_burst: NonZeroU32,
    pub(crate) tickets_by_buyer_every_seconds: u64,
    pub(crate) max_keys: usize,
    pub(crate) by_node_burst: NonZeroU32,
    pub(crate) by_node_per_second: NonZeroU32,
    pub(crate) into_ledger_burst: NonZeroU32,
    pub(crate) into_ledger_per_second: NonZeroU32,
    pub(crate) in_flight_min: u32,
    pub(crate) in_flight_max: u32,
    pub(crate) target_latency_milliseconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Ledger {
    pub(crate) max_queued: usize,
    pub(crate) max_batch: usize,
    pub(crate) compact_after_decisions: u64,
    pub(crate) log_mebibytes: usize,
    pub(crate) forget_after_seconds: u64,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Redis {
    pub(crate) mode: RedisMode,
    pub(crate) servers: String,
    pub(crate) sentinel_master: String,
    pub(crate) username: String,
    pub(crate) password: Secret,
    pub(crate) sentinel_password: Secret,
    pub(crate) prefix: String,
    pub(crate) wait_replicas: i64,
    pub(crate) wait_milliseconds: u64,
    pub(crate) timeout_milliseconds: u64,
    pub(crate) allow_unsafe: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum RedisMode {
    Single,
    Sentinel,
    Cluster,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Records {
    pub(crate) url: Secret,
    pub(crate) max_connections: u32,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settle {
    pub(crate) batch: usize,
    pub(crate) max_decisions_per_second: u32,
    pub(crate) poll_milliseconds: u64,
    pub(crate) max_tries: u32,
    pub(crate) backoff_min_milliseconds: u64,
    pub(crate) backoff_max_milliseconds: u64,
    pub(crate) expire_every_milliseconds: u64,
    pub(crate) expire_batch: u32,
    pub(crate) streams_at_once: usize,
    pub(crate) lease_seconds: u32,
    pub(crate) listen: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Log {
    pub(crate) level: String,
    pub(crate) format: LogFormat,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    Text,
    Json,
}

/// A secret that can't get into a log by accident. Empty means unset.
#[derive(Clone, Deserialize)]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn get(&self) -> Option<&str> {
        if self.0.is_empty() { None } else { Some(&self.0) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "unset" } else { "set" })
    }
}

/// The configuration that the command line gives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags<'a> {
    pub(crate) config: Option<&'a Path>,
    pub(crate) data: Option<&'a str>,
    pub(crate) listen: Option<&'a str>,
}

/// All mistakes in a configuration, one per line.
#[derive(Debug)]
pub(crate) struct ConfigError(Vec<Complaint>);

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the configuration has mistakes:")?;
        self.0.iter().try_for_each(|complaint| write!(formatter, "\n  {complaint}"))
    }
}

impl std::error::Error for ConfigError {}

/// A checked configuration, with the source of each value.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    layers: Layers,
}

impl Loaded {
    /// `PENSTOCK_…` variables that do not name a setting.
    pub(crate) fn ignored_variables(&self) -> &[String] {
        self.layers.ignored_variables()
    }

    /// The source of a setting's value.
    pub(crate) fn source(&self, key: &str) -> &Source {
        self.layers.source(key)
    }

    /// Reads the process's variables and the file that the flags name.
    pub(crate) fn from_process(flags: Flags<'_>) -> Result<Self, ConfigError> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::load(flags, variables)
    }

    pub(crate) fn load(
        flags: Flags<'_>,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::defaults();
        if let Some(path) = flags.config {
            layers.add_file(path);
        }
        layers.add_variables(variables);
        layers.add_flag("--data", "data", flags.data);
        layers.add_flag("--listen", "http.listen", flags.listen);
        check::each(&mut layers);
        let complaints = layers.take_complaints();
        if !complaints.is_empty() {
            return Err(ConfigError(complaints));
        }
        let config = Config::deserialize(layers.to_table()).map_err(|error| {
            let problem = error.to_string();
            ConfigError(vec![Complaint { key: String::new(), source: Source::Default, problem }])
        })?;
        check::together(&config, &mut layers);
        let complaints = layers.take_complaints();
        if complaints.is_empty() { Ok(Self { config, layers }) } else { Err(ConfigError(complaints)) }
    }

    /// The effective configuration as commented TOML; it can be used as a configuration file.
    pub(crate) fn to_toml(&self) -> String {
        print::toml(&self.layers)
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        print::json(&self.layers)
    }
}

#[cfg(test)]
mod tests;
