//! How willingly a thread of ours lets others go first. It does not know what the threads do.

/// Lowers the priority of the thread that calls it. Where it can't be set, the thread runs as it is.
pub(crate) fn let_others_go_first(niceness: i32) {
    // Elsewhere than on Linux it would be the priority of the whole process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if let Err(error) = rustix::process::setpriority_process(None, niceness) {
        tracing::warn!(%error, niceness, "the priority of a thread could not be set");
    }
    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    let _ = niceness;
}
