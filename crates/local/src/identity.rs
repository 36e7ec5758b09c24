//! Identifies a process by its number and its start: the kernel gives the number alone to another process
//! some time after the first has ended.

use std::{fs, io, path::PathBuf};

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// A process of this machine since its last boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ProcessIdentity {
    pub(crate) id: u32,
    /// In the kernel's ticks since boot.
    pub(crate) started: u64,
}

impl ProcessIdentity {
    /// The process that has this number now. One that has ended and was not waited for does not count.
    pub(crate) fn of(id: u32) -> Option<Self> {
        let stat = fs::read_to_string(PathBuf::from("/proc").join(id.to_string()).join("stat")).ok()?;
        // The second field is a name in parentheses, which may itself contain some.
        let mut fields = stat.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?;
        let started = fields.nth(18)?.parse().ok()?;
        (!matches!(state, "Z" | "X")).then_some(Self { id, started })
    }

    pub(crate) fn lives(self) -> bool {
        Self::of(self.id) == Some(self)
    }

    /// Sends SIGKILL to this process and to no other, even if it ends at this moment and its number is
    /// reused.
    pub(crate) fn kill(self) -> io::Result<()> {
        let Some(number) = i32::try_from(self.id).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let Ok(handle) = pidfd_open(number, PidfdFlags::empty()) else { return Ok(()) };
        // The handle stays with the process for which it was opened. If that is still the one meant, the
        // signal reaches it.
        if !self.lives() {
            return Ok(());
        }
        match pidfd_send_signal(&handle, Signal::KILL) {
            Err(error) if error != rustix::io::Errno::SRCH => Err(error.into()),
            _ => Ok(()),
        }
    }
}

/// The children of `process` that have not ended.
pub(crate) fn children(process: u32) -> io::Result<Vec<u32>> {
    let children = fs::read_to_string(format!("/proc/{process}/task/{process}/children"))?;
    Ok(children.split_whitespace().filter_map(|child| child.parse().ok()).collect())
}

/// A name for the time since this machine was booted. ChildProcess numbers and ticks start over at the next boot.
pub(crate) fn boot() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn only_the_process_that_is_meant_is_killed() {
        let mut child = Command::new("sleep").arg("60").spawn().unwrap();
        let identity = ProcessIdentity::of(child.id()).unwrap();
        let another = ProcessIdentity { started: identity.started + 1, ..identity };
        assert!(identity.lives() && !another.lives());
        another.kill().unwrap();
        assert!(identity.lives(), "a process was killed that only has the same number");
        identity.kill().unwrap();
        child.wait().unwrap();
        assert!(!identity.lives());
        identity.kill().unwrap();
    }
}
