//! The command line: its commands and their help. The modules that it names do the work.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Runs flash sales that neither oversell nor forget.
#[derive(Debug, Parser)]
#[command(
    name = "penstock",
    version,
    after_help = "Example:\n  penstock serve --demo       sell a demo item on http://127.0.0.1:8080"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<CliCommand>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum CliCommand {
    /// Serve the API and sell, from one data folder or as a node of a cluster
    #[command(
        after_help = "Prints `penstock ready on http://ADDR` when it can sell, and drains on SIGTERM.\n\n\
        Example:\n  PENSTOCK_ADMIN_TOKEN=… penstock serve --listen 127.0.0.1:8080 --data ./data"
    )]
    Serve(ServeArgs),
    /// Settle the sales of a cluster: write its decisions into the database
    #[command(
        after_help = "Any number of workers share the sales; one that dies is replaced by another within five seconds. Prints\n\
        `penstock settles as NAME` when it has begun. What a cluster needs: docs/operating.md.\n\n\
        Example:\n  penstock settle --config cluster.toml"
    )]
    Settle(PlaceArgs),
    /// Compare ledger, stock log and orders, and name every difference
    #[command(after_help = "Only reads; a server may be running. Exits 0 only if everything adds up.\n\n\
        Example:\n  penstock audit --data ./data")]
    Audit(AuditArgs),
    /// Rehearse a sale with simulated buyers, and check that every promise was kept
    #[command(
        after_help = "Publishes a sale for the rehearsal if PENSTOCK_ADMIN_TOKEN is the server's; otherwise it only buys from the sale\n\
        that --sale names. Buyers have tokens signed with PENSTOCK_IDENTITY__JWT__SECRET, or sign up. Exits 0 only if\n\
        nothing was oversold, lost, duplicated, over the limit or unanswered. More: docs/rehearsal.md.\n\n\
        Examples:\n  penstock rush --url http://127.0.0.1:8080 --buyers 30000 --units 200\n  \
        penstock rush --url http://127.0.0.1:8080 --scenario unpaid --report rehearsal.html"
    )]
    Rush(Box<RushArgs>),
    /// Accounts with the admin role
    #[command(
        subcommand,
        after_help = "Example:\n  echo 'a long password' | penstock admin create --phone +8613800000000 --name Ada \
            --password-stdin"
    )]
    Admin(AdminCommand),
    /// Print the effective configuration as commented TOML
    #[command(
        after_help = "Defaults, then the file, then PENSTOCK_… variables, then flags. Secrets are not shown.\n\n\
        Example:\n  penstock config > penstock.toml"
    )]
    Config(ConfigArgs),
    /// Bring the database of record to this version's schema
    #[command(after_help = "`serve` does this by itself.\n\nExample:\n  penstock migrate --data ./data")]
    Migrate(DatabaseArgs),
    /// Check the draw of a waiting room
    #[command(subcommand, after_help = "Example:\n  penstock draw verify --sale sale.json --ticket 1234.…")]
    Draw(DrawCommand),
    /// Print tokens of simulated buyers, one per line, for load tools that can't sign
    #[command(
        after_help = "They are JWTs (HS256) of the buyers load-000000000001, load-000000000002, … and are valid on every \
        server that has the same identity.jwt.secret. How to use them: deploy/load/README.md.\n\n\
        Example:\n  penstock tokens --buyers 10000 --config penstock.toml > tokens.csv"
    )]
    Tokens(TokensArgs),
    /// Print the OpenAPI document of the API
    #[command(after_help = "Example:\n  penstock openapi > openapi.json")]
    Openapi,
}

#[derive(Debug, Args)]
pub(crate) struct ServeArgs {
    /// Address to listen on [default: 127.0.0.1:8080]
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Seed a few items and a sale that opens in 30 seconds, and print how to buy
    #[arg(long)]
    pub(crate) demo: bool,
}

