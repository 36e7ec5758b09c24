//! How much of the machine its host gave to others, from `/proc/stat`.

use std::fs;

use anyhow::Context;

/// Measures how much of the machine its host took away: a run that lost much says little.
#[derive(Clone, Copy, Debug)]
pub struct Steal {
    stolen: u64,
    total: u64,
}

impl Steal {
    pub fn start() -> anyhow::Result<Self> {
        let stat = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        let line = stat.lines().next().context("unexpected form of /proc/stat")?;
        let ticks: Vec<u64> =
            line.split_whitespace().skip(1).filter_map(|field| field.parse().ok()).collect();
        // user nice system idle iowait irq softirq steal; the later fields are contained in user and nice.
        let stolen = *ticks.get(7).context("this kernel does not report steal")?;
        Ok(Self { stolen, total: ticks.iter().take(8).sum() })
    }

    pub fn percent(&self) -> anyhow::Result<f64> {
        let now = Self::start()?;
        let total = (now.total - self.total).max(1);
        Ok((now.stolen - self.stolen) as f64 * 100.0 / total as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_a_share_of_the_time() {
        let percent = Steal::start().unwrap().percent().unwrap();
        assert!((0.0..=100.0).contains(&percent));
    }
}
