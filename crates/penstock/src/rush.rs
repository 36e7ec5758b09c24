//! `penstock rush`: a rehearsal with simulated buyers, its live display, its report, and its verdict as the
//! exit code.

use std::{
    fs::File,
    io::{IsTerminal as _, Write as _},
    path::Path,
    sync::{Arc, OnceLock},
    thread,
};

use anyhow::{Context as _, anyhow, bail, ensure};
use penstock_rush::{
    api::ShopApi,
    rehearsal::{self, RehearsalNews},
    report::{self, LiveDisplay, RehearsalReport, View},
    scenario::{self, Mix, Scenario, ScenarioChallenge},
    token::TokenSigner,
};

use crate::{
    audit,
    cli::RushArgs,
    config::{Config, EngineKind, JwtSettings, Loaded},
    demo_file::DemoFile,
    folder, output,
    rush_origin::{self, ADMIN_TOKEN, JWT_SECRET},
    signals::Signals,
};

/// The requested rehearsal makes no sense.
#[derive(Debug, thiserror::Error)]
#[error("{0:#}")]
pub(crate) struct Misasked(anyhow::Error);

/// Runs the rehearsal and prints its report. True: every promise was kept.
pub(crate) async fn run(loaded: &Loaded, args: &RushArgs) -> anyhow::Result<bool> {
    let config = &loaded.config;
    let options = options(loaded, args)?;
    // A mistake that would fail afterwards should fail before the buyers come.
    let audited = args.place.data.is_some() || args.place.config.is_some();
    if audited && config.engine == EngineKind::Embedded {
        folder::require_readable(&config.data)?;
    }
    let page = args.report.as_ref().map(|file| File::create(file).with_context(|| unwritable(file)));
    let page = page.transpose()?;
    let mut report = rehearse(options, args).await?;
    if audited && let Err(error) = audit_too(config, &mut report).await {
        report.verdict.unchecked = Some(format!("{error:#}"));
        report.verdict.findings.push(report::sentence(format!("The shop can't be audited: {error:#}")));
    }
    output::result(args.json, &report, || report::text(&report))?;
    if let (Some(mut page), Some(file)) = (page, &args.report) {
        let written = page.write_all(report::html(&report)?.as_bytes());
        written.with_context(|| unwritable(file))?;
    }
    Ok(report.verdict.is_clean())
}

fn unwritable(file: &Path) -> String {
    format!("the report can't be written to {}", file.display())
}

/// Shows the rehearsal while it runs. An interrupted rehearsal leaves no sale behind.
async fn rehearse(options: rehearsal::RehearsalOptions, args: &RushArgs) -> anyhow::Result<RehearsalReport> {
    let mut signals = Signals::take_over()?;
    let view = match (args.quiet, std::io::stderr().is_terminal()) {
        (true, _) => View::Nothing,
        (false, true) => View::Display,
        (false, false) => View::Lines,
    };
    let published = Arc::new(OnceLock::new());
    let (url, admin_token) = (options.url.clone(), options.admin_token.clone());
    let heard = Arc::clone(&published);
    let (done, rehearsed) = tokio::sync::oneshot::channel();
    // On its own thread: the runtime would wait for the thread before the process may end.
    thread::spawn(move || {
        let mut live = LiveDisplay::start(&options.scenario.name, view);
        let report = rehearsal::run(&options, |news| match news {
            RehearsalNews::Says(line) => live.say(&line),
            RehearsalNews::Publishing(sale) => {
                heard.get_or_init(|| sale.to_owned());
            }
            RehearsalNews::Progress(progress) => live.show(progress),
        });
        live.finish();
        // Nobody waits for the report after an interruption.
        let _ = done.send(report);
    });
    let why = tokio::select! {
        report = rehearsed => match report {
            Ok(report) => return report,
            Err(_) => "the rehearsal ended unexpectedly",
        },
        _ = signals.next() => "interrupted",
    };
    let Some(sale) = published.get().cloned() else { bail!(why) };
    tokio::spawn(signals.end_at_next());
    let closed = tokio::task::spawn_blocking(move || ShopApi::at(&url, &admin_token)?.close_ours(&sale));
    closed.await?.with_context(|| format!("{why}, and its sale can't be closed"))?;
    bail!("{why}; its sale is closed")
}

/// Audits the ledger and the database themselves, not what the API says about them.
async fn audit_too(config: &Config, report: &mut RehearsalReport) -> anyhow::Result<()> {
    let audit = audit::report(config).await?;
    let verdict = &mut report.verdict;
    verdict.audit = Some(audit.ok && verdict.audit != Some(false));
    let place = match config.engine {
        EngineKind::Embedded => config.data.display().to_string(),
        EngineKind::Cluster => "the cluster".to_owned(),
    };
    verdict.checked.push(format!("the audit of {place}: {} orders", audit.orders));
    if !audit.ok {
        verdict.findings.push("The audit does not add up; see `penstock audit`.".to_owned());
    }
    Ok(())
}

