//! A request body that is arriving. It tells the connection when it is complete, and fails when it has taken
//! too long. It does not know what the body is for.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body, Frame, Incoming, SizeHint};
use penstock_shop::tally::ConnectionEnd;

use super::pulse::Pulse;
use crate::contract::json::ArrivalError;

#[derive(Debug)]
pub(crate) struct Arriving {
    body: Incoming,
    pulse: Arc<Pulse>,
    /// How many bytes were read so far.
    read_bytes: usize,
    /// How many of them count as memory.
    kept_bytes: usize,
    /// The most that the handler keeps. The bytes of a longer body are read and thrown away.
    max_kept_bytes: usize,
}

impl Arriving {
    pub(crate) fn new(body: Incoming, pulse: &Arc<Pulse>, max_kept_bytes: usize) -> Self {
        if body.is_end_stream() {
            pulse.arrived();
        } else {
            // The lane has not seen it begin if hyper read its head together with the previous request.
            pulse.arriving();
        }
        Self { body, pulse: Arc::clone(pulse), read_bytes: 0, kept_bytes: 0, max_kept_bytes }
    }
}

impl Body for Arriving {
    type Data = Bytes;
    type Error = ArrivalError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, ArrivalError>>> {
        let this = self.get_mut();
        let polled = Pin::new(&mut this.body).poll_frame(context);
        if polled.is_pending() && this.pulse.is_late() {
            this.pulse.end_because(ConnectionEnd::Slow);
            return Poll::Ready(Some(Err(ArrivalError::Late)));
        }
        if let Poll::Ready(Some(Ok(frame))) = &polled {
            this.read_bytes += frame.data_ref().map_or(0, Bytes::len);
            let kept_bytes = if this.read_bytes > this.max_kept_bytes { 0 } else { this.read_bytes };
            this.pulse.hold_arrived(kept_bytes);
            this.pulse.let_arrived_go(std::mem::replace(&mut this.kept_bytes, kept_bytes));
        }
        if matches!(polled, Poll::Ready(None)) || this.body.is_end_stream() {
            this.pulse.arrived();
        }
        polled.map_err(ArrivalError::Broken)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A handler that drops a body does not wait for the rest of it.
impl Drop for Arriving {
    fn drop(&mut self) {
        self.pulse.arrived();
        self.pulse.let_arrived_go(self.kept_bytes);
    }
}
