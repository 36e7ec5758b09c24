//! The last status of a sale, for many readers and one writer at a time. Every order of every sale is news,
//! so writing takes a few stores and no memory. Reading takes no lock, unless it meets a half-finished write.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use penstock_domain::{SaleStatus, SaleTerms};

use crate::sync::{AtomicU64, MutexGuard, fence};

/// Stands in for the version while the other fields are written.
const HALF_WRITTEN: u64 = u64::MAX;
const PAUSED: u64 = 1;
const CLOSED: u64 = 2;

#[derive(Debug)]
#[repr(C)]
pub(crate) struct Latest {
    version: AtomicU64,
    /// Available and held units. The total follows from the counts.
    available_held: AtomicU64,
    /// Paid units, and whether the sale is paused or closed.
    paid_flags: AtomicU64,
    /// The part that never changes after publishing.
    terms: SaleTerms,
}

impl Latest {
    pub(crate) fn new(status: &SaleStatus) -> Self {
        let (available_held, paid_flags) = pack(status);
        Self {
            terms: status.terms,
            version: AtomicU64::new(status.version),
            available_held: AtomicU64::new(available_held),
            paid_flags: AtomicU64::new(paid_flags),
        }
    }

    /// The caller holds the writers' lock.
    pub(crate) fn write<T>(&self, status: &SaleStatus, _lock: &MutexGuard<'_, T>) {
        let (available_held, paid_flags) = pack(status);
        self.version.store(HALF_WRITTEN, Relaxed);
        // A reader who sees one of the new numbers also sees that they are being written.
        fence(Release);
        self.available_held.store(available_held, Relaxed);
        self.paid_flags.store(paid_flags, Relaxed);
        self.version.store(status.version, Release);
    }

    /// None: a write is going on.
    pub(crate) fn read(&self) -> Option<SaleStatus> {
        let version = self.version.load(Acquire);
        let status = self.with_version(version);
        fence(Acquire);
        (version != HALF_WRITTEN && self.version.load(Relaxed) == version).then_some(status)
    }

    /// The caller holds the writers' lock.
    pub(crate) fn read_locked<T>(&self, _lock: &MutexGuard<'_, T>) -> SaleStatus {
        self.with_version(self.version.load(Relaxed))
    }

    fn with_version(&self, version: u64) -> SaleStatus {
        let available_held = self.available_held.load(Relaxed);
        let paid_flags = self.paid_flags.load(Relaxed);
        let (available, held, paid) =
            ((available_held >> 32) as u32, available_held as u32, (paid_flags >> 32) as u32);
        SaleStatus {
            terms: self.terms,
            // A read during a write may give any numbers, so the sum may overflow.
            total: available.wrapping_add(held).wrapping_add(paid),
            available,
            held,
            paid,
            paused: paid_flags & PAUSED != 0,
            closed: paid_flags & CLOSED != 0,
            version,
        }
    }
}

fn pack(status: &SaleStatus) -> (u64, u64) {
    let flags = if status.paused { PAUSED } else { 0 } | if status.closed { CLOSED } else { 0 };
    (u64::from(status.available) << 32 | u64::from(status.held), u64::from(status.paid) << 32 | flags)
}
