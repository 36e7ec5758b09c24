//! The one table of settings: key, default, bounds and what it is for. Reading, checking and printing the
//! configuration all go through it, so they can't diverge.

/// A default value, and with it the type of the setting.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Default {
    Text(&'static str),
    Number(i64),
    Flag(bool),
}

/// What a value has to satisfy on its own. Checks between settings are in `check.rs`.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Text,
    /// Never printed.
    Secret,
    /// true or false.
    Flag,
    Address,
    /// An address, or nothing.
    OptionalAddress,
    /// Addresses or networks, separated by commas; may be empty.
    Networks,
    /// Names or addresses with a port, separated by commas.
    Servers,
    Between(i64, i64),
    OneOf(&'static [&'static str]),
    /// Two letters, as in ISO 3166.
    Country,
    /// A filter of the `tracing` crate, such as `info` or `info,penstock_settle=debug`.
    LogFilter,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) key: &'static str,
    pub(crate) default: Default,
    pub(crate) rule: Rule,
    pub(crate) about: &'static str,
}

impl Setting {
    pub(crate) fn is_secret(&self) -> bool {
        matches!(self.rule, Rule::Secret)
    }

    /// `("http", "listen")` for `http.listen`; a key at the top has an empty section.
    pub(crate) fn section_and_name(&self) -> (&'static str, &'static str) {
        self.key.rsplit_once('.').unwrap_or(("", self.key))
    }
}

const fn number(key: &'static str, default: i64, min: i64, max: i64, about: &'static str) -> Setting {
    assert!(min <= default && default <= max);
    Setting { key, default: Default::Number(default), rule: Rule::Between(min, max), about }
}

const fn text(key: &'static str, default: &'static str, rule: Rule, about: &'static str) -> Setting {
    Setting { key, default: Default::Text(default), rule, about }
}

const fn flag(key: &'static str, default: bool, about: &'static str) -> Setting {
    Setting { key, default: Default::Flag(default), rule: Rule::Flag, about }
}

const MILLION: i64 = 1_000_000;
const DAY_SECONDS: i64 = 24 * 3600;

