//! The side of the lane that writes: its own answers, and hyper's. It counts what the client does not read.

use std::{
    cell::Cell,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use hyper::rt::Write;
use tokio::io::AsyncWrite as _;

use super::{Lane, Mode, PIECE_BYTES, SCRATCH_BYTES};
use crate::transport::limits::MAX_HYPER_BYTES;

/// What hyper keeps for a client that does not read, apart from bodies, which are counted separately. Its
/// buffers begin with 8 KiB each, and the one it reads into grows with the request.
const LEAST_HYPER_BYTES: usize = 16 * 1024;
/// The most that it keeps if the client may send ahead: the heads of many answers. One piece has at most 26
/// of the shortest requests, whose answers have a kilobyte of head each.
const READ_AHEAD_BYTES: usize = 72 * 1024;
const SHORTEST_REQUEST: &[u8] = b"HEAD / HTTP/1.1\r\n\r\n";
const _: () = assert!(PIECE_BYTES / SHORTEST_REQUEST.len() * 1024 + MAX_HYPER_BYTES <= READ_AHEAD_BYTES);

thread_local! {
    /// Answers are written into it, and most leave at once, so that an idle connection holds no buffer for
    /// them.
    static SPARE: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

impl Lane {
    /// Takes a buffer for answers, if there is none.
    pub(super) fn make_room(&mut self) {
        if self.answers.capacity() == 0 {
            self.answers = SPARE.take();
        }
    }

    /// Gives the buffer back: all answers are written.
    fn give_room_back(&mut self) {
        self.answers.clear();
        if self.answers.capacity() > 0 {
            let mut room = std::mem::take(&mut self.answers);
            room.shrink_to(SCRATCH_BYTES);
            SPARE.set(room);
        }
    }

    /// The client does not read what we write. The waiting bytes are counted, and a client that reads nothing
    /// for too long is cut.
    fn stall(&mut self) {
        if !self.is_stalled {
            self.is_stalled = true;
            self.has_taken = true;
            self.answers.shrink_to_fit();
        }
        let hyper = match self.mode {
            Mode::HandedOver => READ_AHEAD_BYTES,
            // A buffer may have doubled just before the end of the request.
            _ => (2 * self.passed_bytes + LEAST_HYPER_BYTES).min(MAX_HYPER_BYTES),
        };
        let bytes = self.answers.capacity() + self.pending.capacity() + self.pulse.body_bytes() + hyper;
        self.connections.stalled(&self.pulse, bytes, std::mem::take(&mut self.has_taken));
    }

    /// The client has read everything.
    fn flow(&mut self) {
        if self.is_stalled {
            self.is_stalled = false;
            self.connections.taken(&self.pulse);
        }
    }

    pub(super) fn poll_write_answers(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut written = 0;
        while written < self.answers.len() {
            match Pin::new(&mut self.stream).poll_write(context, &self.answers[written..]) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(count)) => written += count,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    self.has_taken |= written > 0;
                    self.answers.drain(..written);
                    self.stall();
                    return Poll::Pending;
                }
            }
        }
        self.give_room_back();
        if written > 0 {
            self.flow();
        }
        Poll::Ready(Ok(()))
    }

    /// Notes the result of a write by hyper.
    fn wrote(&mut self, polled: &Poll<io::Result<usize>>) {
        match polled {
            Poll::Ready(_) => self.has_taken = true,
            Poll::Pending => self.stall(),
        }
    }
}

impl Write for Lane {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let lane = self.get_mut();
        ready!(lane.poll_write_answers(context))?;
        let polled = Pin::new(&mut lane.stream).poll_write(context, bytes);
        lane.wrote(&polled);
        polled
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let lane = self.get_mut();
        ready!(lane.poll_write_answers(context))?;
        let polled = Pin::new(&mut lane.stream).poll_write_vectored(context, slices);
        lane.wrote(&polled);
        polled
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// Hyper flushes when it has nothing left to write. If it then owes no answer, the next request is the
    /// lane's.
    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let lane = self.get_mut();
        ready!(Pin::new(&mut lane.stream).poll_flush(context))?;
        // Hyper does not know about the lane's own answers.
        if lane.is_stalled && lane.answers.is_empty() {
            lane.flow();
            if lane.mode == Mode::HandedOver {
                // Hyper was not given the bytes that came meanwhile.
                context.waker().wake_by_ref();
            }
        }
        lane.flushed = lane.pulse.answered();
        if lane.mode == Mode::Answering && lane.pulse.has_answered() {
            lane.mode = Mode::Open;
            lane.pulse.do_without_hyper(true);
        }
        if lane.has_to_look_again() {
            context.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let lane = self.get_mut();
        ready!(lane.poll_write_answers(context))?;
        Pin::new(&mut lane.stream).poll_shutdown(context)
    }
}
