//! A whole rehearsal: finds or publishes the sale, runs the crowd, judges the outcome. Uses only the public
//! API; the caller decides what is shown meanwhile.

mod opening;
mod sign_up;

use std::sync::Arc;

use anyhow::{Context, ensure};
use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    api::{SaleOffer, ShopApi, text},
    crowd::{self, BuyerIdentity, CrowdPlan, GateSteps},
    report::{PeopleCounts, Progress, RehearsalReport, sentence, thousands},
    scenario::{self, Scenario, ScenarioChallenge},
    steal::Steal,
    token::TokenSigner,
    verdict::{self, Evidence},
};

use opening::ServerClock;

#[derive(Debug)]
pub struct RehearsalOptions {
    pub url: String,
    /// For publishing the sale and asking for the audit; empty: there is none.
    pub admin_token: String,
    pub admin_token_from: SecretOrigin,
    /// An existing sale; `None`: one is published for the rehearsal, which takes an admin token.
    pub sale: Option<String>,
    /// Signs the buyers' tokens as the shop does; `None`: the buyers sign up for accounts.
    pub tokens: Option<Arc<TokenSigner>>,
    pub tokens_from: SecretOrigin,
    pub scenario: Scenario,
    pub threads: usize,
    pub seed: u64,
}

/// Where a secret came from, for the message that the server does not accept it.
#[derive(Clone, Debug)]
pub struct SecretOrigin {
    pub place: String,
    /// How to fix it.
    pub remedy: String,
}

