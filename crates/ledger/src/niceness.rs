//! Which of our threads goes first when they share a core. It does not know what the threads do.

use std::time::Duration;

/// What a thread works for, the most urgent first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Precedence {
    /// Everybody waits for the ledger's writer.
    Writing,
    /// Somebody waits for an answer.
    Serving,
    /// Nobody waits, but it must not fall behind forever.
    Settling,
    /// Somebody waits, but the work is long and others must hardly notice it.
    Hashing,
    /// It runs when the others leave time.
    Spare,
}

const WRITING: i32 = -10;
const SERVING: i32 = 0;
const SETTLING: i32 = 5;
const HASHING: i32 = 10;
const SPARE: i32 = 15;
/// A slice length that leaves the choice to the kernel.
const KERNEL_CHOOSES: Duration = Duration::ZERO;

/// Gives the calling thread, and the threads that it starts from then on, their place in the line.
///
/// Only a privileged process may put its writer ahead of everything else on the machine. In other processes
/// the writer stays where it is, and the serving threads step back: refusing a flood must not delay requests
/// that were let in.
pub fn take_precedence(precedence: Precedence) {
    let niceness = match precedence {
        Precedence::Writing => WRITING,
        // Trying is the only way to know.
        Precedence::Serving if set(WRITING) => SERVING,
        Precedence::Serving | Precedence::Settling => SETTLING,
        Precedence::Hashing => HASHING,
        Precedence::Spare => SPARE,
    };
    set(niceness);
    set_slices(match precedence {
        Precedence::Writing => Duration::from_micros(100),
        Precedence::Serving => KERNEL_CHOOSES,
        Precedence::Settling | Precedence::Hashing | Precedence::Spare => Duration::from_millis(100),
    });
}

/// False if it can't be set; the thread then runs as before.
fn set(niceness: i32) -> bool {
    // On other systems it would be the priority of the whole process.
    #[cfg(target_os = "linux")]
    return rustix::process::setpriority_process(None, niceness).is_ok();
    #[cfg(not(target_os = "linux"))]
    return niceness == SERVING;
}

/// Asks Linux for slices of this length (6.12 and later; earlier versions ignore it). A thread that wakes
/// takes the core at once from one with longer slices. Otherwise it waits until the other's slice is over,
/// which the kernel notices only at the next clock tick, milliseconds later. The writer wakes after every
/// sync. Serving threads keep the slices of the kernel's own threads: with shorter ones they would keep the
/// disk waiting.
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
    // SAFETY: the kernel reads `size` bytes from a struct that lives until the call is over. If it refuses,
    // the thread runs as before.
    unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) };
}

#[cfg(not(target_os = "linux"))]
fn set_slices(_length: Duration) {}
