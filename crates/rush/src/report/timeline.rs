//! The timeline for drawing: thinned out to what a screen can show, and cut to where something happens.

use std::{collections::BTreeMap, ops::Range};

use super::ReportSlice;

/// More stretches than this can't be told apart on a screen.
const MAX_STRETCHES: i64 = 160;
/// The share of the counted events that may lie outside a close-up, at each end.
const OUTSIDE: f64 = 0.002;
/// The largest part of the run that a close-up may show; a larger one is not worth it.
const MAX_CLOSE_UP: f64 = 0.6;
/// A close-up of fewer slices would show blocks instead of a curve.
const MIN_CLOSE_UP_SLICES: i64 = 12;

/// Several slices together.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Stretch {
    pub(super) from_seconds: f64,
    pub(super) to_seconds: f64,
    pub(super) came: u64,
    pub(super) orders_due: u64,
    pub(super) sold: u64,
    pub(super) refused: BTreeMap<String, u64>,
    /// The mean of the slices' medians, weighted by their answers.
    pub(super) p50_ms: f64,
    /// The highest p99 of the slices.
    pub(super) p99_ms: f64,
    pub(super) answers: u64,
}

impl Stretch {
    fn add(&mut self, slice: &ReportSlice) {
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

/// Orders answered in a slice. A slice in which nothing was sold or refused has no latency to show.
pub(super) fn answers(slice: &ReportSlice) -> u64 {
    slice.sold + slice.refused.values().sum::<u64>()
}

/// The whole run, in milliseconds from the opening.
pub(super) fn whole(timeline: &[ReportSlice], slice_ms: u64) -> Range<i64> {
    let width_ms = width(slice_ms);
    let from = timeline.iter().map(|slice| slice.at_ms).min().unwrap_or(0);
    let to = timeline.iter().map(|slice| slice.at_ms).max().unwrap_or(0);
    from..to + width_ms
}

/// The opening and the time in which nearly all events of `count` happened, with some room around. The whole
/// run if that is not much shorter.
pub(super) fn close_up(
    timeline: &[ReportSlice],
    slice_ms: u64,
    count: impl Fn(&ReportSlice) -> u64,
) -> Range<i64> {
    let whole = whole(timeline, slice_ms);
    let width_ms = width(slice_ms);
    let mut slices: Vec<_> = timeline.iter().map(|slice| (slice.at_ms, count(slice))).collect();
    slices.sort_unstable();
    let all: u64 = slices.iter().map(|(_, counted)| counted).sum();
    let few = (all as f64 * OUTSIDE) as u64;
    let mut seen = 0;
    let (mut from, mut to) = (None, whole.end);
    for (at_ms, counted) in slices {
        seen += counted;
        if seen > few && from.is_none() {
            from = Some(at_ms);
        }
        if seen >= all - few {
            to = at_ms + width_ms;
            break;
        }
    }
    let Some(from) = from.map(|from| from.min(0).max(whole.start)) else { return whole };
    let missing = (MIN_CLOSE_UP_SLICES - (to - from) / width_ms).max(0) * width_ms;
    let room = ((to - from) / 8).max(width_ms);
    let close_up = (from - room).max(whole.start)..(to + room + missing).min(whole.end);
    let part = (close_up.end - close_up.start) as f64 / (whole.end - whole.start) as f64;
    if part <= MAX_CLOSE_UP { close_up } else { whole }
}

/// Divides a part of the run into stretches of the same length, without gaps.
pub(super) fn stretches(timeline: &[ReportSlice], slice_ms: u64, part: &Range<i64>) -> Vec<Stretch> {
    let width_ms = width(slice_ms);
    let slices = ((part.end - part.start) / width_ms).max(1);
    let stretch_ms = (slices + MAX_STRETCHES - 1) / MAX_STRETCHES * width_ms;
    let count = (part.end - part.start + stretch_ms - 1) / stretch_ms;
    let mut stretches: Vec<_> = (0..count)
        .map(|index| Stretch {
            from_seconds: (part.start + index * stretch_ms) as f64 / 1000.0,
            to_seconds: (part.start + (index + 1) * stretch_ms) as f64 / 1000.0,
            ..Stretch::default()
        })
        .collect();
    for slice in timeline.iter().filter(|slice| part.contains(&slice.at_ms)) {
        let index = usize::try_from((slice.at_ms - part.start) / stretch_ms).unwrap_or(usize::MAX);
        if let Some(stretch) = stretches.get_mut(index) {
            stretch.add(slice);
        }
    }
    stretches
}

/// A report from elsewhere might say 0.
fn width(slice_ms: u64) -> i64 {
    i64::try_from(slice_ms).unwrap_or(i64::MAX).clamp(1, 3_600_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(at_ms: i64, sold: u64) -> ReportSlice {
        ReportSlice { at_ms, sold, p50_ms: sold as f64, p99_ms: 2.0 * sold as f64, ..ReportSlice::default() }
    }

    #[test]
    fn a_close_up_shows_the_moment_and_some_room_around_it() {
        let timeline: Vec<_> = (-100..100).map(|at| slice(at * 100, u64::from(at == 3) * 200)).collect();
        assert_eq!(whole(&timeline, 100), -10_000..10_000);
        assert_eq!(close_up(&timeline, 100, |slice| slice.sold), -100..1_300);
    }

    #[test]
    fn without_a_moment_the_whole_run_is_shown() {
        let timeline: Vec<_> = (0..100).map(|at| slice(at * 100, 7)).collect();
        assert_eq!(close_up(&timeline, 100, |slice| slice.sold), 0..10_000);
        assert_eq!(close_up(&timeline, 100, |slice| slice.came), 0..10_000);
        assert_eq!(close_up(&[], 0, |slice| slice.sold), 0..1);
    }

    #[test]
    fn thinning_out_loses_nothing() {
        let timeline: Vec<_> = (0..3_000).map(|at| slice(at * 100, at as u64 % 7)).collect();
        let stretches = stretches(&timeline, 100, &whole(&timeline, 100));
        assert!(stretches.len() <= 160, "{}", stretches.len());
        let sold: u64 = stretches.iter().map(|stretch| stretch.sold).sum();
        assert_eq!(sold, timeline.iter().map(|slice| slice.sold).sum::<u64>());
        for pair in stretches.windows(2) {
            assert_eq!(pair[0].to_seconds, pair[1].from_seconds);
        }
    }

    #[test]
    fn a_stretch_has_the_mean_of_the_medians_and_the_worst_of_the_rest() {
        let mut stretch = Stretch::default();
        for slice in [slice(0, 10), slice(100, 0), slice(200, 30)] {
            stretch.add(&slice);
        }
        assert_eq!((stretch.p50_ms, stretch.p99_ms), (25.0, 60.0));
    }
}
