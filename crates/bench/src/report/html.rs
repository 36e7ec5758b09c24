//! The figures as one self-contained page, each as bars next to its peers.

use std::fmt::Write;

use penstock_rush::report::page::{self, BLUE, Bar, GREY, escape};

use super::{BenchFigure, BenchReport};
use crate::host::Machine;

pub(super) fn page(report: &BenchReport) -> String {
    let machine = report.figures.values().find_map(|figure| figure.machine.as_ref());
    let machine = machine.map_or_else(String::new, Machine::to_string);
    let mut body = format!(
        "<header><h1>Penstock: figures</h1><p class=\"soft\">{}</p><p class=\"small soft\">Each value is the median \
         of its rounds; the thin line runs from the lowest to the highest.</p></header>",
        escape(&machine)
    );
    for (name, figure) in &report.figures {
        section(&mut body, name, figure);
    }
    page::page("Penstock: figures", &body)
}

fn section(body: &mut String, name: &str, figure: &BenchFigure) {
    let (class, met) = if figure.met { ("good", "met") } else { ("bad", "not met") };
    // Writing into a String does not fail.
    let _ = write!(
        body,
        "<section><h2>{}</h2><p>{} {}, ratio {} <span class=\"{class}\">({}: {met})</span></p>",
        escape(name),
        number(figure.value),
        escape(figure.unit),
        number(figure.ratio),
        escape(&figure.target),
    );
    body.push_str(&page::bars(&bars(figure)));
    body.push_str("<details><summary>How it was measured</summary><dl class=\"facts\">");
    for (key, value) in &figure.detail {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        let _ = write!(body, "<div><dt>{}</dt><dd>{}</dd></div>", escape(key), escape(&text));
    }
    body.push_str("</dl></details></section>");
}

/// Figures are rounded where they are made; large ones get their commas here.
fn number(value: f64) -> String {
    if value < 1000.0 { value.to_string() } else { page::rounded(value) }
}

/// Ours first, then the peers.
fn bars(figure: &BenchFigure) -> Vec<Bar> {
    let [least, greatest] = figure.spread;
    let shown = number(figure.value);
    let (shown, spread) = if least < greatest {
        let range = format!("{} to {}", number(least), number(greatest));
        (format!("{shown} ({range})"), Some(figure.spread))
    } else {
        (shown, None)
    };
    let ours = Bar { label: "penstock".to_owned(), shown, value: figure.value, spread, colour: BLUE };
    let peers = figure.against.iter().map(|(peer, value)| Bar {
        label: (*peer).to_owned(),
        shown: number(*value),
        value: *value,
        spread: None,
        colour: GREY,
    });
    std::iter::once(ours).chain(peers).collect()
}
