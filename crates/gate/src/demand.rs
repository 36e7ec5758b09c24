//! How many people ask per second. A rush raises the demand at once; it fades slowly. It does not know what
//! they ask for.

/// The weight of past demand, one second later.
const KEPT_AFTER_A_SECOND: f64 = 0.5;

#[derive(Debug, Default)]
pub(crate) struct Demand {
    per_second: f64,
}

impl Demand {
    /// This many people have asked since the last measurement.
    pub(crate) fn measure(&mut self, people: u64, seconds: f64) {
        self.per_second = (people as f64 / seconds).max(self.per_second * KEPT_AFTER_A_SECOND.powf(seconds));
    }

    /// The people who are expected to ask within the next `seconds`.
    pub(crate) fn within(&self, seconds: f64) -> u64 {
        (self.per_second * seconds) as u64
    }
}
