//! The report as one page that needs no other file: bars drawn as inline SVG.

use std::fmt::Write;

use super::{Figure, Report};

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:46rem;margin:2rem auto;padding:0 1rem;\
color:#1c2430;background:#fff}section{border-top:1px solid #d5dbe3;padding:1rem 0}h2{font-size:1.1rem;margin:0}\
svg{width:100%;height:auto;margin:.5rem 0}text{font:13px system-ui,sans-serif;fill:currentColor}\
.ours{fill:#1769aa}.theirs{fill:#9aa7b5}.met{color:#18794e}.missed{color:#b3261e}dl{display:grid;\
grid-template-columns:max-content 1fr;gap:0 1rem;font-size:.85rem;color:#566170}dd{margin:0;overflow-wrap:anywhere}\
@media(prefers-color-scheme:dark){body{color:#e3e8ee;background:#12161c}section{border-color:#333c47}\
.met{color:#5bd29b}.missed{color:#ff8a80}dl{color:#9fabb8}}";

const WIDTH: f64 = 700.0;
const LABEL_HEIGHT: f64 = 18.0;
const BAR_HEIGHT: f64 = 18.0;
const ROW_HEIGHT: f64 = LABEL_HEIGHT + BAR_HEIGHT + 8.0;

pub(super) fn page(report: &Report) -> String {
    let mut body = String::new();
    for (name, figure) in report.figures() {
        section(&mut body, name, figure);
    }
    let machine = report.figures().find_map(|(_, figure)| figure.machine.as_ref());
    let machine = machine.map_or_else(String::new, |machine| {
        format!(
            "{} cores of {}, {} GiB, {}, Linux {}, {}",
            machine.cores,
            machine.cpu,
            machine.memory_gib,
            machine.system,
            machine.kernel,
            machine.file_system
        )
    });
    format!(
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width\"><title>Penstock: figures</title>\
         <style>{STYLE}</style></head><body><h1>Penstock: figures</h1><p>{}</p>{body}</body></html>\n",
        escape(&machine)
    )
}

fn section(page: &mut String, name: &str, figure: &Figure) {
    let (class, met) = if figure.met { ("met", "met") } else { ("missed", "not met") };
    // Writing into a String does not fail.
    let _ = write!(
        page,
        "<section><h2>{}</h2><p>{} {}, ratio {} <span class=\"{class}\">({}: {met})</span></p>",
        escape(name),
        figure.value,
        escape(figure.unit),
        figure.ratio,
        escape(&figure.target),
    );
    bars(page, name, figure);
    page.push_str("<dl>");
    for (key, value) in &figure.detail {
        let _ = write!(page, "<dt>{}</dt><dd>{}</dd>", escape(key), escape(&value.to_string()));
    }
    page.push_str("</dl></section>");
}

fn bars(page: &mut String, name: &str, figure: &Figure) {
    let peers = figure.against.iter().map(|(peer, value)| (*peer, *value, "theirs"));
    let rows: Vec<_> = std::iter::once((name, figure.value, "ours")).chain(peers).collect();
    let longest = rows.iter().map(|(_, value, _)| *value).fold(f64::MIN_POSITIVE, f64::max);
    let height = ROW_HEIGHT * rows.len() as f64;
    let _ =
        write!(page, "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{}\">", escape(name));
    for (index, (label, value, class)) in rows.iter().enumerate() {
        let top = ROW_HEIGHT * index as f64;
        let width = (value / longest * WIDTH).max(1.0);
        let _ = write!(
            page,
            "<text x=\"0\" y=\"{:.0}\">{}: {value}</text><rect class=\"{class}\" x=\"0\" y=\"{:.0}\" \
             width=\"{width:.1}\" height=\"{BAR_HEIGHT}\" rx=\"2\"/>",
            top + LABEL_HEIGHT - 5.0,
            escape(label),
            top + LABEL_HEIGHT,
        );
    }
    page.push_str("</svg>");
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
