//! Which of our threads goes first where they share a core. It does not know what the threads do.

use std::time::Duration;

/// What a thread works for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Everybody waits for the ledger's writer.
    Writing,
    /// Somebody waits for an answer.
    Serving,
    /// Nobody waits, but it must not fall behind for ever.
    Settling,
    /// Somebody waits, but it is a long piece of work that others must hardly notice.
    Hashing,
    /// It takes what the others leave.
    Spare,
}

const WRITING: i32 = -10;
const SERVING: i32 = 0;
const SETTLING: i32 = 5;
const HASHING: i32 = 10;
const SPARE: i32 = 15;
/// As the length of a slice.
const KERNEL_CHOOSES: Duration = Duration::ZERO;

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
        Turn::Hashing => HASHING,
        Turn::Spare => SPARE,
    };
    set(niceness);
    set_slices(match turn {
        Turn::Writing => Duration::from_micros(100),
        Turn::Serving => KERNEL_CHOOSES,
        Turn::Settling | Turn::Hashing | Turn::Spare => Duration::from_millis(100),
    });
}

/// False: it can't be set, and the thread runs as it is.
fn set(niceness: i32) -> bool {
    // Elsewhere it would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    return rustix::process::setpriority_process(None, niceness).is_ok();
    #[cfg(not(target_os = "linux"))]
    return niceness == SERVING;
}

/// Asks Linux (6.12 and later; earlier ones ignore it) for slices of this length. A thread that wakes takes the core from one
/// with longer slices at once. Otherwise it waits until that one has had its slice, which shows at the next tick of the
/// clock, milliseconds later; and the writer wakes from every sync. Those who serve have the slices that the kernel's own threads
/// have: with shorter ones they would keep the disk waiting.
#[cfg(target_os = "linux")]
#[allow(unsafe_code, reason = "neither std nor rustix has sched_setattr")]
fn set_slices(length: Duration) {
    let Ok(niceness) = rustix::process::getpriority_process(None) else { return };
    // SAFETY: a plain struct of integers, for which zeroes are valid.
    let mut attributes: libc::sched_attr = unsafe { std::mem::zeroed() };
    attributes.size = size_of::<libc::sched_attr>() as u32;
    attributes.sched_policy = libc::SCHED_OTHER as u32;
    attributes.sched_nice = niceness;
    attributes.sched_runtime = length.as_nanos() as u64;
    // SAFETY: the kernel reads as many bytes as `size` says from a struct that lives until the call is over. If it refuses, the
    // thread runs as it did.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
fn set_slices(_length: Duration) {}
