//! All settings. Each stands once, as `name: type = default, bounds;` below what `penstock config` says about
//! it. They are in the order in which they are printed.

use std::{net::SocketAddr, num::NonZeroU32, path::PathBuf};

use ipnet::IpNet;
use penstock_shop::identity::Country;

use super::{
    layers::Layers,
    table::{Setting, bounds, key, settings},
    types::{EngineKind, LogFilter, LogFormat, RedisTopology, Secret, ServerList},
};

const MILLION: i64 = 1_000_000;
const DAY_SECONDS: i64 = 24 * 3600;

settings! {
    /// Everything that can be configured.
    "" Config {
        /// embedded: one process with a data folder. cluster: any number of nodes on Redis and MySQL.
        engine: EngineKind = "embedded";
        /// The folder that holds everything of the embedded engine: journal, records and secret.
        data: PathBuf = "./data";
        sections {
            http: HttpSettings,
            identity: IdentitySettings,
            gate: GateSettings,
            ledger: LedgerSettings,
            redis: RedisSettings,
            records: RecordsSettings,
            settle: SettleSettings,
            log: LogSettings,
        }
    }

    /// The API.
    "http" HttpSettings {
        /// Address to listen on. Port 0 takes any free port.
        listen: SocketAddr = "127.0.0.1:8080";
        /// Threads that serve requests; 0 is one for each core.
        workers: usize = 0, 0..=1024;
        /// The most connections open at once. When all are taken, a new one replaces a connection that is
        /// idle, does not finish its request or does not read its answers; if there is none, it waits.
        max_connections: usize = 65_536, 1..=16 * MILLION;
        /// The most open connections from one address (IPv6: from one /56); a further one is closed. Loopback
        /// and trusted proxies are exempt.
        max_connections_per_address: usize = 1_024, 1..=16 * MILLION;
        /// The most answers that wait for one client to read them. Until it reads, no more of its requests
        /// are handled.
        max_unread_kibibytes_per_connection: usize = 64, 1..=65_536;
        /// The most memory for answers that clients have not read, and again for requests that have not
        /// arrived in full. When it is full, connections are cut: those whose clients have read nothing for
        /// longest, and those that send requests ahead or have waited longest for the rest of one.
        max_unread_mebibytes: usize = 256, 1..=MILLION;
        /// Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses or networks such as
        /// 10.0.0.0/8, separated by commas.
        trusted_proxies: Vec<IpNet> = "";
        /// How long a request may take to arrive; then it gets 408.
        request_seconds: u64 = 10, 1..=3600;
        /// How long a connection may stay open without completing a request or reading 64 KiB or all of an
        /// answer.
        idle_seconds: u64 = 75, 1..=3600;
        /// How long a stop waits for requests that are under way.
        drain_seconds: u64 = 30, 0..=3600;
        /// Mark every session cookie Secure, for servers reached by HTTPS only. If false, a trusted proxy's
        /// X-Forwarded-Proto decides.
        secure_cookies: bool = false;
        /// What a problem's type begins with.
        problem_type_base: String = "/errors/";
    }

    /// Buyers and merchants: how they prove who they are. Secrets are never printed.
    "identity" IdentitySettings {
        /// Signs sessions, passes and tickets. Also PENSTOCK_SECRET. Unset: made once, and kept in the data
        /// folder or in a cluster's database.
        secret: Secret = "";
        /// The secret before the current one; what it signed stays valid. Also PENSTOCK_PREVIOUS_SECRET.
        previous_secret: Secret = "";
        /// A bearer token with the admin role. Also PENSTOCK_ADMIN_TOKEN. Unset: there is none.
        admin_token: Secret = "";
        /// How long a sign-in lasts.
        session_seconds: u32 = 30 * DAY_SECONDS, 60..=365 * DAY_SECONDS;
        /// Threads that hash passwords. Each takes 19 MiB of memory at its first password, and keeps it.
        password_hashes_at_once: usize = 2, 1..=1024;
        /// The share of all cores that hashing passwords may take, in percent, after a burst of two seconds
        /// on one core.
        password_core_percent: u32 = 25, 1..=100;
        /// Sign-ins from unknown devices that may wait to be hashed, as many from known devices, and as many
        /// sign-ups. When a queue is full, the address with the most waiting gets 503 busy.
        password_hashes_waiting: usize = 64, 0..=65_536;
        /// The country of phone numbers that come without a country code, such as CN, DE or US. Buyers can
        /// choose another one.
        default_country: Country = "CN";
        /// Show a one-time code to the client that asks for it, so that any phone can be signed up: for
        /// rehearsals and demos only.
        codes_in_answers: bool = false;
        sections { jwt: JwtSettings, codes: CodeSettings, limits: IdentityLimits }
    }

    /// For a shop that has its own users and signs them in with its own tokens.
    "identity.jwt" JwtSettings {
        /// Verifies a shop's own JWTs (HS256). Unset: no such token is accepted.
        secret: Secret = "";
        /// File with the PEM public key that verifies a shop's own JWTs (EdDSA or RS256). Empty: no such
        /// token is accepted.
        public_key: Option<PathBuf> = "";
        /// What `iss` has to be. Empty: anything.
        issuer: Option<String> = "";
        /// What `aud` has to contain. Empty: anything.
        audience: Option<String> = "";
        /// How far the shop's clock may be off.
        leeway_seconds: u32 = 0, 0..=300;
    }

    /// One-time codes, which prove that a phone is the buyer's.
    "identity.codes" CodeSettings {
        /// How long a one-time code is valid.
        lifetime_seconds: u32 = 300, 30..=3600;
        /// Codes per window from one address to one phone.
        max_per_window: u32 = 5, 1..=1_000;
        /// Codes per window from all addresses to one phone. The last half of them is for addresses that have
        /// had no more than one.
        max_per_phone: u32 = 20, 2..=10_000;
        /// How long a window lasts.
        window_seconds: u32 = 3600, 60..=DAY_SECONDS;
    }

    /// Slow down guessing. Limits per address don't apply to loopback.
    "identity.limits" IdentityLimits {
        /// One-time codes that one address may ask for at once.
        codes_by_address_burst: NonZeroU32 = 10, 1..=MILLION;
        /// After that, seconds until the address may ask for one more.
        codes_by_address_every_seconds: u64 = 30, 1..=3600;
        /// Sign-ups per address at once.
        sign_ups_by_address_burst: NonZeroU32 = 30, 1..=MILLION;
        /// After that, seconds until the address may make one more.
        sign_ups_by_address_every_seconds: u64 = 5, 1..=3600;
        /// Sign-ins per address at once.
        sign_ins_by_address_burst: NonZeroU32 = 30, 1..=MILLION;
        /// After that, seconds until the address may make one more.
        sign_ins_by_address_every_seconds: u64 = 5, 1..=3600;
        /// Wrong passwords for one account that all strangers together may send at once. A stranger is a
        /// device that has not signed in to the account before.
        sign_ins_by_phone_burst: NonZeroU32 = 50, 1..=MILLION;
        /// After that, seconds until strangers may send one more.
        sign_ins_by_phone_every_seconds: u64 = 60, 1..=3600;
        /// Wrong passwords for one account that strangers at one address may send at once.
        sign_ins_by_phone_and_address_burst: NonZeroU32 = 10, 1..=MILLION;
        /// After that, seconds until strangers at this address may send one more.
        sign_ins_by_phone_and_address_every_seconds: u64 = 600, 1..=DAY_SECONDS;
        /// Wrong passwords that a device may send at once for an account that it has signed in to before.
        sign_ins_by_device_burst: NonZeroU32 = 10, 1..=MILLION;
        /// After that, seconds until the device may send one more.
        sign_ins_by_device_every_seconds: u64 = 30, 1..=3600;
        /// Passwords, right or wrong, that may be sent at once for an account from all devices that have
        /// signed in to it before.
        sign_ins_by_account_burst: NonZeroU32 = 30, 1..=MILLION;
        /// After that, seconds until they may send one more. Make it shorter than for one device, so that a
        /// stolen device leaves the others some tries.
        sign_ins_by_account_every_seconds: u64 = 20, 1..=3600;
        /// Addresses or phones that each limit remembers.
        max_keys: usize = 100_000, 1_000..=100 * MILLION;
    }

    /// Challenges, passes and waiting rooms, for sales that ask for them.
    "gate" GateSettings {
        /// How long a challenge is valid.
        challenge_seconds: u32 = 120, 10..=3600;
        /// Zero bits that a proof of work begins with at low demand.
        pow_min_bits: u8 = 14, 1..=32;
        /// The most zero bits that a proof of work begins with.
        pow_max_bits: u8 = 20, 1..=32;
        /// Challenges a second up to which demand is low; each doubling beyond that adds a bit.
        pow_easy_per_second: u32 = 100, 1..=MILLION;
        /// Used challenges that are remembered until they expire; requests beyond that get 503 busy.
        max_used_challenges: usize = MILLION, 1_000..=100 * MILLION;
        /// Captcha pictures that are drawn ahead, about 5 KB each.
        captcha_pool: usize = 500, 10..=100_000;
        /// How long a pass is valid.
        pass_seconds: u32 = 120, 5..=3600;
        /// Passes that people may hold at once for each unit that is left. A pass not used within an eighth
        /// of its time no longer counts.
        pass_factor: u32 = 5, 1..=1_000;
        /// The most passes of one sale that people may hold at once, whatever its units; requests beyond that
        /// get 503 busy.
        max_passes: usize = MILLION, 1_000..=100 * MILLION;
        /// How long an admitted ticket may take to get its pass, and how long somebody who was away may take
        /// to come back.
        turn_seconds: u32 = 60, 5..=3600;
        /// The most tickets of a sale admitted per second.
        admissions_per_second: u32 = 1_000, 1..=MILLION;
        sections { limits: GateLimitSettings }
    }

    /// For all sales. Limits per address don't apply to loopback.
    "gate.limits" GateLimitSettings {
        /// Calls at the gate, including orders and payments, that one buyer may make at once.
        by_buyer_burst: NonZeroU32 = 200, 1..=MILLION;
        /// After that, calls per second; more get 429.
        by_buyer_per_second: NonZeroU32 = 20, 1..=MILLION;
        /// The same calls that one address may make at once.
        by_address_burst: NonZeroU32 = 2_000, 1..=MILLION;
        /// After that, calls by one address per second; more get 429.
        by_address_per_second: NonZeroU32 = 500, 1..=MILLION;
        /// Reads of their own orders and account that one buyer may make at once.
        reads_by_buyer_burst: NonZeroU32 = 1_000, 1..=MILLION;
        /// After that, reads per second; more get 429.
        reads_by_buyer_per_second: NonZeroU32 = 100, 1..=MILLION;
        /// The same reads by one address at once, including those of tickets.
        reads_by_address_burst: NonZeroU32 = 10_000, 1..=MILLION;
        /// After that, reads per second.
        reads_by_address_per_second: NonZeroU32 = 2_000, 1..=MILLION;
        /// Tickets of one sale that one buyer may take at once; each is a chance in the draw.
        tickets_by_buyer_burst: NonZeroU32 = 5, 1..=MILLION;
        /// After that, seconds until the buyer may take one more.
        tickets_by_buyer_every_seconds: u64 = 600, 1..=DAY_SECONDS;
        /// Buyers and addresses that a limit tells apart; beyond that, the one that has been quiet longest is
        /// forgotten.
        max_keys: usize = 100_000, 1_000..=100 * MILLION;
        /// Calls at the gate that one node takes at once from everybody together.
        by_node_burst: NonZeroU32 = 50_000, 1..=100 * MILLION;
        /// After that, calls per second.
        by_node_per_second: NonZeroU32 = 500_000, 1..=100 * MILLION;
        /// Orders entering the ledger at once.
        into_ledger_burst: NonZeroU32 = 20_000, 1..=100 * MILLION;
        /// After that, orders per second; more get 503 busy.
        into_ledger_per_second: NonZeroU32 = 200_000, 1..=100 * MILLION;
        /// The limit on orders being decided at once, for each Redis master, never stays below this. Only a
        /// trial of a lower limit goes down to half of it for a moment.
        in_flight_min: u32 = 64, 1..=MILLION;
        /// The limit never rises above this.
        in_flight_max: u32 = 32_768, 1..=MILLION;
        /// The limit falls when deciding takes longer than this and fewer orders at once are decided sooner.
        target_latency_milliseconds: u64 = 50, 1..=60_000;
    }

    /// The only authority on stock.
    "ledger" LedgerSettings {
        /// Commands that may wait for the ledger; more are answered 503 busy.
        max_queued: usize = 65_536, 1..=16 * MILLION;
        /// The most commands that one group commit decides.
        max_batch: usize = 4_096, 1..=MILLION;
        /// Decisions after which the journal is compacted, so that a start stays quick.
        compact_after_decisions: u64 = 250_000, 10..=1_000 * MILLION;
        /// Room on the disk that the journal's log takes from the start. A full disk does not stop the ledger
        /// before this is used up.
        log_mebibytes: usize = 32, 1..=4_096;
        /// Cluster: how long Redis keeps a sale's orders after the sale is closed and settled. After that,
        /// only the records have them.
        forget_after_seconds: u32 = DAY_SECONDS, 0..=365 * DAY_SECONDS;
    }

    /// Where a cluster keeps its ledger and what its nodes share.
    "redis" RedisSettings {
        /// How Redis runs: one server, a master that Sentinels watch, or a Redis Cluster.
        mode: RedisTopology = "single";
        /// The server, the Sentinels, or some servers of the Redis Cluster, separated by commas.
        servers: ServerList = "127.0.0.1:6379";
        /// The name by which the Sentinels know the master.
        sentinel_master: String = "mymaster";
        /// The user of Redis. Empty: the default user.
        username: Option<String> = "";
        /// The password of Redis. Unset: none.
        password: Secret = "";
        /// The password of the Sentinels. Unset: none.
        sentinel_password: Secret = "";
        /// A prefix for the names of all keys, so that Redis can be shared.
        prefix: String = "";
        /// Replicas that have to confirm a decision before it is answered. -1: one with Sentinels or a Redis
        /// Cluster, otherwise none.
        wait_replicas: i64 = -1, -1..=8;
        /// How long to wait for these replicas. Then the answer is 503, and a retry with the same key finds
        /// out what was decided.
        wait_milliseconds: u64 = 400, 1..=60_000;
        /// How long Redis may take to answer. Then it counts as gone, and orders get 503.
        timeout_milliseconds: u64 = 700, 10..=60_000;
        /// Start even if Redis could lose what it has confirmed (appendonly, appendfsync, maxmemory-policy).
        allow_unsafe: bool = false;
    }

    /// The SQL system of record.
    "records" RecordsSettings {
        /// Cluster: the database of record, such as mysql://user:password@host:3306/penstock.
        url: Secret = "";
        /// Connections to the database of record.
        max_connections: u32 = 8, 1..=1024;
    }

    /// Brings the ledger's decisions into the records, and releases holds that are over.
    "settle" SettleSettings {
        /// The most decisions in one transaction.
        batch: usize = 500, 1..=100_000;
        /// The fastest pace of settlement: the database sees a steady stream, never the peak.
        max_decisions_per_second: u32 = 5_000, 1..=10 * MILLION;
        /// How often idle settlement looks for decisions.
        poll_milliseconds: u64 = 50, 1..=60_000;
        /// How often a decision is tried before it becomes a dead letter.
        max_tries: u32 = 5, 1..=1_000;
        /// First wait while the database is down.
        backoff_min_milliseconds: u64 = 100, 1..=60_000;
        /// Longest wait while the database is down.
        backoff_max_milliseconds: u64 = 5_000, 1..=600_000;
        /// How often expired holds are released.
        expire_every_milliseconds: u64 = 100, 10..=60_000;
        /// The most holds released by one command.
        expire_batch: u32 = 1_000, 1..=MILLION;
        /// Cluster: the most sales that a worker settles at once.
        streams_at_once: usize = 16, 1..=4_096;
        /// Cluster: how long a worker may be silent before the others take its sales over.
        lease_seconds: u32 = 3, 1..=60;
        /// Cluster: where a worker shows /metrics and /healthz, such as 10.0.0.21:9100. Only your monitoring
        /// should reach it. Empty: nowhere.
        listen: Option<SocketAddr> = "";
    }

    /// The log goes to stderr.
    "log" LogSettings {
        /// error, warn, info, debug, trace, or a filter such as info,penstock_settle=debug.
        level: LogFilter = "info";
        /// text is for people, json for machines.
        format: LogFormat = "text";
    }
}