/// The installation to work on.
#[derive(Debug, Args)]
pub(crate) struct PlaceArgs {
    /// Folder that holds everything [default: ./data]
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<String>,
    /// Configuration file (TOML); `penstock config` prints one
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct RushArgs {
    /// The server to rehearse on
    #[arg(long, value_name = "URL")]
    pub(crate) url: String,
    /// An existing sale, with its own terms [default: publish one for the rehearsal, with the admin token]
    #[arg(long, value_name = "ID")]
    pub(crate) sale: Option<String>,
    /// A scenario by name or file; the flags below override it
    #[arg(long, value_name = "NAME|FILE")]
    pub(crate) scenario: Option<String>,
    /// Simulated buyers
    #[arg(long, value_name = "N")]
    pub(crate) buyers: Option<u64>,
    /// Units of the published sale
    #[arg(long, value_name = "N")]
    pub(crate) units: Option<u32>,
    /// Units that one buyer may have
    #[arg(long, value_name = "N")]
    pub(crate) limit_per_buyer: Option<u32>,
    /// Seconds a buyer has to pay
    #[arg(long, value_name = "S")]
    pub(crate) hold_seconds: Option<u32>,
    /// Seconds from publishing to the opening
    #[arg(long, value_name = "S")]
    pub(crate) opens_in: Option<f64>,
    /// Challenge before buying: none, pow or captcha
    #[arg(long, value_name = "KIND")]
    pub(crate) challenge: Option<String>,
    /// Put a waiting room before the sale
    #[arg(long)]
    pub(crate) waiting_room: bool,
    /// Buyers per second from the opening on; 0: as fast as possible
    #[arg(long, value_name = "R")]
    pub(crate) rate: Option<f64>,
    /// Seconds until the rate reaches its full height
    #[arg(long, value_name = "S")]
    pub(crate) ramp: Option<f64>,
    /// Share of buyers who wait for the opening and press the button at once
    #[arg(long, value_name = "SHARE", num_args = 0..=1, default_missing_value = "1")]
    pub(crate) burst_at_opening: Option<f64>,
    /// Seconds after the opening until the last buyer comes
    #[arg(long, value_name = "S")]
    pub(crate) duration: Option<f64>,
    /// Additional bots per buyer
    #[arg(long, value_name = "F")]
    pub(crate) bots: Option<f64>,
    /// What buyers do, as shares of one: looks, pays, pays_late, cancels, presses_early, double_clicks;
    /// comes_back is a count
    #[arg(long, value_name = "pays=0.7,…")]
    pub(crate) mix: Option<String>,
    /// Connections to share [default: one per buyer, as far as the system allows]
    #[arg(long, value_name = "N")]
    pub(crate) connections: Option<usize>,
    /// Threads that generate load [default: half of the cores]
    #[arg(long, value_name = "N")]
    pub(crate) threads: Option<usize>,
    /// Random seed: the same one makes the same buyers
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Buyers sign up for accounts, even if there is a JWT secret
    #[arg(long)]
    pub(crate) accounts: bool,
    /// The server's data folder or configuration, if they are on this machine: it is audited afterwards
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Print the report as JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the report as a page with plots
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Show no live display and no lines of progress
    #[arg(long)]
    pub(crate) quiet: bool,
}

#[derive(Debug, Args)]
pub(crate) struct DatabaseArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Address to listen on
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Option<String>,
    /// Print each setting with its source as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum AdminCommand {
    /// Create an account with the admin role
    #[command(
        after_help = "The password comes from stdin (--password-stdin) or from PENSTOCK_ADMIN_PASSWORD.\n\n\
        Example:\n  echo 'a long password' | penstock admin create --phone +8613800000000 --name Ada --password-stdin"
    )]
    Create(CreateArgs),
    /// Give an existing account the admin role
    #[command(after_help = "Example:\n  penstock admin promote --phone +8613800000000")]
    Promote(PromoteArgs),
    /// Replace the secret that tokens are signed with
    #[command(
        after_help = "A running server picks it up within a second. Sessions, passes and tickets that the previous secret \
        signed stay valid until the next rotation; one-time codes that are on their way have to be requested again. \
        If the secret comes from the configuration, change it there: identity.secret and identity.previous_secret.\n\n\
        Example:\n  penstock admin rotate-secret --data ./data"
    )]
    RotateSecret(DatabaseArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CreateArgs {
    /// Phone number the account signs in with, such as +8613800000000
    #[arg(long)]
    pub(crate) phone: String,
    /// Name to show
    #[arg(long)]
    pub(crate) name: String,
    /// Read the password from the first line of stdin
    #[arg(long)]
    pub(crate) password_stdin: bool,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Print the account as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct PromoteArgs {
    /// Phone number of the account
    #[arg(long)]
    pub(crate) phone: String,
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct TokensArgs {
    /// How many tokens
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) buyers: u64,
    /// Number of the first buyer, so that a later run can have other buyers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) first: u64,
    /// Seconds for which the tokens are valid
    #[arg(long, value_name = "S", default_value_t = 86_400, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) valid_seconds: u64,
    /// The server's identity.jwt.secret [default: the one configured here]
    #[arg(long, value_name = "SECRET")]
    pub(crate) jwt_secret: Option<String>,
    /// Configuration file (TOML) of the server; variables such as PENSTOCK_IDENTITY__JWT__SECRET count too
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum DrawCommand {
    /// Recompute a ticket's place from the published seed
    #[command(
        after_help = "Takes the answer of GET /api/v1/sales/{id} after the opening. Places are shown from 1, \
        ticket numbers\ncount from 0. Exits 0 if it verifies, 1 if the seed is not the promised one or not published \
        yet,\n2 if the input is not valid. How the draw works: docs/draw.md.\n\n\
        Example:\n  curl -s http://127.0.0.1:8080/api/v1/sales/SALE | penstock draw verify --sale - --ticket 1234.…"
    )]
    Verify(VerifyDrawArgs),
}

#[derive(Debug, Args)]
pub(crate) struct VerifyDrawArgs {
    /// The ticket, as the shop issued it
    #[arg(long, value_name = "TICKET")]
    pub(crate) ticket: String,
    /// File with the sale as the API shows it; `-` for stdin
    #[arg(long, value_name = "FILE", required_unless_present_all = ["seed", "count", "sale_id"])]
    pub(crate) sale: Option<PathBuf>,
    /// The published seed, 64 hexadecimal digits, if there is no file
    #[arg(long, value_name = "HEX", conflicts_with = "sale", requires_all = ["count", "sale_id"])]
    pub(crate) seed: Option<String>,
    /// How many tickets take part in the draw
    #[arg(long, value_name = "N", conflicts_with = "sale")]
    pub(crate) count: Option<u64>,
    /// The id of the sale
    #[arg(long, value_name = "ID", conflicts_with = "sale")]
    pub(crate) sale_id: Option<String>,
    /// The hash that was published before the opening, if you wrote it down
    #[arg(long, value_name = "HEX")]
    pub(crate) commitment: Option<String>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
}
