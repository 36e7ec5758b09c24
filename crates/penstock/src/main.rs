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
mod hexadecimal;
mod logging;
mod opened;
mod options;
mod output;
mod rooms;
mod rush;
mod rush_origin;
mod secret_file;
mod secrets;
mod serve;
mod settle;
mod settled_in_records;
mod settling;
mod signals;
mod tokens;

use std::{future::Future, process::ExitCode};

use anyhow::Context as _;
use clap::{CommandFactory as _, Parser as _};
use penstock_shop::identity::InvalidAccount;

use crate::{
    cli::{AdminCommand, Cli, CliCommand, DrawCommand, PlaceArgs},
    config::{Config, ConfigError, Flags, Loaded},
};

/// A mistake in the request, as opposed to a failure to carry it out. clap exits with the same code.
const EXIT_USAGE: u8 = 2;
const EXIT_FAILURE: u8 = 1;

fn main() -> ExitCode {
    let outcome = match Cli::parse().command {
        Some(command) => run(command),
        None => output::write(&Cli::command().render_help().to_string()).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(EXIT_FAILURE),
        Err(error) => {
            eprintln!("penstock: {error:#}");
            let usage = error.is::<ConfigError>()
                || error.is::<InvalidAccount>()
                || error.is::<admin::NoPassword>()
                || error.is::<draw::UnusableDraw>()
                || error.is::<tokens::CannotSign>()
                || error.is::<rush::Misasked>();
            ExitCode::from(if usage { EXIT_USAGE } else { EXIT_FAILURE })
        }
    }
}

/// False: an audit or a rehearsal has found something wrong.
fn run(command: CliCommand) -> anyhow::Result<bool> {
    match command {
        CliCommand::Audit(args) => return block_on(audit::run(&load(&args.place, None)?.config, args.json)),
        CliCommand::Rush(args) => return block_on(rush::run(&load(&args.place, None)?, &args)),
        CliCommand::Serve(args) => {
            let config = load_and_log(&args.place, args.listen.as_deref())?;
            block_on(serve::run(config, args.demo))
        }
        CliCommand::Settle(place) => block_on(settle::run(load_and_log(&place, None)?)),
        CliCommand::Admin(AdminCommand::Create(args)) => {
            block_on(admin::create(&load(&args.place, None)?.config, &args))
        }
        CliCommand::Admin(AdminCommand::Promote(args)) => {
            block_on(admin::promote(&load(&args.place, None)?.config, &args))
        }
        CliCommand::Admin(AdminCommand::RotateSecret(args)) => {
            block_on(admin::rotate_secret(&load(&args.place, None)?.config, args.json))
        }
        CliCommand::Migrate(args) => block_on(admin::migrate(&load(&args.place, None)?.config, args.json)),
        CliCommand::Config(args) => {
            let loaded = load(&args.place, args.listen.as_deref())?;
            output::result(args.json, &loaded.to_json(), || loaded.to_toml())
        }
        CliCommand::Draw(DrawCommand::Verify(args)) => draw::verify(&args),
        CliCommand::Tokens(args) => {
            let flags = Flags { config: args.config.as_deref(), ..Flags::default() };
            tokens::print(&Loaded::from_process(flags)?.config.identity.jwt, &args)
        }
        CliCommand::Openapi => output::write(&penstock_http::openapi()),
    }?;
    Ok(true)
}

fn load(place: &PlaceArgs, listen: Option<&str>) -> anyhow::Result<Loaded> {
    let flags = Flags { config: place.config.as_deref(), data: place.data.as_deref(), listen };
    Ok(Loaded::from_process(flags)?)
}

/// For a program that runs until it is told to stop: its log says which variables were ignored.
fn load_and_log(place: &PlaceArgs, listen: Option<&str>) -> anyhow::Result<Config> {
    let loaded = load(place, listen)?;
    logging::start(&loaded.config.log)?;
    for variable in loaded.ignored_variables() {
        tracing::warn!(variable, "no such setting; the variable is ignored");
    }
    Ok(loaded.config)
}

/// Uses the runtime of everything except serving requests; that has its own runtimes, one per core.
fn block_on<T>(work: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime can't be started")?.block_on(work)
}
