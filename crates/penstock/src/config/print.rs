//! Prints the effective configuration, with comments and without secrets.

use std::fmt::Write as _;

use serde_json::json;
use toml::Value;

use super::{
    layers::{Layers, Source},
    settings::{Rule, SECTIONS, SETTINGS, Setting},
};

pub(super) fn toml(layers: &Layers) -> String {
    let mut text =
        String::from("# The effective configuration of penstock, as a file that --config takes.\n\n");
    let mut current = "";
    for setting in SETTINGS {
        let (section, name) = setting.section_and_name();
        if section != current {
            current = section;
            let about = SECTIONS.iter().find(|(known, _)| *known == section).map_or("", |(_, about)| about);
            // Writing into a String can't fail.
            let _ = write!(text, "\n# {about}\n[{section}]\n");
        }
        let _ = writeln!(text, "# {}{}", setting.about, bounds(setting.rule));
        let _ = writeln!(text, "{}", line(setting, name, layers));
    }
    text
}

fn bounds(rule: Rule) -> String {
    match rule {
        Rule::Between(min, max) => format!(" ({min} to {max})"),
        Rule::OneOf(choices) => format!(" ({})", choices.join(", ")),
        Rule::Flag => " (true, false)".to_owned(),
        Rule::Text
        | Rule::Secret
        | Rule::Address
        | Rule::OptionalAddress
        | Rule::Networks
        | Rule::Servers
        | Rule::Country
        | Rule::LogFilter => String::new(),
    }
}

fn line(setting: &Setting, name: &str, layers: &Layers) -> String {
    let source = layers.source(setting.key);
    let origin = if *source == Source::Default { String::new() } else { format!("  # from {source}") };
    let value = layers.value(setting.key);
    if setting.is_secret() {
        let state = if is_empty(value) { "unset" } else { "set, not shown" };
        return format!("# {name} = …  # {state}{}", origin.replacen("  #", ",", 1));
    }
    let shown = value.map(Value::to_string).unwrap_or_default();
    format!("{name} = {shown}{origin}")
}

fn is_empty(value: Option<&Value>) -> bool {
    value.and_then(Value::as_str).is_none_or(str::is_empty)
}

/// Each key with its value and source; a secret is only `set` or `unset`.
pub(super) fn json(layers: &Layers) -> serde_json::Value {
    let entries = SETTINGS.iter().map(|setting| {
        let value = layers.value(setting.key);
        let source = layers.source(setting.key).to_string();
        let shown = match (setting.is_secret(), value) {
            (true, value) => json!(if is_empty(value) { "unset" } else { "set" }),
            (false, Some(Value::Integer(number))) => json!(number),
            (false, Some(Value::Boolean(flag))) => json!(flag),
            (false, value) => json!(value.and_then(Value::as_str)),
        };
        (setting.key.to_owned(), json!({ "value": shown, "source": source }))
    });
    serde_json::Value::Object(entries.collect())
}
