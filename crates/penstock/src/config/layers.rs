//! Merges values from defaults, file, variables and flags, each overriding the ones before. It remembers
//! where each value came from, so that a complaint can name the source.

use std::{collections::BTreeMap, fmt, path::Path, path::PathBuf};

use toml::Value;

use super::settings::{self, Default, SETTINGS, SHORT_VARIABLES};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    Default,
    File(PathBuf),
    Variable(String),
    Flag(&'static str),
}

impl fmt::Display for Source {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => formatter.write_str("the defaults"),
            Self::File(path) => write!(formatter, "{}", path.display()),
            Self::Variable(name) => write!(formatter, "the variable {name}"),
            Self::Flag(flag) => write!(formatter, "the flag {flag}"),
        }
    }
}

/// One mistake in a configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complaint {
    pub(crate) key: String,
    pub(crate) source: Source,
    pub(crate) problem: String,
}

impl fmt::Display for Complaint {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() {
            write!(formatter, "{}: {}", self.source, self.problem)
        } else {
            write!(formatter, "{} (from {}): {}", self.key, self.source, self.problem)
        }
    }
}

/// The value of each setting and its source.
#[derive(Clone, Debug)]
pub(crate) struct Layers {
    values: BTreeMap<&'static str, (Value, Source)>,
    complaints: Vec<Complaint>,
    ignored_variables: Vec<String>,
}

impl Layers {
    pub(crate) fn defaults() -> Self {
        let value = |default: &Default| match default {
            Default::Text(text) => Value::String((*text).to_owned()),
            Default::Number(number) => Value::Integer(*number),
            Default::Flag(flag) => Value::Boolean(*flag),
        };
        let values = SETTINGS
            .iter()
            .map(|setting| (setting.key, (value(&setting.default), Source::Default)))
            .collect();
        Self { values, complaints: Vec::new(), ignored_variables: Vec::new() }
    }

    pub(crate) fn add_file(&mut self, path: &Path) {
        let source = Source::File(path.to_owned());
        let parsed = std::fs::read_to_string(path)
            .map_err(|error| format!("can't be read: {error}"))
            .and_then(|text| text.parse::<toml::Table>().map_err(|error| error.to_string()));
        match parsed {
            Ok(table) => self.add_table("", table, &source),
            Err(problem) => self.complain("", &source, problem),
        }
    }

    fn add_table(&mut self, section: &str, table: toml::Table, source: &Source) {
        for (name, value) in table {
            let key = if section.is_empty() { name } else { format!("{section}.{name}") };
            match value {
                Value::Table(inner) if settings::find(&key).is_none() => self.add_table(&key, inner, source),
                value => self.set(&key, value, source.clone()),
            }
        }
    }

    /// Takes the `PENSTOCK_…` variables: `PENSTOCK_HTTP__LISTEN` is `http.listen`. A name that does not look
    /// like the path of a setting may belong to another program (Kubernetes sets `PENSTOCK_PORT` for a
    /// service of that name): it is noted and not refused.
    pub(crate) fn add_variables(&mut self, variables: impl Iterator<Item = (String, String)>) {
        for (name, value) in variables {
            let Some(path) = name.strip_prefix("PENSTOCK_") else { continue };
            let short = SHORT_VARIABLES.iter().find(|(short, _)| *short == name).map(|(_, key)| *key);
            let key = short.map_or_else(|| path.to_lowercase().replace("__", "."), str::to_owned);
            if !path.contains("__") && settings::find(&key).is_none() {
                self.ignored_variables.push(name);
                continue;
            }
            self.set_text(&key, &value, Source::Variable(name.clone()));
        }
    }

    pub(crate) fn add_flag(&mut self, flag: &'static str, key: &str, value: Option<&str>) {
        if let Some(value) = value {
            self.set_text(key, value, Source::Flag(flag));
        }
    }

