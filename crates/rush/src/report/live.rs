//! A run in progress, on standard error: drawn on a terminal, or as a line now and then in a file or a pipe.

use std::{
    collections::VecDeque,
    io::{self, Write as _},
};

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{
    Progress,
    words::{self, counted, duration, thousands},
};

const DRAWS_A_SECOND: u8 = 20;
/// The time over which the shown rate is averaged.
const RATE_SECONDS: f64 = 1.0;
/// The time between lines of progress.
const LINE_EVERY_SECONDS: f64 = 5.0;

/// The form in which a run is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum View {
    /// Redrawn many times a second, for a terminal.
    Display,
    /// A line every few seconds, for a file or a pipe.
    Lines,
    Nothing,
}

/// The display. It is removed when this value is dropped, also after an error, and leaves the terminal as it
/// was.
#[derive(Debug)]
pub struct LiveDisplay {
    display: MultiProgress,
    headline: ProgressBar,
    came: ProgressBar,
    sold: ProgressBar,
    lines: [ProgressBar; 3],
    title: String,
    rate: RequestRate,
    view: View,
    pace: LinePace,
}

impl LiveDisplay {
    pub fn start(title: &str, view: View) -> Self {
        let target = match view {
            View::Display => ProgressDrawTarget::stderr_with_hz(DRAWS_A_SECOND),
            View::Lines | View::Nothing => ProgressDrawTarget::hidden(),
        };
        Self::on(target, title, view)
    }

    fn on(target: ProgressDrawTarget, title: &str, view: View) -> Self {
        let display = MultiProgress::with_draw_target(target);
        let row = |template: &str, name: &'static str| {
            // If indicatif does not understand the template, a plain bar is shown; a test checks it.
            let style =
                ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar());
            let bar = ProgressBar::no_length().with_style(style.progress_chars("━╸─")).with_prefix(name);
            display.add(bar)
        };
        let line = "{prefix:>9.dim}  {wide_msg}";
        let headline = row("{wide_msg:.bold}", "");
        let came = row("{prefix:>9.dim}  {bar:32.blue/dim} {wide_msg}", "came");
        let sold = row("{prefix:>9.dim}  {bar:32.green/dim} {wide_msg}", "sold");
        let lines = ["orders", "requests", "refused"].map(|name| row(line, name));
        Self {
            headline,
            came,
            sold,
            lines,
            title: title.to_owned(),
            rate: RequestRate::default(),
            view,
            pace: LinePace::default(),
            display,
        }
    }

    /// Draws the current state of the run. May be called as often as needed.
    pub fn show(&mut self, progress: &Progress) {
        let rate = self.rate.after(progress);
        match self.view {
            View::Display => self.draw(progress, rate),
            View::Lines if self.pace.is_due(progress) => self.say(&line(&self.title, progress, rate)),
            View::Lines | View::Nothing => {}
        }
    }

    fn draw(&self, progress: &Progress, rate: f64) {
        self.headline.set_message(format!("{}: {}", self.title, moment(progress)));
        let bars = [
            (&self.came, progress.came, progress.buyers, people(progress)),
            (&self.sold, progress.sold, progress.units, stock(progress)),
        ];
        for (bar, position, length, message) in bars {
            bar.set_length(length.max(1));
            bar.set_position(position.min(length));
            bar.set_message(message);
        }
        let lines = [orders(progress), requests(progress, rate), refused(progress)];
        for (line, message) in self.lines.iter().zip(lines) {
            line.set_message(message);
        }
    }

    /// Writes a line that stays, above the display.
    pub fn say(&self, line: &str) {
        // A terminal or a pipe that has gone away does not stop the run.
        let _ = match self.view {
            View::Display => self.display.println(line),
            View::Lines => writeln!(io::stderr(), "{line}"),
            View::Nothing => Ok(()),
        };
    }

    /// Removes the display; lines that were written stay.
    pub fn finish(self) {
        drop(self);
    }
}

impl Drop for LiveDisplay {
    fn drop(&mut self) {
        let _ = self.display.clear();
    }
}

/// The whole display in one line.
fn line(title: &str, progress: &Progress, rate: f64) -> String {
    format!(
        "{title}: {}. Came {}; sold {}; orders: {}; requests: {}; refused: {}.",
        moment(progress),
        people(progress),
        stock(progress),
        orders(progress),
        requests(progress, rate),
        refused(progress)
    )
}

/// When the next line is due. It reads no clock.
#[derive(Debug, Default)]
struct LinePace {
    last: Option<f64>,
}

impl LinePace {
    fn is_due(&mut self, progress: &Progress) -> bool {
        let now = progress.since_opening_seconds;
        let is_due = self.last.is_none_or(|last| now - last >= LINE_EVERY_SECONDS);
        if is_due {
            self.last = Some(now);
        }
        is_due
    }
}

fn moment(progress: &Progress) -> String {
    let seconds = progress.since_opening_seconds;
    match progress.sold_out_after_seconds {
        Some(after) => format!("sold out after {}, open for {seconds:.1} s", duration(after)),
        None if seconds < 0.0 => format!("opens in {:.1} s", -seconds),
        None => format!("open for {seconds:.1} s"),
    }
}

fn people(progress: &Progress) -> String {
    let admitted = if progress.admitted > 0 {
        format!(", {} let in", thousands(progress.admitted))
    } else {
        String::new()
    };
    // Bots come as well, so more may come than there are buyers.
    let all = progress.buyers.max(progress.came);
    format!("{} of {}{admitted}", thousands(progress.came), thousands(all))
}