/// Progress, for the display.
#[derive(Debug)]
pub enum RehearsalNews<'a> {
    /// A line to keep on the screen.
    Says(String),
    /// This sale is being published for the rehearsal, and is on offer until it is closed.
    Publishing(&'a str),
    Progress(&'a Progress),
}

/// The sale that is rehearsed.
struct Sale {
    id: String,
    is_ours: bool,
    terms: Value,
}

pub fn run(
    options: &RehearsalOptions,
    mut tell: impl FnMut(RehearsalNews<'_>),
) -> anyhow::Result<RehearsalReport> {
    let scenario = &options.scenario;
    scenario.check()?;
    scenario::check_threads(options.threads)?;
    let api = ShopApi::at(&options.url, &options.admin_token)?;
    // An existing sale is somebody's: the crowd buys from it only if it is named.
    ensure!(options.sale.is_some() || api.is_admin(), "no sale is named, and none can be published");
    // Fails early if there is no server.
    api.date()?;
    check_admin_token(&api, options)?;
    let identity = identity(&api, options, &mut tell)?;
    if let Some(id) = &options.sale {
        return rehearse(&api, options, &find(&api, id)?, identity, &mut tell);
    }
    let id = draft(&api, scenario).context("the sale can't be drafted")?;
    tell(RehearsalNews::Publishing(&id));
    let published = publish(&api, &id);
    let is_published = published.is_ok();
    let rehearsed = published.and_then(|sale| rehearse(&api, options, &sale, identity, &mut tell));
    // Nobody should buy the rest of a rehearsed sale, however the rehearsal ended. A sale whose publishing
    // failed may be on offer all the same.
    let closed = if is_published { api.close_ours(&id) } else { api.steer(&id, "close") };
    match (rehearsed, closed) {
        (Ok(report), Ok(())) => Ok(report),
        (Ok(mut report), Err(error)) => {
            let finding = format!("Left open: the rehearsed sale can't be closed: {error:#}");
            report.verdict.findings.push(sentence(finding));
            Ok(report)
        }
        (Err(error), Err(open)) if is_published => {
            Err(error.context(format!("its sale {id} is left open ({open:#})")))
        }
        (Err(error), _) => Err(error),
    }
}

fn rehearse(
    api: &ShopApi,
    options: &RehearsalOptions,
    sale: &Sale,
    identity: BuyerIdentity,
    tell: &mut impl FnMut(RehearsalNews<'_>),
) -> anyhow::Result<RehearsalReport> {
    let clock = ServerClock::read(|| if sale.is_ours { api.our_sale(&sale.id) } else { api.sale(&sale.id) })?;
    let plan = plan(api, options, sale, &clock, identity)?;
    tell(RehearsalNews::Says(introduction(sale, &plan)));
    let steal = Steal::start().ok();
    let mut outcome = crowd::run(&plan, |progress| tell(RehearsalNews::Progress(progress)))?;
    outcome.report.generator.steal_percent = steal.and_then(|steal| steal.percent().ok());
    tell(RehearsalNews::Says("Everybody has gone home. Comparing promises with orders.".to_owned()));
    let limit_per_buyer = number(&sale.terms, "/limit_per_buyer")?;
    let evidence = Evidence {
        sale: &sale.id,
        limit_per_buyer,
        promised: &outcome.promised,
        doubtful: &outcome.doubtful,
        contradictions: &outcome.contradictions,
        unanswered: outcome.unanswered,
        is_ours_alone: sale.is_ours,
    };
    // The measurements are worth a report, even if it is no longer possible to check the promises.
    let verdict =
        verdict::judge(api, &evidence).unwrap_or_else(|error| verdict::unchecked(&evidence, &error));
    let units = number(&sale.terms, "/stock/total")?;
    Ok(RehearsalReport {
        scenario: options.scenario.name.clone(),
        about: about(&options.scenario, &outcome.report.people, units, limit_per_buyer),
        url: options.url.clone(),
        sale: sale.id.clone(),
        started_at: clock.read_at(),
        seed: options.seed,
        units,
        limit_per_buyer,
        verdict,
        ..outcome.report
    })
}

/// Fails before anybody comes if the server does not accept the token. Otherwise only the audit at the end
/// would notice.
fn check_admin_token(api: &ShopApi, options: &RehearsalOptions) -> anyhow::Result<()> {
    if !api.is_admin() {
        return Ok(());
    }
    let reply = api.ask("GET", "/api/v1/admin/sales?limit=1", Some(&api.admin_token), None)?;
    let SecretOrigin { place, remedy } = &options.admin_token_from;
    ensure!(
        !matches!(reply.status, 401 | 403),
        "{} does not accept the admin token: the one from {place} is not the server's identity.admin_token; {remedy}",
        options.url
    );
    Ok(())
}

/// The identity of the buyers. Accounts are all signed up before anybody comes.
fn identity(
    api: &ShopApi,
    options: &RehearsalOptions,
    tell: &mut impl FnMut(RehearsalNews<'_>),
) -> anyhow::Result<BuyerIdentity> {
    match &options.tokens {
        Some(signer) => {
            let token = signer.token("penstock-rush");
            let reply = api.ask("GET", "/api/v1/me", Some(&token), None)?;
            let SecretOrigin { place, remedy } = &options.tokens_from;
            ensure!(
                reply.status != 401,
                "{} does not accept the buyers' tokens: the JWT secret from {place} is not the server's \
                 identity.jwt.secret; {remedy}",
                options.url
            );
            ensure!(reply.status == 200, "GET /api/v1/me was answered {}", reply.in_words());
            Ok(BuyerIdentity::Jwt { signer: Arc::clone(signer), prefix: format!("rush-{:x}-", options.seed) })
        }
        None => sign_up::accounts(api, options, tell).map(BuyerIdentity::Accounts),
    }
}

/// Finds the named sale.
fn find(api: &ShopApi, id: &str) -> anyhow::Result<Sale> {
    let terms = api.sale(id).with_context(|| format!("the sale {id} can't be read"))?;
    let state = text(&terms, "state")?;
    ensure!(
        matches!(state.as_str(), "open" | "scheduled"),
        "the sale {id} is {state}; a rehearsal needs one that is open or scheduled"
    );
    Ok(Sale { id: id.to_owned(), is_ours: false, terms })
}

fn draft(api: &ShopApi, scenario: &Scenario) -> anyhow::Result<String> {
    let terms = &scenario.sale;
    let opens_in = SignedDuration::try_from_secs_f64(terms.opens_in_seconds).context("opens_in_seconds")?;
    let opens_at = opening::server_date(api)?.checked_add(opens_in).context("the opening is too far away")?;
    let gated = terms.challenge != ScenarioChallenge::None || terms.waiting_room;
    let closes_at = opens_at.checked_add(longest(scenario)?).context("the sale would never close")?;
    let offer = SaleOffer {
        title: format!("Rehearsal: {}", scenario.name),
        units: terms.units,
        limit_per_buyer: terms.limit_per_buyer,
        hold_seconds: terms.hold_seconds,
        opens_at: Some(opens_at.to_string()),
        closes_at: Some(closes_at.to_string()),
        gate: gated.then(|| json!({"challenge": terms.challenge, "waiting_room": terms.waiting_room})),
    };
    api.draft(&offer)
}

fn publish(api: &ShopApi, id: &str) -> anyhow::Result<Sale> {
    api.steer(id, "publish").context("the sale can't be published")?;
    Ok(Sale { id: id.to_owned(), is_ours: true, terms: api.our_sale(id)? })
}

/// Longer than any run. If this process is killed, its sale closes by itself after this time.
fn longest(scenario: &Scenario) -> anyhow::Result<SignedDuration> {
    const MARGIN_SECONDS: f64 = 6.0 * 3600.0;
    let Scenario { sale, crowd, arrivals, .. } = scenario;
    let coming = if arrivals.rate > 0.0 { crowd.buyers as f64 / arrivals.rate } else { 0.0 };
    let seconds = coming + arrivals.ramp_seconds + f64::from(sale.hold_seconds) + MARGIN_SECONDS;
    SignedDuration::try_from_secs_f64(seconds).context("the scenario takes too long")
}

fn plan(
    api: &ShopApi,
    options: &RehearsalOptions,
    sale: &Sale,
    clock: &ServerClock,
    identity: BuyerIdentity,
) -> anyhow::Result<CrowdPlan> {
    let Scenario { crowd, arrivals, mix, .. } = options.scenario.clone();
    let flag = |pointer: &str| sale.terms.pointer(pointer).and_then(Value::as_bool).unwrap_or(false);
    let challenge = sale.terms.pointer("/gate/challenge").and_then(Value::as_str);
    Ok(CrowdPlan {
        address: api.address,
        host: api.host.clone(),
        sale: sale.id.clone(),
        opens_at: clock.opening(&sale.terms)?,
        units: number(&sale.terms, "/stock/available")?,
        hold_seconds: u32::try_from(number(&sale.terms, "/hold_seconds")?)?,
        gate: GateSteps {
            challenge: challenge.is_some_and(|kind| kind != "none"),
            waiting_room: flag("/gate/waiting_room"),
            pass_required: flag("/gate/pass_required"),
        },
        identity,
        quantity: 1,
        crowd,
        arrivals,
        mix,
        threads: options.threads,
        seed: options.seed,
    })
}

fn number(terms: &Value, pointer: &str) -> anyhow::Result<u64> {
    terms
        .pointer(pointer)
        .and_then(Value::as_u64)
        .with_context(|| format!("a sale without {pointer}: {terms}"))
}

fn introduction(sale: &Sale, plan: &CrowdPlan) -> String {
    let whose =
        if sale.is_ours { "published for this rehearsal" } else { "an existing sale, with its own terms" };
    format!("Sale {} ({whose}): {} units, {} buyers.", sale.id, plan.units, plan.crowd.buyers)
}

/// The scenario's sentence with the numbers of this run: flags, or an existing sale, may change them.
fn about(scenario: &Scenario, people: &PeopleCounts, units: u64, limit_per_buyer: u64) -> String {
    let limit = match limit_per_buyer {
        1 => "one".to_owned(),
        2 => "two".to_owned(),
        more => thousands(more),
    };
    let figures = [("{buyers}", people.buyers), ("{bots}", people.bots), ("{units}", units)]
        .map(|(name, count)| (name, thousands(count)));
    let figures = figures.into_iter().chain([("{limit}", limit)]);
    figures.fold(scenario.about.clone(), |about, (name, figure)| about.replace(name, &figure))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scenario_describes_the_crowd_of_the_run_not_the_one_in_its_file() {
        let people = PeopleCounts { buyers: 2_000, bots: 500, ..PeopleCounts::default() };
        for name in Scenario::names() {
            let scenario = Scenario::load(name).unwrap();
            let told = about(&scenario, &people, 40, 3);
            assert!(!told.contains(['{', '}']) && !told.contains("0,000") && told.contains("40 "), "{told}");
        }
        let classic = Scenario::load("thirty-thousand-for-two-hundred").unwrap();
        let told = about(&classic, &people, 200, 1);
        assert_eq!(told, "2,000 people wait for the opening of a sale of 200 units, one each.");
    }
}
