//! Which of our threads goes first where they share a core: the ledger's writer before those who serve requests, and
//! those before whoever works for nobody in particular. It does not know what the threads do.

/// Sets the priority of the thread that calls it, and of the threads that it starts from then on; a lower number goes
/// first. Only a privileged process may ask for less than it has: where it can't be set, the thread runs as it is.
pub fn set_niceness(niceness: i32) {
    // Elsewhere it would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::setpriority_process(None, niceness);
    #[cfg(not(target_os = "linux"))]
    let _ = niceness;
}
