//! A run in slices of time. Slices get coarser when there are too many, so that a long run needs no more
//! memory than a short one. Knows no clock.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::report;

use super::{
    Moment,
    codes::{CodeCounts, RefusalCode},
};

const FIRST_SLICE_NANOSECONDS: i64 = 100_000_000;
const MAX_SLICES: usize = 3_000;
const NANOSECONDS_PER_MILLISECOND: i64 = 1_000_000;
/// Latencies of a slice, in microseconds, to two digits, up to two minutes.
const LONGEST_MICROSECONDS: u64 = 120_000_000;
const DIGITS: u8 = 2;

/// The events of a slice.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) came: u64,
    pub(super) requests: u64,
    pub(super) orders_due: u64,
    pub(super) sold: u64,
    pub(super) admitted: u64,
    refused: CodeCounts,
    /// Latencies of answered orders, each with its count. Empty while the slice is being filled.
    latencies: Vec<(u64, u64)>,
}

impl Slice {
    pub(super) fn refuse(&mut self, code: RefusalCode) {
        self.refused.count(code);
    }

    fn add(&mut self, other: &Self) {
        self.came += other.came;
        self.requests += other.requests;
        self.orders_due += other.orders_due;
        self.sold += other.sold;
        self.admitted += other.admitted;
        self.refused.add(&other.refused);
        self.latencies.extend_from_slice(&other.latencies);
    }
}

#[derive(Debug)]
pub(super) struct Timeline {
    slice_nanoseconds: i64,
    /// The number of the first slice; slice 0 begins at the opening.
    first: i64,
    slices: Vec<Slice>,
    /// Stands in for a missing slice, which does not happen.
    nowhere: Slice,
    /// Latencies of the slice with that number. Answers come in order of time, so one histogram is enough.
    latencies: Option<Histogram<u32>>,
    latencies_of: i64,
}

impl Timeline {
    pub(super) fn new(starts_at: Moment) -> Self {
        let first = starts_at.0.div_euclid(FIRST_SLICE_NANOSECONDS);
        Self {
            slice_nanoseconds: FIRST_SLICE_NANOSECONDS,
            first,
            slices: Vec::new(),
            nowhere: Slice::default(),
            latencies: histogram(),
            latencies_of: first,
        }
    }

    /// The slice of a moment. Moments before the beginning count in the first slice.
    pub(super) fn at(&mut self, moment: Moment) -> &mut Slice {
        let mut position = self.position(moment);
        while position >= MAX_SLICES {
            self.coarsen();
            position = self.position(moment);
        }
        if position >= self.slices.len() {
            self.slices.resize_with(position + 1, Slice::default);
        }
        self.slices.get_mut(position).unwrap_or(&mut self.nowhere)
    }

    fn position(&self, moment: Moment) -> usize {
        usize::try_from(moment.0.div_euclid(self.slice_nanoseconds) - self.first).unwrap_or(0)
    }

    /// An order was answered.
    pub(super) fn record(&mut self, at: Moment, latency: Duration) {
        let number = at.0.div_euclid(self.slice_nanoseconds);
        if number != self.latencies_of {
            self.flush();
            self.latencies_of = at.0.div_euclid(self.slice_nanoseconds);
        }
        if let Some(histogram) = &mut self.latencies {
            histogram.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX));
        }
    }

    /// Stores the latencies of a finished slice in compact form.
    fn flush(&mut self) {
        let Some(mut histogram) = self.latencies.take() else { return };
        if !histogram.is_empty() {
            let recorded: Vec<_> = histogram
                .iter_recorded()
                .map(|value| (value.value_iterated_to(), u64::from(value.count_at_value())))
                .collect();
            let at = Moment(self.latencies_of.saturating_mul(self.slice_nanoseconds));
            self.at(at).latencies.extend(recorded);
            histogram.reset();
        }
        self.latencies = Some(histogram);
    }

    /// Merges the slices in pairs.
    fn coarsen(&mut self) {
        let (old_first, old) = (self.first, std::mem::take(&mut self.slices));
        self.slice_nanoseconds *= 2;
        self.first = old_first.div_euclid(2);
        self.latencies_of = self.latencies_of.div_euclid(2);
        for (number, slice) in (old_first..).zip(&old) {
            let position = usize::try_from(number.div_euclid(2) - self.first).unwrap_or(0);
            if position >= self.slices.len() {
                self.slices.resize_with(position + 1, Slice::default);
            }
            if let Some(merged) = self.slices.get_mut(position) {
                merged.add(slice);
            }
        }
    }

    /// Adds the counts of another thread.
    pub(super) fn add(&mut self, mut other: Self) {
        self.flush();
        other.flush();
        while self.slice_nanoseconds < other.slice_nanoseconds {
            self.coarsen();
        }
        while other.slice_nanoseconds < self.slice_nanoseconds {
            other.coarsen();
        }
        for (number, slice) in (other.first..).zip(&other.slices) {
            self.at(Moment(number.saturating_mul(other.slice_nanoseconds))).add(slice);
        }
    }

    /// The width of a slice in milliseconds, and the slices as they are reported.
    pub(super) fn report(mut self) -> (u64, Vec<report::ReportSlice>) {
        self.flush();
        let milliseconds = self.slice_nanoseconds / NANOSECONDS_PER_MILLISECOND;
        let slices = (self.first..).zip(&self.slices);
        let slices = slices.map(|(number, slice)| reported(number * milliseconds, slice)).collect();
        (u64::try_from(milliseconds).unwrap_or(0), slices)
    }
}

