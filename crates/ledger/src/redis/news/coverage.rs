//! How much of a sale's history this node has heard. A latch that refuses claims must know every accepted
//! key, so a status is passed on only when nothing is missing up to it. It needs no connection.

use penstock_domain::SaleStatus;

use crate::redis::layout::{epoch_of_version, position_of_version};

/// The most parts of a history that are kept after a gap. Further ones are dropped; reading the feed brings
/// them back.
const MAX_ISLANDS: usize = 64;

#[derive(Clone, Debug)]
pub(crate) struct Coverage {
    /// The sale at the last position up to which every accepted key was heard.
    status: SaleStatus,
    /// For each part after a gap: the position before it, and the sale after it. Ordered by the position.
    islands: Vec<(u64, SaleStatus)>,
}

/// How a piece of news fits what was heard of the sale before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NewsFit {
    /// Nothing is missing: this is the sale.
    Known(SaleStatus),
    /// Earlier news is missing. Until it is read, this is the last status that may be told.
    Gap(SaleStatus),
    /// The history is a different one and has to be read as a whole. Until then, this is the last status that
    /// may be told.
    NewHistory(SaleStatus),
    /// The news belongs to a history that is gone.
    Outdated,
}

impl Coverage {
    /// Everything up to this status was heard.
    pub(crate) fn new(status: SaleStatus) -> Self {
        Self { status, islands: Vec::new() }
    }

    pub(crate) fn status(&self) -> SaleStatus {
        self.status
    }

    /// Notes that everything up to `status` was heard, in whichever history.
    pub(crate) fn reach(&mut self, status: SaleStatus) {
        if epoch_of_version(status.version) == epoch_of_version(self.status.version) {
            self.hear(0, status);
        } else if status.version > self.status.version {
            *self = Self::new(status);
        }
    }

    /// Notes that everything after `before` and up to `status` was heard.
    pub(crate) fn hear(&mut self, before: u64, status: SaleStatus) -> NewsFit {
        let (known, heard) = (epoch_of_version(self.status.version), epoch_of_version(status.version));
        if heard > known {
            return NewsFit::NewHistory(self.status);
        }
        if heard < known {
            return NewsFit::Outdated;
        }
        let place = self.islands.partition_point(|(other, _)| *other <= before);
        self.islands.insert(place, (before, status));
        let reached = self.islands.iter().take_while(|(before, status)| {
            let joins = *before <= position_of_version(self.status.version);
            if joins && status.version >= self.status.version {
                self.status = *status;
            }
            joins
        });
        let reached = reached.count();
        self.islands.drain(..reached);
        self.islands.truncate(MAX_ISLANDS);
        match self.status.version >= status.version {
            true => NewsFit::Known(self.status),
            false => NewsFit::Gap(self.status),
        }
    }
}

#[cfg(test)]
mod tests {
    use penstock_domain::{SaleId, SaleTerms};

    use super::*;

    fn at(version: u64) -> SaleStatus {
        let terms = SaleTerms {
            sale: SaleId::from_random(1),
            units: 9,
            limit_per_buyer: 1,
            opens_at: None,
            closes_at: None,
            hold_seconds: 60,
        };
        SaleStatus { terms, total: 9, available: 9, held: 0, paid: 0, paused: false, closed: false, version }
    }

    #[test]
    fn news_without_a_gap_is_told_at_once() {
        let mut coverage = Coverage::new(at(5));
        assert_eq!(coverage.hear(5, at(9)), NewsFit::Known(at(9)));
        assert_eq!(coverage.hear(7, at(11)), NewsFit::Known(at(11)));
        assert_eq!(coverage.hear(2, at(4)), NewsFit::Known(at(11)));
        assert_eq!(position_of_version(coverage.status().version), 11);
    }

    #[test]
    fn news_after_a_gap_is_told_when_the_gap_is_closed() {
        let mut coverage = Coverage::new(at(5));
        assert_eq!(coverage.hear(8, at(9)), NewsFit::Gap(at(5)));
        assert_eq!(coverage.hear(12, at(13)), NewsFit::Gap(at(5)));
        assert_eq!(coverage.hear(5, at(6)), NewsFit::Known(at(6)));
        assert_eq!(coverage.hear(6, at(8)), NewsFit::Known(at(9)));
        assert_eq!(coverage.hear(9, at(12)), NewsFit::Known(at(13)));
    }

    #[test]
    fn another_history_is_read_from_its_beginning() {
        let mut coverage = Coverage::new(at(5 | 1 << 40));
        assert_eq!(coverage.hear(5, at(9)), NewsFit::Outdated);
        assert_eq!(coverage.hear(5, at(6 | 2 << 40)), NewsFit::NewHistory(at(5 | 1 << 40)));
    }

    #[test]
    fn the_number_of_parts_kept_after_gaps_is_limited() {
        let mut coverage = Coverage::new(at(1));
        for position in 1..1_000 {
            assert_eq!(coverage.hear(position * 10, at(position * 10 + 1)), NewsFit::Gap(at(1)));
        }
        assert_eq!(coverage.islands.len(), MAX_ISLANDS);
        assert_eq!(coverage.hear(1, at(10)), NewsFit::Known(at(11)));
    }
}
