//! Merges values from defaults, file, variables and flags, each overriding the ones before. It remembers
//! where each value came from, so that a complaint can name the source.

use std::{fmt, path::Path};

use toml::Value;

use super::{
    table::{Setting, ValueSource},
    types::SettingType,
};

/// Variables that do not follow `PENSTOCK_SECTION__NAME`, because people expect them under these names.
const SHORT_VARIABLES: &[(&str, &str)] = &[
    ("PENSTOCK_ADMIN_TOKEN", "identity.admin_token"),
    ("PENSTOCK_SECRET", "identity.secret"),
    ("PENSTOCK_PREVIOUS_SECRET", "identity.previous_secret"),
];

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigComplaint {
    key: String,
    source: ValueSource,
    problem: String,
}

impl fmt::Display for ConfigComplaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(formatter, "{}: {}", self.source, self.problem)
        } else {
            write!(formatter, "{} (from {}): {}", self.key, self.source, self.problem)
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Layers {
    /// In the order in which they are printed.
    settings: Vec<Setting>,
    complaints: Vec<ConfigComplaint>,
    ignored_variables: Vec<String>,
}

impl Layers {
    pub(super) fn new(defaults: Vec<Setting>) -> Self {
        Self { settings: defaults, complaints: Vec::new(), ignored_variables: Vec::new() }
    }

    pub(super) fn settings(&self) -> &[Setting] {
        &self.settings
    }

    pub(super) fn find(&self, key: &str) -> Option<&Setting> {
        self.settings.iter().find(|setting| setting.key == key)
    }

    pub(super) fn add_file(&mut self, path: &Path) {
        let source = ValueSource::File(path.to_owned());
        let parsed = std::fs::read_to_string(path)
            .map_err(|error| format!("can't be read: {error}"))
            .and_then(|text| text.parse::<toml::Table>().map_err(|error| error.to_string()));
        match parsed {
            Ok(table) => self.add_table("", table, &source),
            Err(problem) => self.complain("", source, problem),
        }
    }

    fn add_table(&mut self, section: &str, table: toml::Table, source: &ValueSource) {
        for (name, value) in table {
            let key = if section.is_empty() { name } else { format!("{section}.{name}") };
            match value {
                Value::Table(inner) if self.find(&key).is_none() => self.add_table(&key, inner, source),
                value => self.set(&key, value, source.clone()),
            }
        }
    }

    /// Takes the `PENSTOCK_…` variables: `PENSTOCK_HTTP__LISTEN` is `http.listen`. A name that does not look
    /// like the path of a setting may belong to another program (Kubernetes sets `PENSTOCK_PORT` for a
    /// service of that name): it is noted and not refused.
    pub(super) fn add_variables(&mut self, variables: impl Iterator<Item = (String, String)>) {
        for (name, value) in variables {
            let Some(path) = name.strip_prefix("PENSTOCK_") else { continue };
            let short = SHORT_VARIABLES.iter().find(|(short, _)| *short == name).map(|(_, key)| *key);
            let key = short.map_or_else(|| path.to_lowercase().replace("__", "."), str::to_owned);
            if !path.contains("__") && self.find(&key).is_none() {
                self.ignored_variables.push(name);
            } else {
                self.set_text(&key, &value, ValueSource::Variable(name));
            }
        }
    }

    pub(super) fn add_flag(&mut self, flag: &'static str, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.set_text(key, value, ValueSource::Flag(flag));
        }
    }

    /// Sets a value from text, as variables and flags give it; the type of the default decides how it is
    /// read.
    fn set_text(&mut self, key: &str, text: &str, source: ValueSource) {
        let value = match self.find(key).map(|setting| &setting.value) {
            Some(Value::Integer(_)) => text.trim().parse().ok().map(Value::Integer),
            Some(Value::Boolean(_)) => text.trim().parse().ok().map(Value::Boolean),
            _ => None,
        };
        self.set(key, value.unwrap_or_else(|| text.into()), source);
    }

    fn set(&mut self, key: &str, value: Value, source: ValueSource) {
        let Some(setting) = self.settings.iter_mut().find(|setting| setting.key == key) else {
            let problem = self.unknown(key);
            return self.complain(key, source, problem);
        };
        if setting.value.same_type(&value) {
            (setting.value, setting.source) = (value, source);
            return;
        }
        let wanted = match setting.value {
            Value::Integer(_) => "a whole number",
            Value::Boolean(_) => "true or false",
            _ => "text in quotes",
        };
        let given = match value {
            Value::String(text) => format!("{text:?}"),
            other => other.type_str().to_owned(),
        };
        self.complain(key, source, format!("has to be {wanted}, not {given}"));
    }

    /// None: the value is wrong, and a complaint about it was added.
    pub(super) fn read<T: SettingType>(&mut self, key: &str) -> Option<T> {
        match self.find(key)?.read() {
            Ok(value) => Some(value),
            Err(problem) => {
                self.refuse(key, problem);
                None
            }
        }
    }

    /// The value of a setting that is a whole number.
    pub(super) fn number(&self, key: &str) -> i64 {
        let number = self.find(key).and_then(|setting| setting.value.as_integer());
        number.unwrap_or_else(|| unreachable!("{key} is not a setting with a number"))
    }

    /// Complains about the value of a setting.
    pub(super) fn refuse(&mut self, key: &str, problem: String) {
        let source = self.find(key).map_or(ValueSource::Default, |setting| setting.source.clone());
        self.complain(key, source, problem);
    }

    fn complain(&mut self, key: &str, source: ValueSource, problem: String) {
        self.complaints.push(ConfigComplaint { key: key.to_owned(), source, problem });
    }

    pub(super) fn complaints(&self) -> &[ConfigComplaint] {
        &self.complaints
    }

    pub(super) fn ignored_variables(&self) -> &[String] {
        &self.ignored_variables
    }

    /// Says that a key is unknown, and suggests what was probably meant.
    fn unknown(&self, key: &str) -> String {
        let name = key.rsplit('.').next().unwrap_or(key);
        let same_name = self.settings.iter().find(|setting| setting.name == name);
        let distance = |setting: &Setting| strsim::levenshtein(setting.key, key);
        let nearest = self.settings.iter().min_by_key(|setting| distance(setting));
        match same_name.or(nearest.filter(|setting| distance(setting) <= 3)) {
            Some(setting) => format!("no such setting; did you mean {}?", setting.key),
            None => "no such setting; `penstock config` lists them all".to_owned(),
        }
    }
}