fn histogram() -> Option<Histogram<u32>> {
    // The histogram accepts these constants; a test ensures it.
    Histogram::new_with_max(LONGEST_MICROSECONDS, DIGITS).ok()
}

fn reported(at_ms: i64, slice: &Slice) -> report::ReportSlice {
    let mut latencies = histogram();
    if let Some(histogram) = &mut latencies {
        for (microseconds, count) in &slice.latencies {
            histogram.saturating_record_n(*microseconds, u32::try_from(*count).unwrap_or(u32::MAX));
        }
    }
    let milliseconds = |value: Option<u64>| value.unwrap_or(0) as f64 / 1e3;
    let quantile = |at| milliseconds(latencies.as_ref().map(|histogram| histogram.value_at_quantile(at)));
    report::ReportSlice {
        at_ms,
        came: slice.came,
        requests: slice.requests,
        orders_due: slice.orders_due,
        sold: slice.sold,
        admitted: slice.admitted,
        refused: slice.refused.named(),
        p50_ms: quantile(0.5),
        p99_ms: quantile(0.99),
        max_ms: milliseconds(latencies.as_ref().map(Histogram::max)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn milliseconds(count: i64) -> Moment {
        Moment(count * NANOSECONDS_PER_MILLISECOND)
    }

    #[test]
    fn slices_count_from_the_opening() {
        let mut timeline = Timeline::new(milliseconds(-250));
        timeline.at(milliseconds(-250)).came += 1;
        timeline.at(milliseconds(-1)).requests += 2;
        timeline.at(milliseconds(0)).sold += 3;
        timeline.at(milliseconds(99)).refuse(RefusalCode::SOLD_OUT);
        timeline.record(milliseconds(99), Duration::from_millis(7));
        let (slice_ms, slices) = timeline.report();
        assert_eq!(slice_ms, 100);
        assert_eq!(slices.iter().map(|slice| slice.at_ms).collect::<Vec<_>>(), [-300, -200, -100, 0]);
        assert_eq!((slices[0].came, slices[2].requests, slices[3].sold), (1, 2, 3));
        assert_eq!(slices[3].refused.get("sold_out"), Some(&1));
        assert!((6.9..=7.1).contains(&slices[3].p50_ms), "{}", slices[3].p50_ms);
    }

    #[test]
    fn a_long_run_has_coarser_slices_and_loses_nothing() {
        let mut timeline = Timeline::new(milliseconds(-1_000));
        let seconds = 3_600;
        for second in -1..seconds {
            timeline.at(milliseconds(second * 1_000)).requests += 1;
            timeline.record(milliseconds(second * 1_000), Duration::from_millis(3));
        }
        let (slice_ms, slices) = timeline.report();
        assert_eq!(slice_ms, 1_600);
        assert!(slices.len() <= MAX_SLICES, "{}", slices.len());
        assert_eq!(slices.iter().map(|slice| slice.requests).sum::<u64>(), 3_601);
        assert!(slices.iter().all(|slice| slice.requests == 0 || (2.9..3.1).contains(&slice.p99_ms)));
        assert!(slices.iter().all(|slice| slice.at_ms % 1_600 == 0));
    }

    #[test]
    fn threads_add_up_even_if_one_ran_longer() {
        let mut long = Timeline::new(milliseconds(-100));
        long.at(milliseconds(400_000)).requests += 1;
        let mut short = Timeline::new(milliseconds(-100));
        short.at(milliseconds(150)).requests += 5;
        short.record(milliseconds(150), Duration::from_millis(2));
        short.record(milliseconds(150), Duration::from_millis(4));
        short.add(long);
        let (slice_ms, slices) = short.report();
        assert_eq!(slice_ms, 200);
        let at_opening = slices.iter().find(|slice| slice.at_ms == 0).unwrap();
        assert_eq!(at_opening.requests, 5);
        assert!((3.9..=4.1).contains(&at_opening.max_ms), "{}", at_opening.max_ms);
        assert_eq!(slices.last().unwrap().requests, 1);
    }
}
