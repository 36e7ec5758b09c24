//! Wakes an event loop at a given moment, to the microsecond: a poll counts in milliseconds only.

use std::{
    os::fd::{AsRawFd as _, OwnedFd},
    time::Duration,
};

use anyhow::Context;
use mio::{Interest, Registry, Token, unix::SourceFd};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

use super::Moment;

#[derive(Debug)]
pub(super) struct Alarm {
    timer: OwnedFd,
    set_for: Option<Moment>,
}

impl Alarm {
    pub(super) fn new(registry: &Registry, token: Token) -> anyhow::Result<Self> {
        let flags = TimerfdFlags::NONBLOCK | TimerfdFlags::CLOEXEC;
        let timer = timerfd_create(TimerfdClockId::Monotonic, flags).context("cannot create a timer")?;
        registry.register(&mut SourceFd(&timer.as_raw_fd()), token, Interest::READABLE)?;
        Ok(Self { timer, set_for: None })
    }

    pub(super) fn set(&mut self, at: Moment, now: Moment) -> anyhow::Result<()> {
        if self.set_for == Some(at) {
            return Ok(());
        }
        // Zero would switch the timer off.
        let left = at.since(now).max(Duration::from_nanos(1));
        let left = Timespec::try_from(left).context("an alarm too far away")?;
        let once = Itimerspec { it_interval: Timespec::default(), it_value: left };
        timerfd_settime(&self.timer, TimerfdTimerFlags::empty(), &once).context("cannot set a timer")?;
        self.set_for = Some(at);
        Ok(())
    }

    /// Clears the alarm after it has rung.
    pub(super) fn rang(&mut self) {
        self.set_for = None;
    }
}
