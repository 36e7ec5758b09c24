//! The shared memory the latch is made of: the standard library's, or loom's when every interleaving is explored
//! (`cfg(loom)`, tests/latch_interleavings.rs). Knows nothing of what is built on it.

#[cfg(not(loom))]
pub(crate) use arc_swap::ArcSwap;
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Mutex, OnceLock,
    atomic::{AtomicU8, AtomicU64},
};

#[cfg(loom)]
pub(crate) use self::explored::{ArcSwap, OnceLock};
#[cfg(loom)]
pub(crate) use loom::sync::{
    Mutex,
    atomic::{AtomicU8, AtomicU64},
};

#[cfg(loom)]
mod explored {
    use std::sync::{Arc, OnceLock as Cell, PoisonError};

    use loom::sync::{
        Mutex,
        atomic::{
            AtomicBool,
            Ordering::{Acquire, Release},
        },
    };

    /// Whoever loads gets what was stored last.
    #[derive(Debug)]
    pub(crate) struct ArcSwap<T>(Mutex<Arc<T>>);

    impl<T> ArcSwap<T> {
        pub(crate) fn from_pointee(value: T) -> Self {
            Self(Mutex::new(Arc::new(value)))
        }

        pub(crate) fn load(&self) -> Arc<T> {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
        }

        pub(crate) fn store(&self, value: Arc<T>) {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = value;
        }
    }

    /// What the standard library promises of its `OnceLock`, in terms loom knows: who sees it set sees all that
    /// was done before it was set, and who doesn't may be late. Set by one thread at a time.
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
