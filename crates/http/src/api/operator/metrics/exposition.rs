//! The two text formats of metrics, and the choice between them.

use axum::response::{IntoResponse as _, Response};
use hyper::{
    HeaderMap,
    header::{CONTENT_TYPE, HeaderValue, VARY},
};
use prometheus_client::{encoding::text::encode, registry::Registry};

use crate::contract::accept::AcceptedKinds;

const OPEN_METRICS: HeaderValue =
    HeaderValue::from_static("application/openmetrics-text; version=1.0.0; charset=utf-8");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    OpenMetrics,
    /// The format that Prometheus used before, and that every other tool reads.
    Text,
}

impl Format {
    /// OpenMetrics only if the client names it and does not prefer the other.
    pub(super) fn asked_for(headers: &HeaderMap) -> Self {
        let accepted = AcceptedKinds::of(headers);
        let open_metrics = accepted.named("application/openmetrics-text", Some("1.0.0"));
        let text = accepted.named("text/plain", Some("0.0.4"));
        if open_metrics > 0 && open_metrics >= text { Self::OpenMetrics } else { Self::Text }
    }

    pub(super) fn respond(self, registry: &Registry) -> Result<Response, std::fmt::Error> {
        let mut text = String::new();
        encode(&mut text, registry)?;
        let (content_type, text) = match self {
            Self::OpenMetrics => (OPEN_METRICS, text),
            Self::Text => (TEXT, classic(&text)),
        };
        Ok(([(CONTENT_TYPE, content_type), (VARY, HeaderValue::from_static("accept"))], text).into_response())
    }
}

/// Turns OpenMetrics into the text format 0.0.4, which names counters like their samples and has neither
/// units nor an end marker.
fn classic(open_metrics: &str) -> String {
    let mut classic = String::with_capacity(open_metrics.len());
    let mut help = "";
    for line in open_metrics.lines() {
        let Some(comment) = line.strip_prefix("# ") else {
            classic.extend([line, "\n"]);
            continue;
        };
        match comment.split_once(' ') {
            Some(("HELP", described)) => help = described,
            Some(("TYPE", described)) => {
                let (name, kind) = described.split_once(' ').unwrap_or((described, "untyped"));
                let total = if kind == "counter" { "_total" } else { "" };
                let help = help.strip_prefix(name).unwrap_or_default();
                classic.extend(["# HELP ", name, total, help, "\n"]);
                classic.extend(["# TYPE ", name, total, " ", kind, "\n"]);
            }
            _ => {}
        }
    }
    classic
}

#[cfg(test)]
mod tests {
    use hyper::header::ACCEPT;

    use super::*;

    fn asked_for(accept: &str) -> Format {
        Format::asked_for(&HeaderMap::from_iter([(ACCEPT, HeaderValue::from_str(accept).unwrap())]))
    }

    #[test]
    fn a_client_gets_the_format_that_it_prefers() {
        for prometheus in [
            "application/openmetrics-text;version=1.0.0;q=0.5,application/openmetrics-text;version=0.0.1;q=0.4,\
             text/plain;version=0.0.4;q=0.3,*/*;q=0.2",
            "application/openmetrics-text; version=1.0.0, text/plain;version=0.0.4;q=0.5, */*;q=0.1",
            "application/openmetrics-text",
            "Application/OpenMetrics-Text, text/plain",
        ] {
            assert_eq!(asked_for(prometheus), Format::OpenMetrics, "{prometheus}");
        }
        for other in [
            "",
            "*/*",
            "text/*",
            "text/plain",
            "text/plain;version=0.0.4",
            "text/html,*/*;q=0.8",
            "text/plain;version=0.0.4;q=0.6,application/openmetrics-text;version=1.0.0;q=0.5",
            "application/openmetrics-text;q=0",
            "application/openmetrics-text;version=2.0.0",
        ] {
            assert_eq!(asked_for(other), Format::Text, "{other}");
        }
        assert_eq!(Format::asked_for(&HeaderMap::new()), Format::Text);
    }

    #[test]
    fn the_text_format_names_counters_like_their_samples() {
        let open_metrics = "# HELP a_seconds How long.\n# TYPE a_seconds counter\n# UNIT a_seconds seconds\n\
                            a_seconds_total{b=\"# TYPE\"} 1.5\n# HELP c What \\n is.\n# TYPE c gauge\nc 1\n# EOF\n";
        let text = "# HELP a_seconds_total How long.\n# TYPE a_seconds_total counter\n\
                    a_seconds_total{b=\"# TYPE\"} 1.5\n# HELP c What \\n is.\n# TYPE c gauge\nc 1\n";
        assert_eq!(classic(open_metrics), text);
    }
}