/// In the order in which they are printed; the settings of a section stand together.
pub(crate) const SETTINGS: &[Setting] = &[
    text(
        "engine",
        "embedded",
        Rule::OneOf(&["embedded", "cluster"]),
        "embedded: one process with a data folder. cluster: any number of nodes on Redis and MySQL.",
    ),
    text(
        "data",
        "./data",
        Rule::Text,
        "The folder that holds everything of the embedded engine: journal, records and secret.",
    ),
    text("http.listen", "127.0.0.1:8080", Rule::Address, "Address to listen on. Port 0 takes any free port."),
    number("http.workers", 0, 0, 1024, "Threads that serve requests; 0 is one for each core."),
    number(
        "http.max_connections",
        65_536,
        1,
        16 * MILLION,
        "The most connections open at once. When all are taken, a new one replaces a connection that is idle, does not finish its request or does not read its answers; if there is none, it waits.",
    ),
    number(
        "http.max_connections_per_address",
        1_024,
        1,
        16 * MILLION,
        "The most open connections from one address (IPv6: from one /56); a further one is closed. Loopback and trusted proxies are exempt.",
    ),
    number(
        "http.max_unread_kibibytes_per_connection",
        64,
        1,
        65_536,
        "The most answers that wait for one client to read them. Until it reads, no more of its requests are handled.",
    ),
    number(
        "http.max_unread_mebibytes",
        256,
        1,
        MILLION,
        "The most memory for answers that clients have not read, and again for requests that have not arrived in full. When it is full, connections are cut: those whose clients have read nothing for longest, and those that send requests ahead or have waited longest for the rest of one.",
    ),
    text(
        "http.trusted_proxies",
        "",
        Rule::Networks,
        "Proxies whose X-Forwarded-For and X-Forwarded-Proto are believed: addresses or networks such as 10.0.0.0/8, separated by commas.",
    ),
    number("http.request_seconds", 10, 1, 3600, "How long a request may take to arrive; then it gets 408."),
    number(
        "http.idle_seconds",
        75,
        1,
        3600,
        "How long a connection may stay open without completing a request or reading 64 KiB or all of an answer.",
    ),
    number("http.drain_seconds", 30, 0, 3600, "How long a stop waits for requests that are under way."),
    flag(
        "http.secure_cookies",
        false,
        "Mark every session cookie Secure, for servers reached by HTTPS only. If false, a trusted proxy's X-Forwarded-Proto decides.",
    ),
    text("http.problem_type_base", "/errors/", Rule::Text, "What a problem's type begins with."),
    text(
        "identity.secret",
        "",
        Rule::Secret,
        "Signs sessions, passes and tickets. Also PENSTOCK_SECRET. Unset: made once, and kept in the data folder or in a cluster's database.",
    ),
    text(
        "identity.previous_secret",
        "",
        Rule::Secret,
        "The secret before the current one; what it signed stays valid. Also PENSTOCK_PREVIOUS_SECRET.",
    ),
    text(
        "identity.admin_token",
        "",
        Rule::Secret,
        "A bearer token with the admin role. Also PENSTOCK_ADMIN_TOKEN. Unset: there is none.",
    ),
    number("identity.session_seconds", 30 * DAY_SECONDS, 60, 365 * DAY_SECONDS, "How long a sign-in lasts."),
    number(
        "identity.password_hashes_at_once",
        2,
        1,
        1024,
        "Threads that hash passwords. Each takes 19 MiB of memory at its first password, and keeps it.",
    ),
    number(
        "identity.password_core_percent",
        25,
        1,
        100,
        "The share of all cores that hashing passwords may take, in percent, after a burst of two seconds on one core.",
    ),
    number(
        "identity.password_hashes_waiting",
        64,
        0,
        65_536,
        "Sign-ins from unknown devices that may wait to be hashed, as many from known devices, and as many sign-ups. When a queue is full, the address with the most waiting gets 503 busy.",
    ),
    text(
        "identity.default_country",
        "CN",
        Rule::Country,
        "The country of phone numbers that come without a country code, such as CN, DE or US. Buyers can choose another one.",
    ),
    flag(
        "identity.codes_in_answers",
        false,
        "Show a one-time code to the client that asks for it, so that any phone can be signed up: for rehearsals and demos only.",
    ),
    text(
        "identity.jwt.secret",
        "",
        Rule::Secret,
        "Verifies a shop's own JWTs (HS256). Unset: no such token is accepted.",
    ),
    text(
        "identity.jwt.public_key",
        "",
        Rule::Text,
        "File with the PEM public key that verifies a shop's own JWTs (EdDSA or RS256). Empty: no such token is accepted.",
    ),
    text("identity.jwt.issuer", "", Rule::Text, "What `iss` has to be. Empty: anything."),
    text("identity.jwt.audience", "", Rule::Text, "What `aud` has to contain. Empty: anything."),
    number("identity.jwt.leeway_seconds", 0, 0, 300, "How far the shop's clock may be off."),
    number("identity.codes.lifetime_seconds", 300, 30, 3600, "How long a one-time code is valid."),
    number("identity.codes.max_per_window", 5, 1, 1_000, "Codes per window from one address to one phone."),
    number(
        "identity.codes.max_per_phone",
        20,
        2,
        10_000,
        "Codes per window from all addresses to one phone. The last half of them is for addresses that have had no more than one.",
    ),
    number("identity.codes.window_seconds", 3600, 60, DAY_SECONDS, "How long a window lasts."),
    number(
        "identity.limits.codes_by_address_burst",
        10,
        1,
        MILLION,
        "One-time codes that one address may ask for at once.",
    ),
    number(
        "identity.limits.codes_by_address_every_seconds",
        30,
        1,
        3600,
        "After that, seconds until the address may ask for one more.",
    ),
    number("identity.limits.sign_ups_by_address_burst", 30, 1, MILLION, "Sign-ups per address at once."),
    number(
        "identity.limits.sign_ups_by_address_every_seconds",
        5,
        1,
        3600,
        "After that, seconds until the address may make one more.",
    ),
    number("identity.limits.sign_ins_by_address_burst", 30, 1, MILLION, "Sign-ins per address at once."),
    number(
        "identity.limits.sign_ins_by_address_every_seconds",
        5,
        1,
        3600,
        "After that, seconds until the address may make one more.",
    ),
    number(
        "identity.limits.sign_ins_by_phone_burst",
        50,
        1,
        MILLION,
        "Wrong passwords for one account that all strangers together may send at once. A stranger is a device that has not signed in to the account before.",
    ),
    number(
        "identity.limits.sign_ins_by_phone_every_seconds",
        60,
        1,
        3600,
        "After that, seconds until strangers may send one more.",
    ),
    number(
        "identity.limits.sign_ins_by_phone_and_address_burst",
        10,
        1,
        MILLION,
        "Wrong passwords for one account that strangers at one address may send at once.",
    ),
    number(
        "identity.limits.sign_ins_by_phone_and_address_every_seconds",
        600,
        1,
        DAY_SECONDS,
        "After that, seconds until strangers at this address may send one more.",
    ),
    number(
        "identity.limits.sign_ins_by_device_burst",
        10,
        1,
        MILLION,
        "Wrong passwords that a device may send at once for an account that it has signed in to before.",
    ),
    number(
        "identity.limits.sign_ins_by_device_every_seconds",
        30,
        1,
        3600,
        "After that, seconds until the device may send one more.",
    ),
    number(
        "identity.limits.sign_ins_by_account_burst",
        30,
        1,
        MILLION,
        "Passwords, right or wrong, that may be sent at once for an account from all devices that have signed in to it before.",
    ),
    number(
        "identity.limits.sign_ins_by_account_every_seconds",
        20,
        1,
        3600,
        "After that, seconds until they may send one more. Make it shorter than for one device, so that a stolen device leaves the others some tries.",
    ),
    number(
        "identity.limits.max_keys",
        100_000,
        1_000,
        100 * MILLION,
        "Addresses or phones that each limit remembers.",
    ),
    number("gate.challenge_seconds", 120, 10, 3600, "How long a challenge is valid."),
    number("gate.pow_min_bits", 14, 1, 32, "Zero bits that a proof of work begins with at low demand."),
    number("gate.pow_max_bits", 20, 1, 32, "The most zero bits that a proof of work begins with."),
    number(
        "gate.pow_easy_per_second",
        100,
        1,
        MILLION,
        "Challenges a second up to which demand is low; each doubling beyond that adds a bit.",
    ),
    number(
        "gate.max_used_challenges",
        MILLION,
        1_000,
        100 * MILLION,
        "Used challenges that are remembered until they expire; requests beyond that get 503 busy.",
    ),
    number("gate.captcha_pool", 500, 10, 100_000, "Captcha pictures that are drawn ahead, about 5 KB each."),
    number("gate.pass_seconds", 120, 5, 3600, "How long a pass is valid."),
    number(
        "gate.pass_factor",
        5,
        1,
        1_000,
        "Passes that people may hold at once for each unit that is left. A pass not used within an eighth of its time no longer counts.",
    ),
    number(
        "gate.max_passes",
        MILLION,
        1_000,
        100 * MILLION,
        "The most passes of one sale that people may hold at once, whatever its units; requests beyond that get 503 busy.",
    ),
    number(
        "gate.turn_seconds",
        60,
        5,
        3600,
        "How long an admitted ticket may take to get its pass, and how long somebody who was away may take to come back.",
    ),
    number(
        "gate.admissions_per_second",
        1_000,
        1,
        MILLION,
        "The most tickets of a sale admitted per second.",
    ),
    number(
        "gate.limits.by_buyer_burst",
        200,
        1,
        MILLION,
        "Calls at the gate, including orders and payments, that one buyer may make at once.",
    ),
    number("gate.limits.by_buyer_per_second", 20, 1, MILLION, "After that, calls per second; more get 429."),
    number(
        "gate.limits.by_address_burst",
        2_000,
        1,
        MILLION,
        "The same calls that one address may make at once.",
    ),
    number(
        "gate.limits.by_address_per_second",
        500,
        1,
        MILLION,
        "After that, calls by one address per second; more get 429.",
    ),
    number(
        "gate.limits.reads_by_buyer_burst",
        1_000,
        1,
        MILLION,
        "Reads of their own orders and account that one buyer may make at once.",
    ),
    number(
        "gate.limits.reads_by_buyer_per_second",
        100,
        1,
        MILLION,
        "After that, reads per second; more get 429.",
    ),
    number(
        "gate.limits.reads_by_address_burst",
        10_000,
        1,
        MILLION,
        "The same reads by one address at once, including those of tickets.",
    ),
    number("gate.limits.reads_by_address_per_second", 2_000, 1, MILLION, "After that, reads per second."),
    number(
        "gate.limits.tickets_by_buyer_burst",
        5,
        1,
        MILLION,
        "Tickets of one sale that one buyer may take at once; each is a chance in the draw.",
    ),
    number(
        "gate.limits.tickets_by_buyer_every_seconds",
        600,
        1,
        DAY_SECONDS,
        "After that, seconds until the buyer may take one more.",
    ),
    number(
        "gate.limits.max_keys",
        100_000,
        1_000,
        100 * MILLION,
        "Buyers and addresses that a limit tells apart; beyond that, the one that has been quiet longest is forgotten.",
    ),
    number(
        "gate.limits.by_node_burst",
        50_000,
        1,
        100 * MILLION,
        "Calls at the gate that one node takes at once from everybody together.",
    ),
    number("gate.limits.by_node_per_second", 500_000, 1, 100 * MILLION, "After that, calls per second."),
    number("gate.limits.into_ledger_burst", 20_000, 1, 100 * MILLION, "Orders entering the ledger at once."),
    number(
        "gate.limits.into_ledger_per_second",
        200_000,
        1,
        100 * MILLION,
        "After that, orders per second; more get 503 busy.",
    ),
    number(
        "gate.limits.in_flight_min",
        64,
        1,
        MILLION,
        "The limit on orders being decided at once, for each Redis master, never stays below this. Only a trial \
         of a lower limit goes down to half of it for a moment.",
    ),
    number("gate.limits.in_flight_max", 32_768, 1, MILLION, "The limit never rises above this."),
    number(
        "gate.limits.target_latency_milliseconds",
        50,
        1,
        60_000,
        "The limit falls when deciding takes longer than this and fewer orders at once are decided sooner.",
    ),
    number(
        "ledger.max_queued",
        65_536,
        1,
        16 * MILLION,
        "Commands that may wait for the ledger; more are answered 503 busy.",
    ),
    number("ledger.max_batch", 4_096, 1, MILLION, "The most commands that one group commit decides."),
    number(
        "ledger.compact_after_decisions",
        250_000,
        10,
        1_000 * MILLION,
        "Decisions after which the journal is compacted, so that a start stays quick.",
    ),
    number(
        "ledger.log_mebibytes",
        32,
        1,
        4_096,
        "Room on the disk that the journal's log takes from the start. A full disk does not stop the ledger before this is used up.",
    ),
    number(
        "ledger.forget_after_seconds",
        DAY_SECONDS,
        0,
        365 * DAY_SECONDS,
        "Cluster: how long Redis keeps a sale's orders after the sale is closed and settled. After that, only the records have them.",
    ),
    text(
        "redis.mode",
        "single",
        Rule::OneOf(&["single", "sentinel", "cluster"]),
        "How Redis runs: one server, a master that Sentinels watch, or a Redis Cluster.",
    ),
    text(
        "redis.servers",
        "127.0.0.1:6379",
        Rule::Servers,
        "The server, the Sentinels, or some servers of the Redis Cluster, separated by commas.",
    ),
    text("redis.sentinel_master", "mymaster", Rule::Text, "The name by which the Sentinels know the master."),
    text("redis.username", "", Rule::Text, "The user of Redis. Empty: the default user."),
    text("redis.password", "", Rule::Secret, "The password of Redis. Unset: none."),
    text("redis.sentinel_password", "", Rule::Secret, "The password of the Sentinels. Unset: none."),
    text("redis.prefix", "", Rule::Text, "A prefix for the names of all keys, so that Redis can be shared."),
    number(
        "redis.wait_replicas",
        -1,
        -1,
        8,
        "Replicas that have to confirm a decision before it is answered. -1: one with Sentinels or a Redis Cluster, otherwise none.",
    ),
    number(
        "redis.wait_milliseconds",
        400,
        1,
        60_000,
        "How long to wait for these replicas. Then the answer is 503, and a retry with the same key finds out what was decided.",
    ),
    number(
        "redis.timeout_milliseconds",
        700,
        10,
        60_000,
        "How long Redis may take to answer. Then it counts as gone, and orders get 503.",
    ),
    flag(
        "redis.allow_unsafe",
        false,
        "Start even if Redis could lose what it has confirmed (appendonly, appendfsync, maxmemory-policy).",
    ),
    text(
        "records.url",
        "",
        Rule::Secret,
        "Cluster: the database of record, such as mysql://user:password@host:3306/penstock.",
    ),
    number("records.max_connections", 8, 1, 1024, "Connections to the database of record."),
    number("settle.batch", 500, 1, 100_000, "The most decisions in one transaction."),
    number(
        "settle.max_decisions_per_second",
        5_000,
        1,
        10 * MILLION,
        "The fastest pace of settlement: the database sees a steady stream, never the peak.",
    ),
    number("settle.poll_milliseconds", 50, 1, 60_000, "How often idle settlement looks for decisions."),
    number("settle.max_tries", 5, 1, 1_000, "How often a decision is tried before it becomes a dead letter."),
    number("settle.backoff_min_milliseconds", 100, 1, 60_000, "First wait while the database is down."),
    number("settle.backoff_max_milliseconds", 5_000, 1, 600_000, "Longest wait while the database is down."),
    number("settle.expire_every_milliseconds", 100, 10, 60_000, "How often expired holds are released."),
    number("settle.expire_batch", 1_000, 1, MILLION, "The most holds released by one command."),
    number("settle.streams_at_once", 16, 1, 4_096, "Cluster: the most sales that a worker settles at once."),
    number(
        "settle.lease_seconds",
        3,
        1,
        60,
        "Cluster: how long a worker may be silent before the others take its sales over.",
    ),
    text(
        "settle.listen",
        "",
        Rule::OptionalAddress,
        "Cluster: where a worker shows /metrics and /healthz, such as 10.0.0.21:9100. Only your monitoring should reach it. Empty: nowhere.",
    ),
    text(
        "log.level",
        "info",
        Rule::LogFilter,
        "error, warn, info, debug, trace, or a filter such as info,penstock_settle=debug.",
    ),
    text("log.format", "text", Rule::OneOf(&["text", "json"]), "text is for people, json for machines."),
];

