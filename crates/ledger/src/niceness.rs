//! Which of our threads goes first where they share a core. It does not know what the threads do.

/// What a thread works for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Everybody waits for the ledger's writer.
    Writing,
    /// Somebody waits for an answer.
    Serving,
    /// Nobody waits, but it must not fall behind for ever.
    Settling,
    /// It takes what the others leave.
    Spare,
}

const WRITING: i32 = -10;
const SERVING: i32 = 0;
const SETTLING: i32 = 5;
const SPARE: i32 = 15;

/// Gives the thread that calls it, and the threads that it starts from then on, their place in the line.
///
/// Only a privileged process may let its writer go before everybody else on the machine. In any other the writer stays
/// where it is, and those who serve step back: refusing a flood must not keep it from what was let in.
pub fn take_turn(turn: Turn) {
    let niceness = match turn {
        Turn::Writing => WRITING,
        // Trying it is the only way to know.
        Turn::Serving if set(WRITING) => SERVING,
        Turn::Serving | Turn::Settling => SETTLING,
        Turn::Spare => SPARE,
    };
    set(niceness);
}

/// False: it can't be set, and the thread runs as it is.
fn set(niceness: i32) -> bool {
    // Elsewhere it would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    return rustix::process::setpriority_process(None, niceness).is_ok();
    #[cfg(not(target_os = "linux"))]
    return niceness == SERVING;
}