fn stock(progress: &Progress) -> String {
    format!("{} of {}", thousands(progress.sold), counted(progress.units, "unit"))
}

fn orders(progress: &Progress) -> String {
    if progress.p99_ms > 0.0 {
        let [half, most] = [progress.p50_ms, progress.p99_ms].map(|ms| duration(ms / 1000.0));
        format!("half answered within {half}, 99 % within {most}")
    } else {
        "none answered yet".to_owned()
    }
}

fn requests(progress: &Progress, rate: f64) -> String {
    format!(
        "{}, {}/s, {} under way, {} wait for a connection",
        thousands(progress.requests),
        thousands(rate.round() as u64),
        thousands(progress.under_way),
        thousands(progress.waiting)
    )
}

fn refused(progress: &Progress) -> String {
    let (codes, rest) = words::most_frequent(&progress.refused, words::MAX_REASONS);
    let mut parts: Vec<_> =
        codes.iter().map(|(code, count)| format!("{} {}", thousands(*count), words::reason(code))).collect();
    if rest > 0 {
        parts.push(format!("{} for other reasons", thousands(rest)));
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(" · ") }
}

/// Requests a second over the last while. It reads no clock: each look has the run's own time.
#[derive(Debug, Default)]
struct RequestRate {
    looks: VecDeque<(f64, u64)>,
}

impl RequestRate {
    fn after(&mut self, progress: &Progress) -> f64 {
        let now = progress.since_opening_seconds;
        self.looks.push_back((now, progress.requests));
        // The oldest look is about `RATE_SECONDS` old; there are never more looks than fit into that time.
        while self.looks.get(1).is_some_and(|(at, _)| now - at >= RATE_SECONDS) {
            self.looks.pop_front();
        }
        match self.looks.front() {
            Some((at, requests)) if now > *at => {
                progress.requests.saturating_sub(*requests) as f64 / (now - at)
            }
            _ => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use indicatif::InMemoryTerm;

    use super::*;

    fn progress() -> Progress {
        Progress {
            since_opening_seconds: 0.4,
            buyers: 30_000,
            came: 30_000,
            units: 200,
            sold: 120,
            refused: [("sold_out".to_owned(), 1200), ("busy".to_owned(), 7)].into(),
            requests: 61_000,
            p50_ms: 42.0,
            p99_ms: 180.0,
            ..Progress::default()
        }
    }

    fn drawn(progress: &Progress) -> (InMemoryTerm, LiveDisplay) {
        let terminal = InMemoryTerm::new(12, 100);
        let target = ProgressDrawTarget::term_like_with_hz(Box::new(terminal.clone()), 255);
        let mut live = LiveDisplay::on(target, "classic", View::Display);
        live.show(progress);
        (terminal, live)
    }

    #[test]
    fn the_display_says_how_it_goes() {
        let (terminal, live) = drawn(&progress());
        live.say("the server restarted");
        // What the limit on drawing left out is drawn now.
        live.lines.iter().for_each(ProgressBar::tick);
        let screen = terminal.contents();
        for text in [
            "the server restarted",
            "classic: open for 0.4 s",
            "30,000 of 30,000",
            "120 of 200 units",
            "99 % within 180 ms",
            "1,200 nothing was left · 7 the server was busy",
        ] {
            assert!(screen.contains(text), "{text:?} is not in\n{screen}");
        }
    }

    #[test]
    fn the_display_says_whether_the_sale_has_opened_or_sold_out() {
        assert_eq!(moment(&Progress { since_opening_seconds: -3.21, ..progress() }), "opens in 3.2 s");
        let gone = Progress { sold_out_after_seconds: Some(0.31), ..progress() };
        assert_eq!(moment(&gone), "sold out after 310 ms, open for 0.4 s");
    }

    #[test]
    fn only_lines_that_were_said_stay_at_the_end() {
        let (terminal, live) = drawn(&progress());
        live.say("sale published");
        live.finish();
        assert_eq!(terminal.contents(), "sale published");
    }

    #[test]
    fn invisible_it_draws_nothing() {
        let mut live = LiveDisplay::start("classic", View::Nothing);
        live.show(&progress());
        live.say("nobody reads this");
        assert!(live.display.is_hidden());
        assert!(live.headline.message().is_empty());
    }

    #[test]
    fn in_a_pipe_the_display_is_one_line() {
        assert_eq!(
            line("classic", &progress(), 30_500.4),
            "classic: open for 0.4 s. Came 30,000 of 30,000; sold 120 of 200 units; orders: half answered within 42 ms, \
             99 % within 180 ms; requests: 61,000, 30,500/s, 0 under way, 0 wait for a connection; refused: 1,200 \
             nothing was left · 7 the server was busy."
        );
    }

    #[test]
    fn a_line_is_due_at_once_and_then_every_few_seconds() {
        let mut pace = LinePace::default();
        let at = |since_opening_seconds| Progress { since_opening_seconds, ..Progress::default() };
        let due = [-8.0, -7.9, -3.1, -3.0, 0.0, 2.0, 2.1].map(|seconds| pace.is_due(&at(seconds)));
        assert_eq!(due, [true, false, false, true, false, true, false]);
    }

    #[test]
    fn the_rate_is_that_of_the_last_second() {
        let mut rate = RequestRate::default();
        let look = |since_opening_seconds, requests| Progress {
            since_opening_seconds,
            requests,
            ..Progress::default()
        };
        assert_eq!(rate.after(&look(-1.0, 0)), 0.0);
        assert_eq!(rate.after(&look(0.0, 1000)), 1000.0);
        assert_eq!(rate.after(&look(1.0, 1000)), 0.0);
    }
}
