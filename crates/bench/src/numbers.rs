//! How the values of several rounds are summed up and rounded for the report.

use std::time::Duration;

/// The median; of two middle values, the smaller.
pub(crate) fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(f64::NAN)
}

pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// To whole numbers.
pub(crate) fn rounded(values: &[f64]) -> Vec<f64> {
    values.iter().map(|value| value.round()).collect()
}

pub(crate) fn hundredth(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

pub(crate) fn hundredths(values: &[f64]) -> Vec<f64> {
    values.iter().copied().map(hundredth).collect()
}

pub(crate) fn thousandth(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

pub(crate) fn thousandths(values: &[f64]) -> Vec<f64> {
    values.iter().copied().map(thousandth).collect()
}

/// Rounded to a hundredth.
pub(crate) fn milliseconds(duration: Duration) -> f64 {
    hundredth(duration.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.0);
        assert!(median(&[]).is_nan());
    }
}
