//! The epochs of a sale, and how much of their history they share. Each adoption adds an entry (adopt.lua).

/// The positions up to which a sale's history is the same as in its earlier epochs: it went on from one of
/// each.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Lineage(Vec<(u64, u64)>);

impl Lineage {
    /// `epoch:position epoch:position …`, the oldest first. A text that can't be parsed contains nothing.
    pub(crate) fn parse(text: &str) -> Self {
        let entry = |entry: &str| {
            let (epoch, position) = entry.split_once(':')?;
            Some((epoch.parse().ok()?, position.parse().ok()?))
        };
        Self(text.split_ascii_whitespace().map(entry).collect::<Option<_>>().unwrap_or_default())
    }

    /// Whether the history contains everything up to `position` of `epoch`.
    pub(crate) fn contains(&self, epoch: u64, position: u64) -> bool {
        let since = self.0.iter().position(|(other, _)| *other == epoch);
        let since = since.and_then(|place| self.0.get(place..)).unwrap_or_default();
        // Each failover since then may have lost the end.
        !since.is_empty() && since.iter().all(|(_, kept)| position <= *kept)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_history_contains_what_no_failover_has_lost() {
        let lineage = Lineage::parse("1:50 3:80 4:70");
        assert!(lineage.contains(1, 50) && lineage.contains(3, 70) && lineage.contains(4, 70));
        assert!(!lineage.contains(1, 51), "this one was lost");
        assert!(!lineage.contains(3, 71), "this one was lost with the server after the next");
        assert!(!lineage.contains(2, 1), "this epoch belongs to another history");
        assert!(!Lineage::parse("").contains(0, 0) && !Lineage::parse("1:50 x").contains(1, 1));
    }
}
