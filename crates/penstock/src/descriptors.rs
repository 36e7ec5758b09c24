//! Lets the process have as many file descriptors as its connections need, and keeps some for everything
//! else.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Descriptors for the journal, the database, the listeners and the log.
const RESERVED: u64 = 512;

/// Raises the limit of this process if it is too low for this many connections, and warns if that is not
/// enough. Returns how many connections are possible; they do not get what the journal and the database need.
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
        tracing::warn!("cannot raise the limit on file descriptors");
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

/// The limits to try, best first.
fn raised(limit: &Rlimit, needed: u64) -> [Rlimit; 2] {
    // Without a hard limit, some systems still refuse an unlimited soft limit.
    let within = Rlimit { current: Some(limit.maximum.unwrap_or(needed)), maximum: limit.maximum };
    let beyond = Rlimit { current: Some(needed), maximum: limit.maximum.map(|maximum| maximum.max(needed)) };
    if covers(limit.maximum, needed) { [within, within] } else { [beyond, within] }
}

/// If there are very few descriptors, half are for connections.
fn connections_within(allowed: u64) -> usize {
    usize::try_from(allowed.saturating_sub(RESERVED).max(allowed / 2).max(1)).unwrap_or(usize::MAX)
}

/// None means unlimited, which covers everything.
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
    fn a_sufficient_limit_is_left_alone() {
        assert!(covers(Some(1_000), 1_000) && covers(None, 1_000) && !covers(Some(999), 1_000));
    }

    #[test]
    fn a_low_limit_is_raised_as_far_as_possible() {
        assert_eq!(tried(Some(256), Some(4_096))[0], (Some(4_096), Some(4_096)));
        assert_eq!(tried(Some(256), None)[0], (Some(1_000), None));
    }

    #[test]
    fn a_low_hard_limit_is_raised_or_used_in_full() {
        assert_eq!(tried(Some(256), Some(512)), [(Some(1_000), Some(1_000)), (Some(512), Some(512))]);
    }

    #[test]
    fn connections_leave_descriptors_for_everything_else() {
        assert_eq!(connections_within(20_000), 20_000 - 512);
        assert_eq!(connections_within(600), 300);
        assert_eq!(connections_within(1), 1);
    }
}
