//! The side of the lane from which hyper reads: a request that is its own, and no more of what comes than it may have.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor};

use super::{Lane, Mode, PIECE_BYTES};

/// What a client can send while it reads a stream of events, before nobody looks any more whether it is still there.
const MAX_EARLY_BYTES: usize = 16 * 1024;

impl Lane {
    /// Gives hyper what it may have of `pending`.
    fn pass(&mut self, limit: usize, buffer: &mut ReadBufCursor<'_>) -> usize {
        let count = limit.min(self.pending.len()).min(buffer.remaining());
        buffer.put_slice(&self.pending[..count]);
        self.forget(count);
        count
    }

    /// Hyper looks for the next request although the answer to the last is not out yet. It gets nothing so far, and looks again when the
    /// answer is out.
    fn poll_early(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.pulse.has_answered() {
            return self.poll_gone(context);
        }
        if self.pending.is_empty() && !ready!(self.poll_fill(context))? {
            self.mode = Mode::HandedOver;
            return Poll::Ready(Ok(()));
        }
        self.looked_away = true;
        Poll::Pending
    }

    /// Looks whether the client of a stream of events has gone. Whoever waits for any other answer still wants it after shutting down their
    /// side, so nobody looks before that answer is out.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.pulse.is_streaming() && self.pending.len() < MAX_EARLY_BYTES {
            if !ready!(self.poll_fill(context))? {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        }
        self.looked_away = true;
        Poll::Pending
    }

    /// Whether hyper looked for more too early and can find it now.
    pub(super) fn has_to_look_again(&mut self) -> bool {
        let can_find = match self.pulse.is_streaming() {
            true => self.pending.len() < MAX_EARLY_BYTES,
            false => !self.pulse.is_handling(),
        };
        self.looked_away && can_find && std::mem::take(&mut self.looked_away)
    }

    /// Whether hyper looks for the end of the client, and not for more of a request.
    fn is_being_answered(&self) -> bool {
        self.pulse.is_handling() && self.pulse.arrival().is_none()
    }
}

impl Read for Lane {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let lane = self.get_mut();
        loop {
            match lane.mode {
                Mode::Open => {
                    let is_for_hyper = ready!(lane.poll_open(context))?;
                    lane.pulse.do_without_hyper(false);
                    if !is_for_hyper {
                        return Poll::Ready(Ok(()));
                    }
                }
                Mode::Answering => return lane.poll_early(context),
                // To hyper it is as if the client had ended.
                Mode::Ended => return Poll::Ready(Ok(())),
                // Hyper would go on to read requests and to collect their answers. When they are written it looks again.
                Mode::HandedOver if lane.is_stalled => return Poll::Pending,
                Mode::HandedOver if lane.is_being_answered() => return lane.poll_gone(context),
                Mode::Passing(_) | Mode::HandedOver if lane.pending.is_empty() => {
                    if !ready!(lane.poll_fill(context))? {
                        return Poll::Ready(Ok(()));
                    }
                }
                Mode::HandedOver => {
                    let count = lane.pass(PIECE_BYTES, &mut buffer);
                    if !lane.pulse.is_handling() {
                        lane.pulse.hold_head(count);
                    }
                    return Poll::Ready(Ok(()));
                }
                Mode::Passing(left) => {
                    let left = left - lane.pass(left, &mut buffer);
                    if left == 0 {
                        lane.pulse.arrived();
                        lane.mode = Mode::Answering;
                    } else {
                        lane.mode = Mode::Passing(left);
                    }
                    return Poll::Ready(Ok(()));
                }
            }
        }
    }
}
