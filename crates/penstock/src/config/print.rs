//! Prints the effective configuration, with comments and without secrets.

use std::fmt::Write as _;

use serde_json::json;
use toml::Value;

use super::table::{Setting, ValueSource};

pub(super) fn toml(settings: &[Setting]) -> String {
    let mut text =
        String::from("# The effective configuration of penstock, as a file that --config takes.\n\n");
    let mut current = "";
    for setting in settings {
        // Writing into a String can't fail.
        if setting.section != current {
            current = setting.section;
            let _ = write!(text, "\n# {}\n[{current}]\n", setting.section_about);
        }
        let _ = writeln!(text, "# {}{}\n{}", setting.about, possible_values(setting), line(setting));
    }
    text
}

fn possible_values(setting: &Setting) -> String {
    match &setting.bounds {
        Some(bounds) => format!(" ({} to {})", bounds.start(), bounds.end()),
        None if setting.choices.is_empty() => String::new(),
        None => format!(" ({})", setting.choices.join(", ")),
    }
}

fn line(setting: &Setting) -> String {
    let Setting { name, value, source, .. } = setting;
    let from = if *source == ValueSource::Default { String::new() } else { format!("from {source}") };
    match (setting.is_secret, from.is_empty()) {
        (true, true) => format!("# {name} = …  # {}", state(value, "set, not shown")),
        (true, false) => format!("# {name} = …  # {}, {from}", state(value, "set, not shown")),
        (false, true) => format!("{name} = {value}"),
        (false, false) => format!("{name} = {value}  # {from}"),
    }
}

/// What is shown of a secret.
fn state(value: &Value, if_set: &'static str) -> &'static str {
    if value.as_str().is_none_or(str::is_empty) { "unset" } else { if_set }
}

/// Each key with its value and source; a secret is only `set` or `unset`.
pub(super) fn json(settings: &[Setting]) -> serde_json::Value {
    let entry = |setting: &Setting| {
        let shown = match &setting.value {
            secret if setting.is_secret => json!(state(secret, "set")),
            value => json!(value),
        };
        (setting.key.to_owned(), json!({ "value": shown, "source": setting.source.to_string() }))
    };
    serde_json::Value::Object(settings.iter().map(entry).collect())
}
