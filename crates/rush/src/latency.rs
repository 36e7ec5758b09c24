//! A histogram of latencies.

use std::time::Duration;

use hdrhistogram::Histogram;

/// Latencies in nanoseconds, to three digits, up to a minute.
#[derive(Clone, Debug)]
pub struct LatencyHistogram(Option<Histogram<u64>>);

const LONGEST_NANOSECONDS: u64 = 60_000_000_000;
const SHORTEST_NANOSECONDS: u64 = 1_000;
const DIGITS: u8 = 3;

impl Default for LatencyHistogram {
    fn default() -> Self {
        // The histogram accepts these constants; a test ensures it.
        Self(Histogram::new_with_bounds(SHORTEST_NANOSECONDS, LONGEST_NANOSECONDS, DIGITS).ok())
    }
}

impl LatencyHistogram {
    pub fn record(&mut self, latency: Duration) {
        if let Some(histogram) = &mut self.0 {
            histogram.saturating_record(u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX));
        }
    }

    pub fn add(&mut self, other: &Self) {
        if let (Some(histogram), Some(other)) = (&mut self.0, &other.0) {
            // Both have the same bounds, so nothing can be out of range.
            let _ = histogram.add(other);
        }
    }

    pub fn quantile(&self, quantile: f64) -> Duration {
        Duration::from_nanos(self.0.as_ref().map_or(0, |histogram| histogram.value_at_quantile(quantile)))
    }

    pub fn count(&self) -> u64 {
        self.0.as_ref().map_or(0, Histogram::len)
    }

    pub fn max(&self) -> Duration {
        Duration::from_nanos(self.0.as_ref().map_or(0, Histogram::max))
    }

    /// Each recorded latency, and how often it was recorded.
    pub fn recorded(&self) -> impl Iterator<Item = (Duration, u64)> {
        let values = self.0.iter().flat_map(Histogram::iter_recorded);
        values.map(|value| (Duration::from_nanos(value.value_iterated_to()), value.count_at_value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_kept_to_three_digits() {
        let mut latency = LatencyHistogram::default();
        for microseconds in 1..=1000 {
            latency.record(Duration::from_micros(microseconds));
        }
        let median = latency.quantile(0.5).as_micros();
        assert!((499..=501).contains(&median), "{median}");
    }
}