fn options(loaded: &Loaded, args: &RushArgs) -> anyhow::Result<rehearsal::RehearsalOptions> {
    let config = &loaded.config;
    let scenario = scenario(args).map_err(Misasked)?;
    ShopApi::at(&args.url, "").map_err(Misasked)?;
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // The other half is for the server, which is often on the same machine.
    let threads = args.threads.unwrap_or((cores / 2).max(1));
    scenario::check_threads(threads).map_err(Misasked)?;
    require_server(config, &args.url)?;
    let demo = DemoFile::of(&config.data, &args.url);
    let configured = |secret: Option<&str>| secret.map(str::to_owned);
    let admin_token = configured(config.identity.admin_token.get())
        .or_else(|| demo.as_ref().and_then(|demo| demo.admin_token.clone()))
        .unwrap_or_default();
    if args.sale.is_none() && admin_token.is_empty() {
        return Err(Misasked(no_sale(config, &args.url)).into());
    }
    let tokens = if args.accounts { None } else { signer(&config.identity.jwt, demo.as_ref()) };
    let seed = match args.seed {
        Some(seed) => seed,
        None => getrandom::u32().context("the system provides no random bytes")?.into(),
    };
    Ok(rehearsal::RehearsalOptions {
        url: args.url.clone(),
        admin_token,
        sale: args.sale.clone(),
        admin_token_from: rush_origin::of(loaded, ADMIN_TOKEN),
        tokens: tokens.map(Arc::new),
        tokens_from: rush_origin::of(loaded, JWT_SECRET),
        scenario,
        threads,
        seed,
    })
}

/// Checked before asking for settings that are useless without a server.
fn require_server(config: &Config, url: &str) -> anyhow::Result<()> {
    let Err(error) = ShopApi::at(url, "").map_err(Misasked)?.date() else { return Ok(()) };
    let start = || {
        "start a server with `make run` or `make cluster`, or name another --url (URL=… of make)".to_owned()
    };
    bail!("{error:#}; {}", demo_elsewhere(config, url).unwrap_or_else(start))
}

/// The data folder belongs to a demo at another address, which may be the intended one.
fn demo_elsewhere(config: &Config, url: &str) -> Option<String> {
    let (demo, file) = (DemoFile::read(&config.data)?, config.data.join(folder::DEMO_FILE));
    let is_elsewhere = DemoFile::of(&config.data, url).is_none();
    is_elsewhere.then(|| {
        format!(
            "{} belongs to a demo at {}: if you mean that one, name it with --url (URL=… of make)",
            file.display(),
            demo.url
        )
    })
}

/// An existing sale is bought from only if it is named: it may be a shop's real offer.
fn no_sale(config: &Config, url: &str) -> anyhow::Error {
    let elsewhere = demo_elsewhere(config, url).map_or_else(String::new, |demo| format!(". {demo}"));
    anyhow!(
        "which sale? Name one to buy from with --sale ID, or have one published for the rehearsal. That takes \
         the server's admin token in PENSTOCK_ADMIN_TOKEN, its --config FILE, or the --data DIR of a demo at this URL{elsewhere}"
    )
}

fn signer(jwt: &JwtSettings, demo: Option<&DemoFile>) -> Option<TokenSigner> {
    if let Some(secret) = jwt.secret.get() {
        let signer = TokenSigner::lasting(secret.as_bytes());
        return Some(signer.with_parties(jwt.issuer.clone(), jwt.audience.clone()));
    }
    demo.and_then(|demo| demo.jwt_secret.as_deref()).map(|secret| TokenSigner::lasting(secret.as_bytes()))
}

