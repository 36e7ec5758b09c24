//! Turns the configuration into the options of each component.

use std::{fs, num::NonZeroU32, path::PathBuf, sync::Arc, time::Duration};

use anyhow::Context as _;
use penstock_gate::{LimitOptions, SheddingOptions};
use penstock_http::ServerOptions;
use penstock_ledger::{BatcherOptions, Clock, embedded::EmbeddedOptions, redis::LedgerOptions};
use penstock_redis_client::{RedisMode, RedisOptions};
use penstock_settle::{SettleOptions, SettleStats};
use penstock_shop::{
    Secrets, SettlementView, ShopOptions,
    gate::{GateOptions, Rate, RoomsInMemory},
    identity::{IdentityOptions, JwtKey, JwtOptions, LogSender, OneTimeCodeOptions},
    ports::{NoNeighbours, NoSharedCache, NoSharedFigures},
};
use tokio::sync::watch;

use crate::{
    config::{Config, EngineKind, IdentitySettings, JwtSettings, RedisTopology},
    folder,
};

/// Shorter secrets can be guessed; RFC 7518 requires as much for HS256.
const GOOD_SECRET_BYTES: usize = 32;
const GOOD_TOKEN_BYTES: usize = 16;
/// How often a settlement worker looks for sales that have something to settle.
const DISCOVER_EVERY: Duration = Duration::from_millis(200);

pub(crate) fn server(
    config: &Config,
    secrets: watch::Receiver<Secrets>,
    clock: Clock,
) -> anyhow::Result<ServerOptions> {
    let http = &config.http;
    Ok(ServerOptions {
        listen: http.listen,
        workers: http.workers,
        secure_cookies: http.secure_cookies,
        codes_in_answers: config.identity.codes_in_answers,
        max_connections: http.max_connections,
        max_connections_per_address: http.max_connections_per_address,
        max_unread_bytes_per_connection: http.max_unread_kibibytes_per_connection << 10,
        max_unread_bytes: http.max_unread_mebibytes << 20,
        trusted_proxies: http.trusted_proxies.clone(),
        request_timeout: Duration::from_secs(http.request_seconds),
        idle_timeout: Duration::from_secs(http.idle_seconds),
        drain_timeout: Duration::from_secs(http.drain_seconds),
        problem_type_base: http.problem_type_base.clone(),
        pages: penstock_pages::FILES,
        shop: ShopOptions {
            clock,
            secrets,
            is_secret_in_doubt: Arc::default(),
            identity: identity(&config.identity)?,
            gate: gate(config),
            settlement: Arc::new(SettlementView::default),
            // For a single node.
            node: String::new(),
            neighbours: Arc::new(NoNeighbours),
            shared_cache: Arc::new(NoSharedCache),
            shared_figures: Arc::new(NoSharedFigures),
            parts: Vec::new(),
        },
    })
}

fn identity(identity: &IdentitySettings) -> anyhow::Result<IdentityOptions> {
    warn_of_short_secrets(identity);
    let limits = &identity.limits;
    let limit = |burst: NonZeroU32, every_seconds: u64| LimitOptions {
        burst,
        one_per: Duration::from_secs(every_seconds),
        max_keys: limits.max_keys,
    };
    Ok(IdentityOptions {
        session_seconds: identity.session_seconds,
        admin_token: identity.admin_token.get().map(str::to_owned),
        jwt: jwt(&identity.jwt)?,
        one_time_codes: OneTimeCodeOptions {
            lifetime_seconds: identity.codes.lifetime_seconds,
            max_per_window: identity.codes.max_per_window,
            max_per_phone: identity.codes.max_per_phone,
            window_seconds: identity.codes.window_seconds,
        },
        code_sender: Arc::new(LogSender),
        default_country: identity.default_country,
        otp_by_address: limit(limits.codes_by_address_burst, limits.codes_by_address_every_seconds),
        sign_up_by_address: limit(limits.sign_ups_by_address_burst, limits.sign_ups_by_address_every_seconds),
        sign_in_by_address: limit(limits.sign_ins_by_address_burst, limits.sign_ins_by_address_every_seconds),
        sign_in_by_phone: limit(limits.sign_ins_by_phone_burst, limits.sign_ins_by_phone_every_seconds),
        sign_in_by_phone_and_address: limit(
            limits.sign_ins_by_phone_and_address_burst,
            limits.sign_ins_by_phone_and_address_every_seconds,
        ),
        sign_in_by_device: limit(limits.sign_ins_by_device_burst, limits.sign_ins_by_device_every_seconds),
        sign_in_by_account: limit(limits.sign_ins_by_account_burst, limits.sign_ins_by_account_every_seconds),
        password_core_percent: identity.password_core_percent,
        password_hashes_at_once: identity.password_hashes_at_once,
        password_hashes_waiting: identity.password_hashes_waiting,
    })
}

