//! The side of the lane from which hyper reads: requests that are hyper's to answer, and not a byte more.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::{Read, ReadBufCursor};

use super::{Lane, Mode, PIECE_BYTES};
use crate::transport::limits::MAX_HYPER_BYTES;

/// The most that a client can send while it reads a stream of events, before we stop checking whether it is
/// still there.
const MAX_EARLY_BYTES: usize = 16 * 1024;

impl Lane {
    /// Gives hyper up to `limit` bytes of `pending`.
    fn pass(&mut self, limit: usize, buffer: &mut ReadBufCursor<'_>) -> usize {
        let count = limit.min(self.pending.len()).min(buffer.remaining());
        buffer.put_slice(&self.pending[..count]);
        self.forget(count);
        count
    }

    /// Hyper looks for the next request although the last answer is not out yet. It gets nothing for now, and
    /// looks again when the answer is out.
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

    /// Checks whether the client of a stream of events has gone. A client that waits for any other answer
    /// still wants it after shutting down its side, so we don't check before that answer is out.
    fn poll_gone(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.pulse.is_streaming() && self.pending.len() < MAX_EARLY_BYTES {
            if !ready!(self.poll_fill(context))? {
                return Poll::Ready(Err(io::ErrorKind::ConnectionAborted.into()));
            }
        }
        self.looked_away = true;
        Poll::Pending
    }

    /// Whether hyper looked too early and would find something now.
    pub(super) fn has_to_look_again(&mut self) -> bool {
        let can_find = match self.pulse.is_streaming() {
            true => self.pending.len() < MAX_EARLY_BYTES,
            false => !self.pulse.is_handling(),
        };
        self.looked_away && can_find && std::mem::take(&mut self.looked_away)
    }

    /// Whether hyper watches for the client's end, and does not expect more of a request.
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
                // To hyper it looks as if the client had ended.
                Mode::Ended => return Poll::Ready(Ok(())),
                // Hyper would go on reading requests and collecting their answers. When those are written it
                // looks again.
                Mode::HandedOver if lane.is_stalled => return Poll::Pending,
                Mode::HandedOver if lane.is_being_answered() => return lane.poll_gone(context),
                Mode::Passing(_) | Mode::HandedOver if lane.pending.is_empty() => {
                    if lane.mode == Mode::HandedOver && !lane.pulse.is_handling() {
                        lane.pulse.keep_in_hyper(MAX_HYPER_BYTES);
                    }
                    if !ready!(lane.poll_fill(context))? {
                        return Poll::Ready(Ok(()));
                    }
                }
                Mode::HandedOver => {
                    lane.pass(PIECE_BYTES, &mut buffer);
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