    /// Sets a value from text, as variables and flags give it; the type of the default decides how it is
    /// read.
    fn set_text(&mut self, key: &str, text: &str, source: Source) {
        let text = text.to_owned();
        let value = match settings::find(key).map(|setting| setting.default) {
            Some(Default::Number(_)) => text.trim().parse().map_or(Value::String(text), Value::Integer),
            Some(Default::Flag(_)) => text.trim().parse().map_or(Value::String(text), Value::Boolean),
            _ => Value::String(text),
        };
        self.set(key, value, source);
    }

    fn set(&mut self, key: &str, value: Value, source: Source) {
        let Some(setting) = settings::find(key) else {
            return self.complain(key, &source, unknown(key));
        };
        let problem = match (&setting.default, &value) {
            (Default::Text(_), Value::String(_))
            | (Default::Number(_), Value::Integer(_))
            | (Default::Flag(_), Value::Boolean(_)) => None,
            (Default::Text(_), other) => Some(format!("has to be text in quotes, not {}", other.type_str())),
            (Default::Number(_), other) => Some(format!("has to be a whole number, not {}", shown(other))),
            (Default::Flag(_), other) => Some(format!("has to be true or false, not {}", shown(other))),
        };
        match problem {
            Some(problem) => self.complain(key, &source, problem),
            None => {
                self.values.insert(setting.key, (value, source));
            }
        }
    }

    pub(crate) fn value(&self, key: &str) -> Option<&Value> {
        self.values.get(key).map(|(value, _)| value)
    }

    pub(crate) fn source(&self, key: &str) -> &Source {
        self.values.get(key).map_or(&Source::Default, |(_, source)| source)
    }

    pub(crate) fn complain(&mut self, key: &str, source: &Source, problem: impl Into<String>) {
        self.complaints.push(Complaint {
            key: key.to_owned(),
            source: source.clone(),
            problem: problem.into(),
        });
    }

    pub(crate) fn ignored_variables(&self) -> &[String] {
        &self.ignored_variables
    }

    pub(crate) fn take_complaints(&mut self) -> Vec<Complaint> {
        std::mem::take(&mut self.complaints)
    }

    /// The values as nested tables, from which the structs are read.
    pub(crate) fn to_table(&self) -> toml::Table {
        let mut root = toml::Table::new();
        for (key, (value, _)) in &self.values {
            let (path, name) = key.rsplit_once('.').unwrap_or(("", key));
            let mut table = &mut root;
            for part in path.split('.').filter(|part| !part.is_empty()) {
                let entry = table.entry(part).or_insert_with(|| Value::Table(toml::Table::new()));
                let Value::Table(inner) = entry else { unreachable!("a setting is not a section") };
                table = inner;
            }
            table.insert(name.to_owned(), value.clone());
        }
        root
    }
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => format!("{text:?}"),
        other => other.type_str().to_owned(),
    }
}

/// Says that a key is unknown, and suggests what was probably meant.
fn unknown(key: &str) -> String {
    let name = key.rsplit('.').next().unwrap_or(key);
    let same_name = SETTINGS.iter().find(|setting| setting.section_and_name().1 == name);
    let nearest = SETTINGS.iter().min_by_key(|setting| distance(setting.key, key));
    match same_name.or(nearest.filter(|setting| distance(setting.key, key) <= 3)) {
        Some(setting) => format!("no such setting; did you mean {}?", setting.key),
        None => "no such setting; `penstock config` lists them all".to_owned(),
    }
}

/// Levenshtein distance.
fn distance(left: &str, right: &str) -> usize {
    let mut previous: Vec<usize> = (0..=right.len()).collect();
    for (row, left_byte) in left.bytes().enumerate() {
        let mut current = vec![row + 1];
        for (column, right_byte) in right.bytes().enumerate() {
            let replaced = previous[column] + usize::from(left_byte != right_byte);
            current.push(replaced.min(previous[column + 1] + 1).min(current[column] + 1));
        }
        previous = current;
    }
    previous[right.len()]
}
