//! Lets the process have as many file descriptors as its connections need. It does not know what else they are
//! used for, and leaves some for it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the journal, the database, the listeners and the log.
const RESERVED: u64 = 512;

/// Raises the limit of this process to what it may have, if it has less than so many connections need, and warns
/// if that is still too little.
pub(crate) fn allow_for(max_connections: usize) {
    let needed = (max_connections as u64).saturating_add(RESERVED);
    let limit = getrlimit(Resource::Nofile);
    let Some(raised) = raised(&limit, needed) else { return };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of file descriptors can't be raised");
    }
    let allowed = getrlimit(Resource::Nofile).current;
    if !covers(allowed, needed) {
        tracing::warn!(
            allowed,
            needed,
            "fewer file descriptors than http.max_connections needs; raise the hard limit (ulimit -Hn, LimitNOFILE)"
        );
    }
}

/// The limit to set, if the one there is does not suffice.
fn raised(limit: &Rlimit, needed: u64) -> Option<Rlimit> {
    if covers(limit.current, needed) {
        return None;
    }
    // Where the hard limit is none at all, some systems still refuse to have no limit.
    let current = limit.maximum.unwrap_or(needed);
    Some(Rlimit { current: Some(current), maximum: limit.maximum })
}

/// No limit covers everything.
fn covers(limit: Option<u64>, needed: u64) -> bool {
    limit.is_none_or(|limit| limit >= needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(current: Option<u64>, maximum: Option<u64>) -> Option<Option<u64>> {
        raised(&Rlimit { current, maximum }, 1_000).map(|limit| {
            assert_eq!(limit.maximum, maximum, "the hard limit can't be raised and need not be lowered");
            limit.current
        })
    }

    #[test]
    fn a_limit_that_suffices_is_left_alone() {
        assert_eq!(after(Some(1_000), Some(4_096)), None);
        assert_eq!(after(None, None), None);
    }

    #[test]
    fn a_limit_that_is_too_low_is_raised_as_far_as_it_goes() {
        assert_eq!(after(Some(256), Some(4_096)), Some(Some(4_096)));
        assert_eq!(after(Some(256), Some(512)), Some(Some(512)));
        assert_eq!(after(Some(256), None), Some(Some(1_000)));
    }
}
