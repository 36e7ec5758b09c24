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
    text("http.listen", "127.0.0.1:8080", Rule::Address, "Where to listen. Port 0 takes any free port."),
    number("http.workers", 0, 0, 1024, "Threads that serve requests; 0 is one for each core."),
    number(
        "http.max_connections",
        65_536,
        1,
        16 * MILLION,
        "Open connections; a newcomer takes the place of one that is idle, does not get on or does not read, or waits for one.",
    ),
    number(
        "http.max_connections_per_address",
        1_024,
        1,
        16 * MILLION,
        "Open connections of one address (of IPv6: of a /56); one more is closed. Loopback and trusted proxies are exempt.",
    ),
    number(
        "http.max_unread_kibibytes_per_connection",
        64,
        1,
        65_536,
        "Answers that may wait for one client to read them; until it does, no more of its requests are looked at.",
    ),
    number(
        "http.max_unread_mebibytes",
        256,
        1,
        MILLION,
        "Memory for answers that nobody has read, and as much for requests that are not whole; when it is full, those that have read or sent nothing for longest are cut.",
    ),
    text(
        "http.trusted_proxies",
        "",
        Rule::Networks,
        "Addresses or networks, separated by commas, whose X-Forwarded-For and -Proto are believed, such as 10.0.0.0/8.",
    ),
    number("http.request_seconds", 10, 1, 3600, "How long a request may take to arrive; later is 408."),
    number(
        "http.idle_seconds",
        75,
        1,
        3600,
        "How long a connection may go without completing a request or reading 64 KiB or all of an answer.",
    ),
    number("http.drain_seconds", 30, 0, 3600, "How long a stop waits for requests that are under way."),
    flag(
        "http.secure_cookies",
        false,
        "Mark every session cookie Secure: for servers reached by HTTPS only. Else a trusted proxy's X-Forwarded-Proto tells.",
    ),
    text(
        "http.problem_type_base",
        "/errors/",
        Rule::Text,
        "What stands before the code in a problem's type.",
    ),
    text(
        "identity.secret",
        "",
        Rule::Secret,
        "Signs sessions, passes and tickets; also PENSTOCK_SECRET. Unset: made once and kept in the data folder.",
    ),
    text(
        "identity.previous_secret",
        "",
        Rule::Secret,
        "The secret before it, whose tokens are still good; also PENSTOCK_PREVIOUS_SECRET.",
    ),
    text(
        "identity.admin_token",
        "",
        Rule::Secret,
        "A bearer token with the admin role; also PENSTOCK_ADMIN_TOKEN. Unset: there is none.",
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
        "What hashing passwords may take of all cores, in percent, after a burst of two seconds of one core.",
    ),
    number(
        "identity.password_hashes_waiting",
        64,
        0,
        65_536,
        "Sign-ins of strangers that may wait for it, as many of known devices, and as many sign-ups. Beyond that, the address with the most waiting gets 503 busy.",
    ),
    text(
        "identity.default_country",
        "CN",
        Rule::Country,
        "The country of phone numbers that come without a country's code, such as CN, DE or US. Other countries can be chosen.",
    ),
    flag(
        "identity.codes_in_answers",
        false,
        "Tell whoever asks for a one-time code the code, so that any phone can be signed up: for rehearsals and demos only.",
    ),
    text(
        "identity.jwt.secret",
        "",
        Rule::Secret,
        "Checks a shop's own JWTs (HS256). Unset: none is accepted.",
    ),
    text(
        "identity.jwt.public_key",
        "",
        Rule::Text,
        "File with a PEM public key that checks a shop's own JWTs (EdDSA or RS256). Empty: none is accepted.",
    ),
    text("identity.jwt.issuer", "", Rule::Text, "What `iss` has to be. Empty: anything."),
    text("identity.jwt.audience", "", Rule::Text, "What `aud` has to contain. Empty: anything."),
    number("identity.jwt.leeway_seconds", 0, 0, 300, "How far the shop's clock may be off."),
    number("identity.codes.lifetime_seconds", 300, 30, 3600, "How long a one-time code is good."),
    number(
        "identity.codes.max_per_window",
        5,
        1,
        1_000,
        "Codes that one address can have sent to a phone in a window …",
    ),
    number(
        "identity.codes.max_per_phone",
        20,
        2,
        10_000,
        "… and all addresses together; the last half is for addresses that have not had one yet.",
    ),
    number("identity.codes.window_seconds", 3600, 60, DAY_SECONDS, "How long a window is."),
    number(
        "identity.limits.codes_by_address_burst",
        10,
        1,
        MILLION,
        "One-time codes asked for by one address …",
    ),
    number(
        "identity.limits.codes_by_address_every_seconds",
        30,
        1,
        3600,
        "… and then one in this many seconds.",
    ),
    number("identity.limits.sign_ups_by_address_burst", 30, 1, MILLION, "Sign-ups from one address …"),
    number(
        "identity.limits.sign_ups_by_address_every_seconds",
        5,
        1,
        3600,
        "… and then one in this many seconds.",
    ),
    number("identity.limits.sign_ins_by_address_burst", 30, 1, MILLION, "Sign-ins from one address …"),
    number(
        "identity.limits.sign_ins_by_address_every_seconds",
        5,
        1,
        3600,
        "… and then one in this many seconds.",
    ),
    number(
        "identity.limits.sign_ins_by_phone_burst",
        50,
        1,
        MILLION,
        "Wrong passwords for one account by all strangers: devices that have not signed in to it before …",
    ),
    number(
        "identity.limits.sign_ins_by_phone_every_seconds",
        60,
        1,
        3600,
        "… and then one in this many seconds.",
    ),
    number(
        "identity.limits.sign_ins_by_phone_and_address_burst",
        10,
        1,
        MILLION,
        "Wrong passwords for one account by strangers of one address …",
    ),
    number(
        "identity.limits.sign_ins_by_phone_and_address_every_seconds",
        600,
        1,
        DAY_SECONDS,
        "… and then one in this many seconds.",
    ),
    number(
        "identity.limits.sign_ins_by_device_burst",
        10,
        1,
        MILLION,
        "Wrong passwords by a device that has signed in to the account before …",
    ),
    number(
        "identity.limits.sign_ins_by_device_every_seconds",
        30,
        1,
        3600,
        "… and then one in this many seconds.",
    ),
    number(
        "identity.limits.sign_ins_by_account_burst",
        30,
        1,
        MILLION,
        "Passwords, right or wrong, by all devices that have signed in to one account before …",
    ),
    number(
        "identity.limits.sign_ins_by_account_every_seconds",
        20,
        1,
        3600,
        "… and then one in this many seconds; sooner than for one device, so that a stolen one leaves the others something.",
    ),
    number(
        "identity.limits.max_keys",
        100_000,
        1_000,
        100 * MILLION,
        "Addresses or phones a limit remembers.",
    ),
    number("gate.challenge_seconds", 120, 10, 3600, "How long a challenge is good."),
    number("gate.pow_min_bits", 14, 1, 32, "Zero bits that a proof of work begins with while it is quiet …"),
    number("gate.pow_max_bits", 20, 1, 32, "… and when it is not."),
    number(
        "gate.pow_easy_per_second",
        100,
        1,
        MILLION,
        "Challenges a second up to which it is quiet; each doubling adds a bit.",
    ),
    number(
        "gate.max_used_challenges",
        MILLION,
        1_000,
        100 * MILLION,
        "Used challenges that are remembered until they expire; more are answered 503 busy.",
    ),
    number("gate.captcha_pool", 500, 10, 100_000, "Pictures that are drawn ahead, about 5 KB each."),
    number("gate.pass_seconds", 120, 5, 3600, "How long a pass is good."),
    number(
        "gate.pass_factor",
        5,
        1,
        1_000,
        "Passes in people's hands for each unit that is left. Those not used in an eighth of their time don't count.",
    ),
    number(
        "gate.max_passes",
        MILLION,
        1_000,
        100 * MILLION,
        "Passes of one sale in people's hands, whatever its units; more are answered 503 busy.",
    ),
    number(
        "gate.turn_seconds",
        60,
        5,
        3600,
        "How long an admitted ticket may take to get its pass, and somebody who was away to come back.",
    ),
    number(
        "gate.admissions_per_second",
        1_000,
        1,
        MILLION,
        "Tickets of one sale admitted in a second at most.",
    ),
    number(
        "gate.limits.by_buyer_burst",
        200,
        1,
        MILLION,
        "Calls at the gate, orders and payments too, by one buyer at once …",
    ),
    number("gate.limits.by_buyer_per_second", 20, 1, MILLION, "… and then so many a second; more get 429."),
    number("gate.limits.by_address_burst", 2_000, 1, MILLION, "The same from one address …"),
    number("gate.limits.by_address_per_second", 500, 1, MILLION, "… and then so many a second."),
    number(
        "gate.limits.reads_by_buyer_burst",
        1_000,
        1,
        MILLION,
        "Looks of one buyer at their orders and account at once …",
    ),
    number(
        "gate.limits.reads_by_buyer_per_second",
        100,
        1,
        MILLION,
        "… and then so many a second; more get 429.",
    ),
    number(
        "gate.limits.reads_by_address_burst",
        10_000,
        1,
        MILLION,
        "The same from one address, tickets too …",
    ),
    number("gate.limits.reads_by_address_per_second", 2_000, 1, MILLION, "… and then so many a second."),
    number(
        "gate.limits.tickets_by_buyer_burst",
        5,
        1,
        MILLION,
        "Tickets of one buyer, each a chance in the draw, at once …",
    ),
    number(
        "gate.limits.tickets_by_buyer_every_seconds",
        600,
        1,
        DAY_SECONDS,
        "… and then one in this many seconds.",
    ),
    number(
        "gate.limits.max_keys",
        100_000,
        1_000,
        100 * MILLION,
        "Buyers and addresses a limit tells apart; beyond, who has been quiet longest is forgotten.",
    ),
    number("gate.limits.by_node_burst", 50_000, 1, 100 * MILLION, "Calls at the gate by everybody at once …"),
    number("gate.limits.by_node_per_second", 500_000, 1, 100 * MILLION, "… and then so many a second."),
    number(
        "gate.limits.into_ledger_burst",
        20_000,
        1,
        100 * MILLION,
        "Orders that enter the ledger at once …",
    ),
    number(
        "gate.limits.into_ledger_per_second",
        200_000,
        1,
        100 * MILLION,
        "… and then so many a second; more get 503 busy.",
    ),
    number(
        "gate.limits.in_flight_min",
        64,
        1,
        MILLION,
        "Orders being decided at once, for each Redis master: the limit never stays below …",
    ),
    number("gate.limits.in_flight_max", 32_768, 1, MILLION, "… and never rises above."),
    number(
        "gate.limits.target_latency_milliseconds",
        50,
        1,
        60_000,
        "It falls when deciding takes longer than this and fewer at once are decided sooner.",
    ),
    number(
        "ledger.max_queued",
        65_536,
        1,
        16 * MILLION,
        "Commands that may wait; more are answered 503 busy.",
    ),
    number("ledger.max_batch", 4_096, 1, MILLION, "Commands that one group commit decides at most."),
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
        "Room on the disk that the journal's log takes from the start; a full disk does not stop it before it is used up.",
    ),
    number(
        "ledger.forget_after_seconds",
        DAY_SECONDS,
        0,
        365 * DAY_SECONDS,
        "Cluster: so long after a sale is closed and settled, Redis keeps its orders; then they are in the records only.",
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
        "The server; the Sentinels; or some servers of the Redis Cluster. Separated by commas.",
    ),
    text("redis.sentinel_master", "mymaster", Rule::Text, "What the Sentinels call the master."),
    text("redis.username", "", Rule::Text, "Empty: Redis' default user."),
    text("redis.password", "", Rule::Secret, "Unset: none."),
    text("redis.sentinel_password", "", Rule::Secret, "Of the Sentinels. Unset: none."),
    text("redis.prefix", "", Rule::Text, "Put before the names of all keys, so that a Redis can be shared."),
    number(
        "redis.wait_replicas",
        -1,
        -1,
        8,
        "Replicas that have to confirm a decision before it is answered; -1: one with Sentinels or a Redis Cluster, else none.",
    ),
    number(
        "redis.wait_milliseconds",
        400,
        1,
        60_000,
        "How long to wait for them; then the answer is 503, and a retry with the same key finds out.",
    ),
    number(
        "redis.timeout_milliseconds",
        700,
        10,
        60_000,
        "How long Redis may take to answer; then it counts as gone, and orders are answered 503.",
    ),
    flag(
        "redis.allow_unsafe",
        false,
        "Start even if Redis could lose what it has promised (appendonly, appendfsync, maxmemory-policy).",
    ),
    text(
        "records.url",
        "",
        Rule::Secret,
        "Cluster: the database of record, such as mysql://user:password@host:3306/penstock.",
    ),
    number("records.max_connections", 8, 1, 1024, "Connections to the database of record."),
    number("settle.batch", 500, 1, 100_000, "Decisions in one transaction at most."),
    number(
        "settle.max_decisions_per_second",
        5_000,
        1,
        10 * MILLION,
        "Pace of settlement: the database sees a smooth stream, never the peak.",
    ),
    number(
        "settle.poll_milliseconds",
        50,
        1,
        60_000,
        "How often settlement looks for decisions when it is idle.",
    ),
    number("settle.max_tries", 5, 1, 1_000, "After so many tries a decision becomes a dead letter."),
    number("settle.backoff_min_milliseconds", 100, 1, 60_000, "First wait while the database is away."),
    number("settle.backoff_max_milliseconds", 5_000, 1, 600_000, "Longest wait while the database is away."),
    number(
        "settle.expire_every_milliseconds",
        100,
        10,
        60_000,
        "How often holds that are over are released.",
    ),
    number("settle.expire_batch", 1_000, 1, MILLION, "Holds released in one command at most."),
    number("settle.streams_at_once", 16, 1, 4_096, "Cluster: sales that a worker settles at the same time."),
    number(
        "settle.lease_seconds",
        3,
        1,
        60,
        "Cluster: a worker that says nothing for so long has lost its sales to the others.",
    ),
    text(
        "settle.listen",
        "",
        Rule::OptionalAddress,
        "Cluster: where a worker shows /metrics and /healthz, such as 10.0.0.21:9100, for your monitoring and nobody else. Empty: nowhere.",
    ),
    text(
        "log.level",
        "info",
        Rule::LogFilter,
        "error, warn, info, debug, trace, or a filter such as info,penstock_settle=debug.",
    ),
    text("log.format", "text", Rule::OneOf(&["text", "json"]), "For people or for machines."),
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
    ("identity", "Who is asking. Secrets are never printed."),
    ("identity.jwt", "A shop with its own users signs them in with its own tokens."),
    ("identity.codes", "One-time codes prove that a phone is the buyer's."),
    ("identity.limits", "Slow down who guesses. Limits per address don't apply to loopback."),
    ("gate", "Who may try: challenges, passes and waiting rooms, for sales that ask for them."),
    ("gate.limits", "For all sales. Limits per address don't apply to loopback."),
    ("ledger", "The only authority on stock."),
    ("redis", "Where the ledger of a cluster is, and what its nodes share."),
    ("records", "The SQL system of record."),
    ("settle", "Brings the ledger's decisions into the records, and releases holds that are over."),
    ("log", "Goes to stderr."),
];

pub(crate) fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}
