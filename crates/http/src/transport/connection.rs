//! One connection, served until the client or the server ends it. It does not know what is requested on it.

use std::{
    future::{Future as _, poll_fn},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use hyper::{rt::Write as _, server::conn::http1};
use penstock_shop::{
    Code,
    tally::{ConnectionEnd, Outcome},
};
use tokio::net::TcpStream;

use super::{
    connections::Listed,
    entry::Entry,
    lane::Lane,
    limits::{MAX_BUFFER_BYTES, MAX_HEAD_BYTES, MAX_HEADERS},
    pulse::{ConnectionCommand, Pulse},
};

fn http1() -> http1::Builder {
    let mut builder = http1::Builder::new();
    builder
        .keep_alive(true)
        // Hyper asks whether the client is still there while it answers. The lane says no only where nobody
        // can want the rest.
        .half_close(false)
        .max_buf_size(MAX_BUFFER_BYTES)
        .max_headers(MAX_HEADERS)
        .max_header_size(MAX_HEAD_BYTES);
    builder
}

/// How serving a connection ended.
enum Served {
    /// Nothing is left to do.
    Done(hyper::Result<()>),
    /// The request did not arrive in time, and nobody has begun to answer it.
    Late,
    Cut,
}

/// How far hyper has got.
enum WithHyper {
    Served(Served),
    /// It has answered everything it was given, and the lane can go on without it.
    IsDone,
}

/// What the lane has achieved without hyper.
enum Alone {
    Served(Served),
    /// A request has arrived that hyper has to answer.
    NeedsHyper,
}

/// What a connection does when it is told something.
enum Obey {
    GoOn,
    /// Answer the current request, then close.
    Finish,
    End(Served),
}

/// Serves a connection until the client or the server ends it.
///
/// Hyper is set up for a request that is not the lane's own, and dropped when that is answered. Most
/// connections never need it, and without it those that wait for a sale to open take a sixth of the memory.
/// Hyper would keep its buffers, grown to the largest request.
pub(crate) async fn serve(stream: TcpStream, mut entry: Entry, listed: Listed) {
    let pulse = Arc::clone(&listed.pulse);
    let tally = Arc::clone(&entry.tally);
    // The waker of a spawned task stays the same, so once is enough.
    poll_fn(|context| {
        pulse.register(context.waker());
        Poll::Ready(())
    })
    .await;
    let mut lane = Lane::new(stream, &entry);
    let mut is_finishing = false;
    let served = loop {
        match poll_fn(|context| poll_alone(&mut lane, &pulse, &mut is_finishing, context)).await {
            Alone::Served(served) => break served,
            Alone::NeedsHyper => {}
        }
        let mut connection = Box::new(http1().serve_connection(lane, entry));
        let so_far =
            poll_fn(|context| poll_with_hyper(&mut connection, &pulse, &mut is_finishing, context)).await;
        let parts = connection.into_parts();
        (lane, entry) = (parts.io, parts.service);
        if let WithHyper::Served(served) = so_far {
            break served;
        }
        assert!(parts.read_buf.is_empty(), "hyper was given more than its request");
    };
    match served {
        // Hyper itself refuses what it can't parse, so no handler has counted it. Any other error concerns
        // this connection only, and its client notices anyway.
        Served::Done(Err(error)) if error.is_parse() => {
            tally.count(Outcome::Refused(Code::BadRequest));
            pulse.end_because(ConnectionEnd::Malformed);
        }
        Served::Done(_) => {}
        Served::Late => {
            tally.count(Outcome::Refused(Code::RequestTimeout));
            lane.refuse_late();
        }
        Served::Cut => lane.abandon(),
    }
    drop(listed);
}

fn poll_alone(
    lane: &mut Lane,
    pulse: &Pulse,
    is_finishing: &mut bool,
    context: &mut Context<'_>,
) -> Poll<Alone> {
    if !*is_finishing {
        match lane.poll_alone(context) {
            Poll::Ready(Ok(true)) => return Poll::Ready(Alone::NeedsHyper),
            Poll::Ready(Ok(false)) => *is_finishing = true,
            Poll::Ready(Err(_)) => return Poll::Ready(Alone::Served(Served::Done(Ok(())))),
            Poll::Pending => {}
        }
    }
    match obey(pulse, is_finishing) {
        Obey::End(served) => return Poll::Ready(Alone::Served(served)),
        Obey::GoOn | Obey::Finish => {}
    }
    if *is_finishing {
        // Whether or not the client sees it, there is nothing more to say.
        return Pin::new(lane).poll_shutdown(context).map(|_| Alone::Served(Served::Done(Ok(()))));
    }
    Poll::Pending
}

fn poll_with_hyper(
    connection: &mut http1::Connection<Lane, Entry>,
    pulse: &Pulse,
    is_finishing: &mut bool,
    context: &mut Context<'_>,
) -> Poll<WithHyper> {
    loop {
        if let Poll::Ready(ended) = Pin::new(&mut *connection).poll(context) {
            return Poll::Ready(WithHyper::Served(Served::Done(ended)));
        }
        match obey(pulse, is_finishing) {
            // Once it is finishing, hyper closes the connection.
            Obey::GoOn if pulse.is_without_hyper() && !*is_finishing => {
                return Poll::Ready(WithHyper::IsDone);
            }
            Obey::GoOn => return Poll::Pending,
            Obey::Finish => Pin::new(&mut *connection).graceful_shutdown(),
            Obey::End(served) => return Poll::Ready(WithHyper::Served(served)),
        }
    }
}

/// Checks what the connection was told. Returns `Finish` only once.
fn obey(pulse: &Pulse, is_finishing: &mut bool) -> Obey {
    // If a handler waits for the rest, it has just been told that it is late, and answers itself.
    if pulse.is_late() && !pulse.is_handling() {
        pulse.end_because(ConnectionEnd::Slow);
        return Obey::End(Served::Late);
    }
    match pulse.command() {
        ConnectionCommand::Cut => {
            pulse.end_because(ConnectionEnd::Cut);
            Obey::End(Served::Cut)
        }
        ConnectionCommand::Unread => {
            pulse.end_because(ConnectionEnd::Unread);
            Obey::End(Served::Cut)
        }
        // Requests that came in since the sweep are still answered.
        ConnectionCommand::Idle if !pulse.is_working() => {
            pulse.end_because(ConnectionEnd::Idle);
            Obey::End(Served::Cut)
        }
        ConnectionCommand::Displaced if !pulse.is_busy() => {
            pulse.end_because(ConnectionEnd::Displaced);
            Obey::End(Served::Cut)
        }
        // Hyper would take a connection that waits for the lane's own claim for an idle one.
        command @ (ConnectionCommand::Idle | ConnectionCommand::Displaced | ConnectionCommand::Finish)
            if !*is_finishing && !pulse.is_deciding() =>
        {
            *is_finishing = true;
            pulse.end_because(match command {
                ConnectionCommand::Idle => ConnectionEnd::Idle,
                ConnectionCommand::Displaced => ConnectionEnd::Displaced,
                _ => ConnectionEnd::Drained,
            });
            Obey::Finish
        }
        _ => Obey::GoOn,
    }
}