fn warn_of_short_secrets(identity: &IdentitySettings) {
    let secrets = [
        ("identity.secret", &identity.secret, GOOD_SECRET_BYTES),
        ("identity.previous_secret", &identity.previous_secret, GOOD_SECRET_BYTES),
        ("identity.jwt.secret", &identity.jwt.secret, GOOD_SECRET_BYTES),
        ("identity.admin_token", &identity.admin_token, GOOD_TOKEN_BYTES),
    ];
    for (setting, secret, good_bytes) in secrets {
        if secret.get().is_some_and(|secret| secret.len() < good_bytes) {
            tracing::warn!(
                setting,
                good_bytes,
                "this secret is short enough to be guessed; use it for rehearsals only"
            );
        }
    }
}

fn gate(config: &Config) -> GateOptions {
    let (gate, limits) = (&config.gate, &config.gate.limits);
    let limit =
        |burst: NonZeroU32, one_per: Duration| LimitOptions { burst, one_per, max_keys: limits.max_keys };
    let each = |per_second: NonZeroU32| Duration::from_secs(1) / per_second.get();
    GateOptions {
        challenge_seconds: gate.challenge_seconds,
        pow_min_bits: gate.pow_min_bits,
        pow_max_bits: gate.pow_max_bits,
        pow_easy_per_second: gate.pow_easy_per_second,
        max_used_challenges: gate.max_used_challenges,
        captcha_pool: gate.captcha_pool,
        pass_seconds: gate.pass_seconds,
        pass_factor: gate.pass_factor,
        max_passes: gate.max_passes,
        turn_seconds: gate.turn_seconds,
        admissions_per_second: gate.admissions_per_second,
        // Set by the code that assembles an engine.
        doors: None,
        room_store: Arc::new(RoomsInMemory::default()),
        by_buyer: limit(limits.by_buyer_burst, each(limits.by_buyer_per_second)),
        by_address: limit(limits.by_address_burst, each(limits.by_address_per_second)),
        reads_by_buyer: limit(limits.reads_by_buyer_burst, each(limits.reads_by_buyer_per_second)),
        reads_by_address: limit(limits.reads_by_address_burst, each(limits.reads_by_address_per_second)),
        tickets_by_buyer: limit(
            limits.tickets_by_buyer_burst,
            Duration::from_secs(limits.tickets_by_buyer_every_seconds),
        ),
        by_node: Rate { burst: limits.by_node_burst, per_second: limits.by_node_per_second },
        into_ledger: Rate { burst: limits.into_ledger_burst, per_second: limits.into_ledger_per_second },
        in_flight: SheddingOptions {
            min: limits.in_flight_min,
            max: limits.in_flight_max,
            // The first burst is let in whole: the ledger refuses most of it in a moment, which is better
            // than telling people to come back. A load that lasts brings the limit down within a second.
            initial: limits.in_flight_max,
            target_latency: Duration::from_millis(limits.target_latency_milliseconds),
        },
    }
}

