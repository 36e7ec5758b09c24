//! The binary: command line, configuration, wiring. The crates below it know what a sale is.

mod admin;
mod alone;
mod audit;
mod cli;
mod clock;
mod cluster;
mod config;
mod database;
mod demo;
mod demo_file;
mod demo_goods;
mod descriptors;
mod draw;
mod folder;
mod logging;
mod opened;
mod options;
mod output;
mod rooms;
mod rush;
mod rush_origin;
mod secrets;
mod serve;
mod settle;
mod signals;
mod tokens;

use std::{future::Future, process::ExitCode};

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use penstock_shop::identity::InvalidAccount;

use crate::{
    cli::{AdminCommand, Cli, CliCommand, DrawCommand, PlaceArgs},
    config::{ConfigError, Flags, Loaded},
};

/// A mistake in the request, as opposed to a failure to carry it out. clap exits with the same code.
const EXIT_USAGE: u8 = 2;
const EXIT_FAILURE: u8 = 1;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Some(command) => run(command),
        None => output::write(&Cli::command().render_help().to_string()).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|error| {
        eprintln!("penstock: {error:#}");
        let usage = error.is::<ConfigError>()
            || error.is::<InvalidAccount>()
            || error.is::<admin::NoPassword>()
            || error.is::<draw::UnusableDraw>()
            || error.is::<tokens::CannotSign>()
            || error.is::<rush::Misasked>();
        ExitCode::from(if usage { EXIT_USAGE } else { EXIT_FAILURE })
    })
}

fn run(command: CliCommand) -> anyhow::Result<ExitCode> {
    let done = |outcome: anyhow::Result<()>| outcome.map(|()| ExitCode::SUCCESS);
    match command {
        CliCommand::Serve(args) => {
            let loaded = load(&args.place, args.listen.as_deref())?;
            logging::start(&loaded.config.log)?;
            for variable in loaded.ignored_variables() {
                tracing::warn!(variable, "no such setting; the variable is ignored");
            }
            done(block_on(serve::run(loaded.config, args.demo))?)
        }
        CliCommand::Settle(args) => {
            let loaded = load(&args.place, None)?;
            logging::start(&loaded.config.log)?;
            for variable in loaded.ignored_variables() {
                tracing::warn!(variable, "no such setting; the variable is ignored");
            }
            done(block_on(settle::run(loaded.config))?)
        }
        CliCommand::Audit(args) => {
            let loaded = load(&args.place, None)?;
            let clean = block_on(audit::run(&loaded.config, args.json))??;
            Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
        }
        CliCommand::Rush(args) => {
            let loaded = load(&args.place, None)?;
            let clean = block_on(rush::run(&loaded, &args))??;
            Ok(if clean { ExitCode::SUCCESS } else { ExitCode::from(EXIT_FAILURE) })
        }
        CliCommand::Admin(AdminCommand::Create(args)) => {
            let loaded = load(&args.place, None)?;
            done(block_on(admin::create(&loaded.config, &args))?)
        }
        CliCommand::Admin(AdminCommand::Promote(args)) => {
            let loaded = load(&args.place, None)?;
            done(block_on(admin::promote(&loaded.config, &args))?)
        }
        CliCommand::Admin(AdminCommand::RotateSecret(args)) => {
            let loaded = load(&args.place, None)?;
            done(block_on(admin::rotate_secret(&loaded.config, args.json))?)
        }
        CliCommand::Config(args) => {
            let loaded = load(&args.place, args.listen.as_deref())?;
            done(if args.json { output::json(&loaded.to_json()) } else { output::write(&loaded.to_toml()) })
        }
        CliCommand::Migrate(args) => {
            let loaded = load(&args.place, None)?;
            done(block_on(admin::migrate(&loaded.config, args.json))?)
        }
        CliCommand::Draw(DrawCommand::Verify(args)) => done(draw::verify(&args)),
        CliCommand::Tokens(args) => {
            let flags = Flags { config: args.config.as_deref(), ..Flags::default() };
            done(tokens::print(&Loaded::from_process(flags)?.config.identity.jwt, &args))
        }
        CliCommand::Openapi => done(output::write(&penstock_http::openapi())),
    }
}

fn load(place: &PlaceArgs, listen: Option<&str>) -> anyhow::Result<Loaded> {
    let flags = Flags { config: place.config.as_deref(), data: place.data.as_deref(), listen };
    Ok(Loaded::from_process(flags)?)
}

/// The runtime of everything except serving requests; that has its own runtimes, one per core.
fn block_on<F: Future>(future: F) -> anyhow::Result<F::Output> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    Ok(runtime.context("the runtime can't be started")?.block_on(future))
}
