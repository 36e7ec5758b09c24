//! The shared-memory types of the latch: the usual ones, or loom's when every interleaving is explored
//! (`cfg(loom)`, tests/latch_interleavings.rs). Does not know what is built on it.

#[cfg(not(loom))]
pub(crate) use std::sync::{
    OnceLock,
    atomic::{AtomicU8, AtomicU64, fence},
};

#[cfg(loom)]
pub(crate) use loom::sync::{
    MutexGuard,
    atomic::{AtomicU8, AtomicU64, fence},
};
#[cfg(not(loom))]
pub(crate) use parking_lot::{Mutex, MutexGuard};

#[cfg(loom)]
pub(crate) use self::explored::{Mutex, OnceLock};

#[cfg(loom)]
mod explored {
    use std::sync::{OnceLock as Cell, PoisonError};

    use loom::sync::{
        MutexGuard,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    };

    /// Loom's lock, in the form of parking_lot's.
    #[derive(Debug, Default)]
    pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

    impl<T> Mutex<T> {
        pub(crate) fn lock(&self) -> MutexGuard<'_, T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner)
        }
    }

    /// The promises of the standard library's `OnceLock`, in terms loom knows: a thread that sees it set sees
    /// everything done before it was set, and a thread that doesn't may be late. Set by one thread at a time.
    #[derive(Debug)]
    pub(crate) struct OnceLock<T> {
        set: AtomicBool,
        value: Cell<T>,
    }

    impl<T> Default for OnceLock<T> {
        fn default() -> Self {
            Self { set: AtomicBool::new(false), value: Cell::new() }
        }
    }

    impl<T> OnceLock<T> {
        pub(crate) fn get(&self) -> Option<&T> {
            if self.set.load(Acquire) { self.value.get() } else { None }
        }

        pub(crate) fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
            let value = self.value.get_or_init(make);
            self.set.store(true, Release);
            value
        }
    }
}
