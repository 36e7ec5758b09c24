//! The timeline as it is drawn: thinned out to what a screen can show, and cut to where something happens.

use std::{collections::BTreeMap, ops::Range};

use super::{Report, Slice};

/// More stretches than this can't be told apart on a screen.
const MAX_STRETCHES: i64 = 160;
/// This part of all orders may lie outside of a close-up, at each end.
const OUTSIDE: f64 = 0.002;
/// A close-up has to be worth it: at most this part of the whole.
const MAX_CLOSE_UP: f64 = 0.6;
/// A close-up of fewer slices shows blocks and no course.
const MIN_CLOSE_UP_SLICES: i64 = 12;

/// Some slices put together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stretch {
    pub(super) from_seconds: f64,
    pub(super) to_seconds: f64,
    pub(super) came: u64,
    pub(super) orders_due: u64,
    pub(super) sold: u64,
    pub(super) refused: BTreeMap<String, u64>,
    /// The mean of the slices' medians, by their answers.
    pub(super) p50_ms: f64,
    /// The worst slice's.
    pub(super) p99_ms: f64,
    answers: u64,
}

impl Stretch {
    pub(super) fn has_answers(&self) -> bool {
        self.answers > 0
    }

    fn add(&mut self, slice: &Slice) {
        self.came += slice.came;
        self.orders_due += slice.orders_due;
        self.sold += slice.sold;
        for (code, count) in &slice.refused {
            *self.refused.entry(code.clone()).or_default() += count;
        }
        let answers = answers(slice);
        if answers > 0 {
            let all = (self.answers + answers) as f64;
            self.p50_ms = (self.p50_ms * self.answers as f64 + slice.p50_ms * answers as f64) / all;
            self.p99_ms = self.p99_ms.max(slice.p99_ms);
            self.answers += answers;
        }
    }
}

/// The orders that were answered in a slice; a slice in which nothing was sold or refused has no latency to show.
fn answers(slice: &Slice) -> u64 {
    slice.sold + slice.refused.values().sum::<u64>()
}

/// The whole run, in milliseconds from the opening.
pub(super) fn whole(report: &Report) -> Range<i64> {
    let width_ms = slice_ms(report);
    let from = report.timeline.iter().map(|slice| slice.at_ms).min().unwrap_or(0);
    let to = report.timeline.iter().map(|slice| slice.at_ms).max().unwrap_or(0);
    from..to + width_ms
}

/// Where nearly all orders are, with some room around; the whole run if that is not much less.
pub(super) fn close_up(report: &Report) -> Range<i64> {
    let whole = whole(report);
    let width_ms = slice_ms(report);
    let mut slices: Vec<_> =
        report.timeline.iter().map(|slice| (slice.at_ms, answers(slice) + slice.orders_due)).collect();
    slices.sort_unstable();
    let all: u64 = slices.iter().map(|(_, orders)| orders).sum();
    let few = (all as f64 * OUTSIDE) as u64;
    let mut seen = 0;
    let (mut from, mut to) = (None, whole.end);
    for (at_ms, orders) in slices {
        seen += orders;
        if seen > few && from.is_none() {
            from = Some(at_ms);
        }
        if seen >= all - few {
            to = at_ms + width_ms;
            break;
        }
    }
    let Some(from) = from else { return whole };
    let missing = (MIN_CLOSE_UP_SLICES - (to - from) / width_ms).max(0) * width_ms;
    let room = ((to - from) / 8).max(width_ms);
    let close_up = (from - room).max(whole.start)..(to + room + missing).min(whole.end);
    let part = (close_up.end - close_up.start) as f64 / (whole.end - whole.start) as f64;
    if part <= MAX_CLOSE_UP { close_up } else { whole }
}

/// The stretches of a part of the run, all of the same length and without a gap between them.
pub(super) fn stretches(report: &Report, part: &Range<i64>) -> Vec<Stretch> {
    let width_ms = slice_ms(report);
    let slices = ((part.end - part.start) / width_ms).max(1);
    let stretch_ms = slices.div_euclid(MAX_STRETCHES).max(0) * width_ms;
    let stretch_ms = if slices % MAX_STRETCHES == 0 { stretch_ms } else { stretch_ms + width_ms };
    let count = (part.end - part.start + stretch_ms - 1) / stretch_ms;
    let mut stretches: Vec<_> = (0..count)
        .map(|index| Stretch {
            from_seconds: (part.start + index * stretch_ms) as f64 / 1000.0,
            to_seconds: (part.start + (index + 1) * stretch_ms) as f64 / 1000.0,
            ..Stretch::default()
        })
        .collect();
    for slice in report.timeline.iter().filter(|slice| part.contains(&slice.at_ms)) {
        let index = usize::try_from((slice.at_ms - part.start) / stretch_ms).unwrap_or(usize::MAX);
        if let Some(stretch) = stretches.get_mut(index) {
            stretch.add(slice);
        }
    }
    stretches
}

/// A report from elsewhere could say 0.
fn slice_ms(report: &Report) -> i64 {
    i64::try_from(report.slice_ms).unwrap_or(i64::MAX).clamp(1, 3_600_000)
}
