//! Whether more is being decided than settlement can keep up with: a rush. Work that nobody waits for can
//! wait for its end, since most rushes last for seconds.

use std::time::{Duration, Instant};

/// The time over which the pace is measured. Over a shorter one, a single batch would look like a rush.
const WINDOW: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Rush {
    per_second: f64,
    head: u64,
    looked_at: Option<Instant>,
    is_on: bool,
}

impl Rush {
    /// More than `per_second` decisions a second are a rush.
    pub fn beyond(per_second: u32) -> Self {
        Self { per_second: f64::from(per_second), head: 0, looked_at: None, is_on: false }
    }

    /// Whether there is a rush. `head` is the last decision's position. The more often this is called, the
    /// sooner it knows.
    pub fn is_on(&mut self, head: u64, now: Instant) -> bool {
        let Some(looked_at) = self.looked_at else {
            (self.head, self.looked_at) = (head, Some(now));
            return false;
        };
        let passed = now.saturating_duration_since(looked_at);
        if passed >= WINDOW {
            let decided = head.saturating_sub(self.head) as f64;
            self.is_on = decided > self.per_second * passed.as_secs_f64();
            (self.head, self.looked_at) = (head, Some(now));
        }
        self.is_on
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rush_is_seen_when_it_begins_and_when_it_ends() {
        let mut rush = Rush::beyond(5_000);
        let begin = Instant::now();
        let after = |millis| begin + Duration::from_millis(millis);
        // Decisions from before the first look do not count.
        assert!(!rush.is_on(1_000_000, begin));
        assert!(!rush.is_on(1_000_400, after(100)));
        assert!(!rush.is_on(1_003_400, after(150)), "too short a look");
        assert!(rush.is_on(1_004_400, after(200)));
        assert!(rush.is_on(1_004_400, after(250)));
        assert!(!rush.is_on(1_004_800, after(300)));
    }
}
