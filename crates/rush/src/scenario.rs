//! A rehearsal as a file: what is on sale, who comes, when, and what they do. It is parsed and checked here,
//! so that the rest of the code can trust the numbers.

use std::{fs, path::Path};

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};

/// The built-in scenarios, by name.
const BUILT_IN: [(&str, &str); 5] = [
    ("thirty-thousand-for-two-hundred", include_str!("../scenarios/thirty-thousand-for-two-hundred.toml")),
    ("ten-million", include_str!("../scenarios/ten-million.toml")),
    ("unpaid", include_str!("../scenarios/unpaid.toml")),
    ("bots", include_str!("../scenarios/bots.toml")),
    ("late-opening", include_str!("../scenarios/late-opening.toml")),
];
const MAX_BUYERS: u64 = 1_000_000_000;
const MAX_CONNECTIONS: usize = 60_000;
const MAX_THREADS: usize = 64;
const DAY_SECONDS: f64 = 86_400.0;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    pub name: String,
    /// One sentence for the report. `{buyers}`, `{bots}`, `{units}` and `{limit}` stand for the numbers of
    /// the run.
    pub about: String,
    pub sale: ScenarioSale,
    pub crowd: Crowd,
    #[serde(default)]
    pub arrivals: Arrivals,
    #[serde(default)]
    pub mix: Mix,
}

/// The sale that is published for the run. It is ignored for an existing sale, which has its own terms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ScenarioSale {
    pub units: u32,
    #[serde(default = "one")]
    pub limit_per_buyer: u32,
    /// How long a buyer has to pay.
    #[serde(default = "fifteen_minutes")]
    pub hold_seconds: u32,
    /// From publishing to the opening.
    #[serde(default = "five")]
    pub opens_in_seconds: f64,
    #[serde(default)]
    pub challenge: ScenarioChallenge,
    #[serde(default)]
    pub waiting_room: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ScenarioChallenge {
    #[default]
    None,
    Pow,
    Captcha,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Crowd {
    pub buyers: u64,
    /// Additional bots for each buyer: 0.1 means one bot for ten buyers.
    #[serde(default)]
    pub bots: f64,
    /// Connections to keep open; 0 means one for each buyer, up to what the machine allows.
    #[serde(default)]
    pub connections: usize,
    /// Each buyer sends an address of its own in `X-Forwarded-For`; bots share a few. Only a server that
    /// trusts us as its proxy uses it.
    #[serde(default)]
    pub forwarded_addresses: bool,
}

/// When buyers come.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Arrivals {
    /// The share of buyers who come before the opening and press the button at it.
    pub burst_at_opening: f64,
    /// The time between the quickest and the slowest finger of the burst.
    pub burst_seconds: f64,
    /// Buyers a second from the opening on, of those outside the burst. 0: as fast as possible; each
    /// connection takes the next buyer when it is done with the last.
    pub rate: f64,
    /// The time in which the rate grows from nothing to its full height.
    pub ramp_seconds: f64,
    /// Nobody comes later than this after the opening; 0: no limit.
    pub duration_seconds: f64,
}

/// The buyers' behaviour. Shares are parts of one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Mix {
    /// Look at the sale page first.
    pub looks: f64,
    /// Shares of those who got a unit: pay in time, pay after the hold is over, cancel. The rest walk away.
    pub pays: f64,
    pub pays_late: f64,
    pub cancels: f64,
    /// The least and the longest time between getting a unit and paying or cancelling.
    pub thinks_seconds: [f64; 2],
    /// How many times a buyer who is told "sold out" comes back.
    pub comes_back: u32,
    /// The wait before each of these returns.
    pub comes_back_after_seconds: f64,
    /// Of those who wait for the opening: the impatient, who press before it.
    pub presses_early: f64,
    /// Press the button twice: the same key on two connections at once.
    pub double_clicks: f64,
}

impl Default for Mix {
    fn default() -> Self {
        Self {
            looks: 1.0,
            pays: 0.8,
            pays_late: 0.0,
            cancels: 0.05,
            thinks_seconds: [0.2, 1.5],
            comes_back: 0,
            comes_back_after_seconds: 1.0,
            presses_early: 0.0,
            double_clicks: 0.0,
        }
    }
}

fn one() -> u32 {
    1
}

fn fifteen_minutes() -> u32 {
    900
}

fn five() -> f64 {
    5.0
}

impl Scenario {
    /// Loads a built-in scenario by its name, or a file by its path.
    pub fn load(name_or_path: &str) -> anyhow::Result<Self> {
        let built_in = BUILT_IN.iter().find(|(name, _)| *name == name_or_path);
        let text = match built_in {
            Some((_, text)) => (*text).to_owned(),
            None if Path::new(name_or_path).is_file() => {
                fs::read_to_string(name_or_path).with_context(|| format!("cannot read {name_or_path}"))?
            }
            None => {
                let names: Vec<_> = Self::names().collect();
                bail!(
                    "there is no scenario {name_or_path:?}; there are {}, or give the path of a file",
                    names.join(", ")
                );
            }
        };
        let scenario: Self = toml::from_str(&text).with_context(|| format!("scenario {name_or_path}"))?;
        scenario.check().with_context(|| format!("scenario {name_or_path}"))?;
        Ok(scenario)
    }