/// Variables that do not follow `PENSTOCK_SECTION__NAME`, because people expect them under these names.
pub(crate) const SHORT_VARIABLES: &[(&str, &str)] = &[
    ("PENSTOCK_ADMIN_TOKEN", "identity.admin_token"),
    ("PENSTOCK_SECRET", "identity.secret"),
    ("PENSTOCK_PREVIOUS_SECRET", "identity.previous_secret"),
];

/// What a section is for; printed above it.
pub(crate) const SECTIONS: &[(&str, &str)] = &[
    ("http", "The API."),
    ("identity", "Buyers and merchants: how they prove who they are. Secrets are never printed."),
    ("identity.jwt", "For a shop that has its own users and signs them in with its own tokens."),
    ("identity.codes", "One-time codes, which prove that a phone is the buyer's."),
    ("identity.limits", "Slow down guessing. Limits per address don't apply to loopback."),
    ("gate", "Challenges, passes and waiting rooms, for sales that ask for them."),
    ("gate.limits", "For all sales. Limits per address don't apply to loopback."),
    ("ledger", "The only authority on stock."),
    ("redis", "Where a cluster keeps its ledger and what its nodes share."),
    ("records", "The SQL system of record."),
    ("settle", "Brings the ledger's decisions into the records, and releases holds that are over."),
    ("log", "The log goes to stderr."),
];

pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}
