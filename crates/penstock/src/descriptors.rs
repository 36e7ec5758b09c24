//! Lets the process have as many file descriptors as its connections need. It does not know what else they are
//! used for, and leaves some for it.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// For the journal, the database, the listeners and the log.
const RESERVED: u64 = 512;

/// Raises the limit of this process, if it has less than so many connections need, and warns if that is still too
/// little. Answers how many connections there may be: what the journal and the database need is not theirs to take.
pub(crate) fn allow_for(max_connections: usize) -> usize {
    let needed = (max_connections as u64).saturating_add(RESERVED);
    let limit = getrlimit(Resource::Nofile);
    if covers(limit.current, needed) {
        return max_connections;
    }
    // Only a privileged process may go beyond the hard limit; any other may go up to it.
    let is_raised =
        raised(&limit, needed).into_iter().any(|raised| setrlimit(Resource::Nofile, raised).is_ok());
    if !is_raised {
        tracing::warn!("the limit of file descriptors can't be raised");
    }
    let allowed = getrlimit(Resource::Nofile).current;
    if covers(allowed, needed) {
        return max_connections;
    }
    let connections = connections_within(allowed.unwrap_or(needed));
    tracing::warn!(
        allowed,
        needed,
        connections,
        "fewer file descriptors than http.max_connections needs; raise the hard limit (ulimit -Hn, LimitNOFILE)"
    );
    connections
}

/// The limits to try, the best first.
fn raised(limit: &Rlimit, needed: u64) -> [Rlimit; 2] {
    // Where the hard limit is none at all, some systems still refuse to have no limit.
    let within = Rlimit { current: Some(limit.maximum.unwrap_or(needed)), maximum: limit.maximum };
    let beyond = Rlimit { current: Some(needed), maximum: limit.maximum.map(|maximum| maximum.max(needed)) };
    if covers(limit.maximum, needed) { [within, within] } else { [beyond, within] }
}

/// Of very few, half are for connections.
fn connections_within(allowed: u64) -> usize {
    usize::try_from(allowed.saturating_sub(RESERVED).max(allowed / 2).max(1)).unwrap_or(usize::MAX)
}

/// No limit covers everything.
fn covers(limit: Option<u64>, needed: u64) -> bool {
    limit.is_none_or(|limit| limit >= needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tried(current: Option<u64>, maximum: Option<u64>) -> [(Option<u64>, Option<u64>); 2] {
        raised(&Rlimit { current, maximum }, 1_000).map(|limit| (limit.current, limit.maximum))
    }

    #[test]
    fn a_limit_that_suffices_is_left_alone() {
        assert!(covers(Some(1_000), 1_000) && covers(None, 1_000) && !covers(Some(999), 1_000));
    }

    #[test]
    fn a_limit_that_is_too_low_is_raised_as_far_as_it_goes() {
        assert_eq!(tried(Some(256), Some(4_096))[0], (Some(4_096), Some(4_096)));
        assert_eq!(tried(Some(256), None)[0], (Some(1_000), None));
    }

    #[test]
    fn a_hard_limit_that_is_too_low_is_raised_or_else_used_up() {
        assert_eq!(tried(Some(256), Some(512)), [(Some(1_000), Some(1_000)), (Some(512), Some(512))]);
    }

    #[test]
    fn connections_leave_some_for_everything_else() {
        assert_eq!(connections_within(20_000), 20_000 - 512);
        assert_eq!(connections_within(600), 300);
        assert_eq!(connections_within(1), 1);
    }
}