/// The named scenario, or a plain one, with the changes that the flags make.
fn scenario(args: &RushArgs) -> anyhow::Result<Scenario> {
    let terms = [
        ("--units", args.units.is_some()),
        ("--limit-per-buyer", args.limit_per_buyer.is_some()),
        ("--hold-seconds", args.hold_seconds.is_some()),
        ("--opens-in", args.opens_in.is_some()),
        ("--challenge", args.challenge.is_some()),
        ("--waiting-room", args.waiting_room),
    ];
    let given = terms.iter().find(|(_, given)| args.sale.is_some() && *given);
    ensure!(
        given.is_none(),
        "{} is for a new sale; the one that --sale names has its own",
        given.map_or("", |term| term.0)
    );
    let mut scenario = match &args.scenario {
        Some(name) => Scenario::load(name)?,
        None => {
            let buyers = args.buyers.context("how many buyers? Give --buyers N, or a --scenario")?;
            // An existing sale has its own units.
            let units = args.units.or_else(|| args.sale.as_ref().map(|_| 1));
            Scenario::plain(
                buyers,
                units.context("how many units? Give --units N, or a --scenario or a --sale")?,
            )
        }
    };
    let Scenario { sale, crowd, arrivals, mix, .. } = &mut scenario;
    let replace = |field: &mut f64, flag: Option<f64>| *field = flag.unwrap_or(*field);
    sale.units = args.units.unwrap_or(sale.units);
    sale.limit_per_buyer = args.limit_per_buyer.unwrap_or(sale.limit_per_buyer);
    sale.hold_seconds = args.hold_seconds.unwrap_or(sale.hold_seconds);
    replace(&mut sale.opens_in_seconds, args.opens_in);
    if let Some(challenge) = &args.challenge {
        sale.challenge = read_challenge(challenge)?;
    }
    sale.waiting_room |= args.waiting_room;
    crowd.buyers = args.buyers.unwrap_or(crowd.buyers);
    crowd.connections = args.connections.unwrap_or(crowd.connections);
    replace(&mut crowd.bots, args.bots);
    // Bots share addresses, which shows only if people have their own.
    crowd.forwarded_addresses |= crowd.bots > 0.0;
    if args.rate.is_some() && args.scenario.is_none() {
        // A rate is for everybody, unless a burst is asked for, too.
        arrivals.burst_at_opening = 0.0;
    }
    replace(&mut arrivals.rate, args.rate);
    replace(&mut arrivals.ramp_seconds, args.ramp);
    replace(&mut arrivals.burst_at_opening, args.burst_at_opening);
    replace(&mut arrivals.duration_seconds, args.duration);
    for part in args.mix.iter().flat_map(|mix| mix.split(',')) {
        set(mix, part)?;
    }
    scenario.check().map_err(|error| anyhow!(by_flags(args, error.to_string())))?;
    Ok(scenario)
}

/// If a complaint is about a number from a flag, names the flag instead of a field of a file.
fn by_flags(args: &RushArgs, complaint: String) -> String {
    let flags = [
        ("crowd.buyers", "--buyers", args.buyers.is_some()),
        ("crowd.connections", "--connections", args.connections.is_some()),
        ("crowd.bots", "--bots", args.bots.is_some()),
        ("sale.units", "--units", args.units.is_some()),
        ("sale.limit_per_buyer", "--limit-per-buyer", args.limit_per_buyer.is_some()),
        ("sale.hold_seconds", "--hold-seconds", args.hold_seconds.is_some()),
        ("sale.opens_in_seconds", "--opens-in", args.opens_in.is_some()),
        ("arrivals.rate", "--rate", args.rate.is_some()),
        ("arrivals.ramp_seconds", "--ramp", args.ramp.is_some()),
        ("arrivals.duration_seconds", "--duration", args.duration.is_some()),
        ("arrivals.burst_at_opening", "--burst-at-opening", args.burst_at_opening.is_some()),
    ];
    let given = flags.into_iter().filter(|(_, _, is_given)| *is_given);
    given.fold(complaint, |complaint, (field, flag, _)| complaint.replace(field, flag))
}

fn read_challenge(text: &str) -> anyhow::Result<ScenarioChallenge> {
    match text {
        "none" => Ok(ScenarioChallenge::None),
        "pow" => Ok(ScenarioChallenge::Pow),
        "captcha" => Ok(ScenarioChallenge::Captcha),
        other => Err(anyhow!("--challenge is none, pow or captcha, not {other:?}")),
    }
}

/// Applies one part of `--mix`, such as `pays=0.7`.
fn set(mix: &mut Mix, part: &str) -> anyhow::Result<()> {
    let unreadable = || anyhow!("--mix is a list such as pays=0.7,pays_late=0.1,cancels=0.1, not {part:?}");
    let (name, value) = part.trim().split_once('=').ok_or_else(unreadable)?;
    let (name, value) = (name.trim(), value.trim());
    if name == "comes_back" {
        mix.comes_back = value.parse().map_err(|_| anyhow!("comes_back is a count, not {value:?}"))?;
        return Ok(());
    }
    let share = match name {
        "looks" => &mut mix.looks,
        "pays" => &mut mix.pays,
        "pays_late" => &mut mix.pays_late,
        "cancels" => &mut mix.cancels,
        "presses_early" => &mut mix.presses_early,
        "double_clicks" => &mut mix.double_clicks,
        _ => bail!(
            "--mix has looks, pays, pays_late, cancels, presses_early, double_clicks and comes_back, but no {name:?}"
        ),
    };
    *share = value.parse().map_err(|_| unreadable())?;
    Ok(())
}
