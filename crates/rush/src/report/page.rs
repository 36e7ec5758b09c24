//! The common look of our pages, for light, dark, phone and paper, without a script or another file.

use std::fmt::Write;

pub use super::words::rounded;

/// A colour as written into a page, and its replacement in dark mode. CSS is stronger than an attribute, so a
/// drawing needs to know only the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Colour {
    pub light: (u8, u8, u8),
    dark: &'static str,
}

pub const INK: Colour = Colour { light: (0x47, 0x54, 0x67), dark: "#b3bdca" };
pub const GRID: Colour = Colour { light: (0xe4, 0xe8, 0xee), dark: "#2a323d" };
pub const AXIS: Colour = Colour { light: (0xb4, 0xbd, 0xc9), dark: "#4a5563" };
pub const GREEN: Colour = Colour { light: (0x1a, 0x8f, 0x5a), dark: "#46c78b" };
pub const BLUE: Colour = Colour { light: (0x1f, 0x6f, 0xd1), dark: "#62a8ff" };
pub const GREY: Colour = Colour { light: (0x9a, 0xa8, 0xba), dark: "#6f7d90" };
pub const AMBER: Colour = Colour { light: (0xe3, 0x9b, 0x17), dark: "#f0b84a" };
pub const RED: Colour = Colour { light: (0xcf, 0x3f, 0x36), dark: "#ff7a70" };
pub const PURPLE: Colour = Colour { light: (0x86, 0x5c, 0xc7), dark: "#b594f0" };
pub const TEAL: Colour = Colour { light: (0x16, 0x8f, 0xa0), dark: "#4cc4d4" };
pub const PINK: Colour = Colour { light: (0xc2, 0x4f, 0x92), dark: "#ee8cc2" };
const PALETTE: [Colour; 11] = [INK, GRID, AXIS, GREEN, BLUE, GREY, AMBER, RED, PURPLE, TEAL, PINK];

const STYLE: &str = include_str!("page.css");
/// Nothing is loaded from anywhere, whatever a name in the report tries.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'";

impl Colour {
    pub fn code(self) -> String {
        let (red, green, blue) = self.light;
        // The form that plotters writes: the style sheet looks for exactly this.
        format!("#{red:02X}{green:02X}{blue:02X}")
    }
}

/// A whole page. The title is text; the body is HTML.
pub fn page(title: &str, body: &str) -> String {
    let mut dark = String::new();
    for colour in PALETTE {
        let (light, dark_code) = (colour.code(), colour.dark);
        // Writing into a String does not fail.
        let _ =
            write!(dark, "[fill=\"{light}\"]{{fill:{dark_code}}}[stroke=\"{light}\"]{{stroke:{dark_code}}}");
    }
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{}</title>\n\
         <style>\n{STYLE}@media screen and (prefers-color-scheme:dark){{{dark}}}\n</style></head>\n\
         <body>\n{body}\n</body></html>\n",
        escape(title)
    )
}

/// One bar of a bar chart.
#[derive(Clone, Debug)]
pub struct Bar {
    pub label: String,
    /// The value in words.
    pub shown: String,
    pub value: f64,
    /// The smallest and the largest measured value, if there was more than one.
    pub spread: Option<[f64; 2]>,
    pub colour: Colour,
}

/// Bars below each other, with the text in HTML so that it wraps on a phone. Lengths are shares of the width,
/// so the drawing fits anywhere.
pub fn bars(rows: &[Bar]) -> String {
    let ends = rows.iter().flat_map(|row| [row.value, row.spread.map_or(0.0, |[_, most]| most)]);
    let longest = ends.filter(|value| value.is_finite()).fold(f64::MIN_POSITIVE, f64::max);
    let percent = |value: f64| (value / longest * 100.0).clamp(0.0, 100.0);
    let mut html = String::from("<dl class=\"bars\">");
    for row in rows {
        let _ = write!(
            html,
            "<dt><span>{}</span> <b>{}</b></dt><dd><svg width=\"100%\" height=\"14\" aria-hidden=\"true\">\
             <rect width=\"{:.2}%\" height=\"14\" rx=\"3\" fill=\"{}\"/>",
            escape(&row.label),
            escape(&row.shown),
            percent(row.value).max(0.3),
            row.colour.code(),
        );
        if let Some([least, most]) = row.spread {
            let _ = write!(
                html,
                "<line x1=\"{:.2}%\" x2=\"{:.2}%\" y1=\"7\" y2=\"7\" stroke=\"{}\" stroke-width=\"3\">\
                 <title>from {} to {}</title></line>",
                percent(least),
                percent(most),
                INK.code(),
                rounded(least),
                rounded(most),
            );
        }
        html.push_str("</svg></dd>");
    }
    html.push_str("</dl>");
    html
}

/// The meaning of a plot's colours.
pub fn legend(entries: &[(Colour, String)]) -> String {
    let mut html = String::from("<ul class=\"legend\">");
    for (colour, label) in entries {
        let _ = write!(
            html,
            "<li><svg width=\"12\" height=\"12\" aria-hidden=\"true\"><rect width=\"12\" height=\"12\" rx=\"3\" \
             fill=\"{}\"/></svg>{}</li>",
            colour.code(),
            escape(label)
        );
    }
    html.push_str("</ul>");
    html
}

/// Escapes text of any origin, for an element or a quoted attribute.
pub fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_outside_stays_text() {
        assert_eq!(escape("<b a=\"x\" c='y'>&"), "&lt;b a=&quot;x&quot; c=&#39;y&#39;&gt;&amp;");
        let page = page("</title><script>", "");
        assert!(!page.contains("<script>"));
    }

    #[test]
    fn the_longest_bar_fills_the_width_and_the_spread_fits_in() {
        let bar = |value, spread| Bar {
            label: "peer".to_owned(),
            shown: String::new(),
            value,
            spread,
            colour: BLUE,
        };
        let html = bars(&[bar(80.0, Some([60.0, 100.0])), bar(50.0, None)]);
        assert!(html.contains("<rect width=\"80.00%\""), "{html}");
        assert!(html.contains("<line x1=\"60.00%\" x2=\"100.00%\""), "{html}");
        assert!(html.contains("<rect width=\"50.00%\""), "{html}");
    }

    #[test]
    fn every_colour_has_a_dark_variant() {
        let page = page("", "");
        for colour in PALETTE {
            assert!(page.contains(&format!("[fill=\"{}\"]{{fill:{}}}", colour.code(), colour.dark)));
        }
    }
}