fn jwt(jwt: &JwtSettings) -> anyhow::Result<Option<JwtOptions>> {
    let key = match (jwt.secret.get(), &jwt.public_key) {
        (Some(secret), _) => JwtKey::Secret(secret.as_bytes().to_vec()),
        (None, Some(file)) => {
            let pem = fs::read_to_string(file);
            let pem =
                pem.with_context(|| format!("identity.jwt.public_key: {} can't be read", file.display()))?;
            JwtKey::PublicKeyPem(pem)
        }
        (None, None) => return Ok(None),
    };
    let (issuer, audience) = (jwt.issuer.clone(), jwt.audience.clone());
    Ok(Some(JwtOptions { key, issuer, audience, leeway_seconds: jwt.leeway_seconds }))
}

pub(crate) fn journal_folder(config: &Config) -> PathBuf {
    config.data.join(folder::JOURNAL_FOLDER)
}

fn batcher(config: &Config) -> BatcherOptions {
    BatcherOptions { max_queued: config.ledger.max_queued, max_batch: config.ledger.max_batch }
}

/// The options for connecting to Redis.
pub(crate) fn redis(config: &Config) -> RedisOptions {
    let redis = &config.redis;
    let servers = redis.servers.to_vec();
    let mode = match redis.mode {
        RedisTopology::Single => RedisMode::Single { address: servers.concat() },
        RedisTopology::Sentinel => {
            RedisMode::Sentinel { addresses: servers, master: redis.sentinel_master.clone() }
        }
        RedisTopology::Cluster => RedisMode::Cluster { addresses: servers },
    };
    let usual_replicas = u32::from(redis.mode != RedisTopology::Single);
    RedisOptions {
        mode,
        username: redis.username.clone(),
        password: redis.password.get().map(str::to_owned),
        sentinel_password: redis.sentinel_password.get().map(str::to_owned),
        wait_replicas: u32::try_from(redis.wait_replicas).unwrap_or(usual_replicas),
        wait_milliseconds: redis.wait_milliseconds,
        timeout: Duration::from_millis(redis.timeout_milliseconds),
        allow_unsafe: redis.allow_unsafe,
    }
}

pub(crate) fn redis_ledger(config: &Config) -> LedgerOptions {
    let forget_after_seconds = config.ledger.forget_after_seconds;
    LedgerOptions { batcher: batcher(config), prefix: config.redis.prefix.clone(), forget_after_seconds }
}

pub(crate) fn embedded(config: &Config) -> EmbeddedOptions {
    let ledger = &config.ledger;
    EmbeddedOptions {
        folder: journal_folder(config),
        batcher: batcher(config),
        compact_after_decisions: ledger.compact_after_decisions,
        log_bytes: ledger.log_mebibytes << 20,
    }
}

pub(crate) fn settle(config: &Config) -> SettleOptions {
    let settle = &config.settle;
    SettleOptions {
        batch: settle.batch,
        max_decisions_per_second: settle.max_decisions_per_second,
        // A cluster's ledger has its own disks.
        hold_back: config.engine == EngineKind::Embedded,
        discover_every: DISCOVER_EVERY,
        max_streams: settle.streams_at_once,
        lease_seconds: settle.lease_seconds,
        owner: None,
        poll_interval: Duration::from_millis(settle.poll_milliseconds),
        max_tries: settle.max_tries,
        backoff_min: Duration::from_millis(settle.backoff_min_milliseconds),
        backoff_max: Duration::from_millis(settle.backoff_max_milliseconds),
        expire_every: Duration::from_millis(settle.expire_every_milliseconds),
        expire_batch: settle.expire_batch,
    }
}

/// What the metrics show of settlement.
pub(crate) fn settlement_view(stats: SettleStats) -> Arc<dyn Fn() -> SettlementView + Send + Sync> {
    Arc::new(move || {
        let figures = stats.read();
        SettlementView {
            position: figures.position,
            lag_decisions: figures.lag_decisions,
            lag_seconds: figures.lag_seconds,
            retries: figures.retries,
            dead_letters: figures.dead_letters,
            expired: figures.expired,
            violations: figures.violations,
            takeovers: figures.takeovers,
            diverged: figures.diverged,
            trouble: figures.trouble,
        }
    })
}
