//! Every refusal that any test sees has to be in the document, at the call that gave it.

use std::sync::LazyLock;

use serde_json::Value;

use crate::support::Answer;

static PATHS: LazyLock<Vec<(String, Value)>> = LazyLock::new(|| {
    let document: Value = serde_json::from_str(&penstock_http::openapi()).unwrap();
    let paths = document["paths"].as_object().unwrap();
    paths.iter().map(|(path, calls)| (path.clone(), calls.clone())).collect()
});

/// Fails if a call of the API refuses with a code that its document does not name.
#[track_caller]
pub(crate) fn require(method: &str, path: &str, answer: &Answer) {
    if answer.header("content-type") != Some("application/problem+json") || answer.body.is_empty() {
        return;
    }
    let path = path.split('?').next().unwrap_or_default();
    let mut calls = PATHS.iter().filter(|(pattern, _)| is_like(pattern, path)).collect::<Vec<_>>();
    // `/orders.csv` is not an order.
    calls.sort_by_key(|(pattern, _)| pattern.matches('{').count());
    let Some(call) = calls.first().and_then(|(_, calls)| calls.get(method.to_lowercase())) else { return };
    let code = answer.json()["code"].as_str().unwrap().to_owned();
    let described = &call["responses"][answer.status.to_string()]["description"];
    let is_named = described.as_str().is_some_and(|codes| codes.contains(&format!("`{code}`")));
    // `/readyz` describes its refusal in words.
    assert!(
        is_named || path == "/readyz",
        "{method} {path}: {} {code} is not in the document",
        answer.status
    );
}

fn is_like(pattern: &str, path: &str) -> bool {
    let (parts, names) = (pattern.split('/'), path.split('/'));
    parts.clone().count() == names.clone().count()
        && parts.zip(names).all(|(part, name)| part == name || (part.starts_with('{') && !name.is_empty()))
}
