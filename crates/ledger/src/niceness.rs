//! Which of the ledger's threads goes first where they share a core. It does not know what they do.

/// Sets the priority of the thread that calls it; a lower number goes first. Only a privileged process may ask for less
/// than it has: where it can't be set, the thread runs as it is.
pub(crate) fn set_niceness(niceness: i32) {
    // Elsewhere it would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, niceness);
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}
