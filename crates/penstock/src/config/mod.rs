//! The configuration: defaults, then a TOML file, then `PENSTOCK_…` variables, then flags. One struct per
//! component; the components themselves know nothing about files and variables.

mod check;
mod layers;
mod print;
mod settings;
mod table;
mod types;

use std::{fmt, path::Path};

use layers::{ConfigComplaint, Layers};
pub(crate) use settings::{Config, IdentitySettings, JwtSettings, LogSettings};
pub(crate) use table::ValueSource;
pub(crate) use types::{EngineKind, LogFormat, RedisTopology};

/// The configuration that the command line gives.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flags<'a> {
    pub(crate) config: Option<&'a Path>,
    pub(crate) data: Option<&'a str>,
    pub(crate) listen: Option<&'a str>,
}

/// All mistakes in a configuration, one per line.
#[derive(Debug)]
pub(crate) struct ConfigError(Vec<ConfigComplaint>);

impl fmt::Display for ConfigError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the configuration has mistakes:")?;
        self.0.iter().try_for_each(|complaint| write!(formatter, "\n  {complaint}"))
    }
}

impl std::error::Error for ConfigError {}

/// A checked configuration, with the source of each value.
#[derive(Clone, Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    layers: Layers,
}

impl Loaded {
    /// `PENSTOCK_…` variables that do not name a setting.
    pub(crate) fn ignored_variables(&self) -> &[String] {
        self.layers.ignored_variables()
    }

    /// The source of a setting's value.
    pub(crate) fn source(&self, key: &str) -> &ValueSource {
        self.layers.find(key).map_or(&ValueSource::Default, |setting| &setting.source)
    }

    /// Reads the process's variables and the file that the flags name.
    pub(crate) fn from_process(flags: Flags<'_>) -> Result<Self, ConfigError> {
        let variables = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.into_string().ok()?)));
        Self::load(flags, variables)
    }

    pub(crate) fn load(
        flags: Flags<'_>,
        variables: impl Iterator<Item = (String, String)>,
    ) -> Result<Self, ConfigError> {
        let mut layers = Layers::new(Config::table());
        if let Some(path) = flags.config {
            layers.add_file(path);
        }
        layers.add_variables(variables);
        layers.add_flag("--data", "data", flags.data);
        layers.add_flag("--listen", "http.listen", flags.listen);
        if let Some(config) = Config::read(&mut layers)
            && layers.complaints().is_empty()
        {
            check::together(&config, &mut layers);
            if layers.complaints().is_empty() {
                return Ok(Self { config, layers });
            }
        }
        Err(ConfigError(layers.complaints().to_vec()))
    }

    /// The effective configuration as commented TOML; it can be used as a configuration file.
    pub(crate) fn to_toml(&self) -> String {
        print::toml(self.layers.settings())
    }

    pub(crate) fn to_json(&self) -> serde_json::Value {
        print::json(self.layers.settings())
    }
}

#[cfg(test)]
mod tests;