    pub fn names() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// Everybody presses at the opening: the default when no scenario is named.
    pub fn plain(buyers: u64, units: u32) -> Self {
        Self {
            name: "plain".to_owned(),
            about: "{buyers} simulated buyers.".to_owned(),
            sale: ScenarioSale {
                units,
                limit_per_buyer: 1,
                hold_seconds: 900,
                opens_in_seconds: 5.0,
                challenge: ScenarioChallenge::None,
                waiting_room: false,
            },
            crowd: Crowd { buyers, bots: 0.0, connections: 0, forwarded_addresses: false },
            arrivals: Arrivals { burst_at_opening: 1.0, ..Arrivals::default() },
            mix: Mix::default(),
        }
    }

    /// Fails if a number is wrong, and says which.
    pub fn check(&self) -> anyhow::Result<()> {
        let Self { sale, crowd, arrivals, mix, .. } = self;
        ensure!(sale.units > 0, "sale.units has to be at least 1");
        ensure!(sale.limit_per_buyer > 0, "sale.limit_per_buyer has to be at least 1");
        ensure!(sale.hold_seconds > 0, "sale.hold_seconds has to be at least 1");
        ensure!((1..=MAX_BUYERS).contains(&crowd.buyers), "crowd.buyers has to be from 1 to {MAX_BUYERS}");
        ensure!(
            crowd.connections <= MAX_CONNECTIONS,
            "crowd.connections has to be at most {MAX_CONNECTIONS}"
        );
        ensure!((0.0..=10.0).contains(&crowd.bots), "crowd.bots has to be from 0 to 10");
        for (name, share) in [
            ("arrivals.burst_at_opening", arrivals.burst_at_opening),
            ("mix.looks", mix.looks),
            ("mix.pays", mix.pays),
            ("mix.pays_late", mix.pays_late),
            ("mix.cancels", mix.cancels),
            ("mix.presses_early", mix.presses_early),
            ("mix.double_clicks", mix.double_clicks),
        ] {
            ensure!((0.0..=1.0).contains(&share), "{name} is a share, from 0 to 1, not {share}");
        }
        let after_an_order = mix.pays + mix.pays_late + mix.cancels;
        ensure!(
            after_an_order <= 1.0 + 1e-9,
            "mix.pays, mix.pays_late and mix.cancels make {after_an_order} together, more than 1"
        );
        let [least, most] = mix.thinks_seconds;
        ensure!(least <= most, "mix.thinks_seconds: the first number must not be greater than the second");
        for (name, seconds) in [
            ("sale.opens_in_seconds", sale.opens_in_seconds),
            ("arrivals.burst_seconds", arrivals.burst_seconds),
            ("arrivals.ramp_seconds", arrivals.ramp_seconds),
            ("arrivals.duration_seconds", arrivals.duration_seconds),
            ("mix.thinks_seconds", least),
            ("mix.thinks_seconds", most),
            ("mix.comes_back_after_seconds", mix.comes_back_after_seconds),
        ] {
            ensure!(
                (0.0..=DAY_SECONDS).contains(&seconds),
                "{name} has to be from 0 to a day, not {seconds}"
            );
        }
        ensure!(
            (0.0..=1e8).contains(&arrivals.rate),
            "arrivals.rate has to be from 0 to 100,000,000 a second"
        );
        ensure!(
            arrivals.ramp_seconds == 0.0 || arrivals.rate > 0.0,
            "arrivals.ramp_seconds needs an arrivals.rate to reach"
        );
        Ok(())
    }
}

/// The number of generator threads; more would only get in each other's way.
pub fn check_threads(threads: usize) -> anyhow::Result<()> {
    ensure!((1..=MAX_THREADS).contains(&threads), "threads have to be from 1 to {MAX_THREADS}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_scenario_is_sound_and_named_as_its_file() {
        for name in Scenario::names() {
            let scenario = Scenario::load(name).unwrap();
            assert_eq!(scenario.name, name);
            assert!(scenario.about.ends_with('.'), "{name}: {}", scenario.about);
        }
    }

    #[test]
    fn a_wrong_number_is_named() {
        let mut scenario = Scenario::plain(10, 1);
        scenario.mix.pays = 0.9;
        scenario.mix.cancels = 0.2;
        let error = scenario.check().unwrap_err().to_string();
        assert!(error.contains("more than 1"), "{error}");
        let error = Scenario::load("no-such").unwrap_err().to_string();
        assert!(error.contains("ten-million"), "{error}");
    }

    #[test]
    fn an_unknown_field_is_refused() {
        let text = "name = \"x\"\nabout = \"x.\"\n[sale]\nunits = 1\n[crowd]\nbuyers = 1\nbuyrs = 2\n";
        let error = toml::from_str::<Scenario>(text).unwrap_err().to_string();
        assert!(error.contains("buyrs"), "{error}");
    }
}
