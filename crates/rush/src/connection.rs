//! One keep-alive connection: it sends a request or collects the answer, never both at once.

mod answer;

use std::{
    io::{self, Read, Write},
    net::{IpAddr, SocketAddr},
    time::Duration,
};

use mio::{Interest, Registry, Token, net::TcpStream};
use rustix::io::Errno;
use socket2::{Domain, Protocol, Socket, Type};

use answer::{Parsed, parse};

pub use answer::HttpAnswer;

const CONNECT_LIMIT: Duration = Duration::from_secs(5);
/// The longest answer that the generator accepts.
const MAX_ANSWER_BYTES: usize = 1 << 20;

/// The error of a connection that is still being made.
const IN_PROGRESS: i32 = Errno::INPROGRESS.raw_os_error();

#[derive(Debug)]
pub struct Connection<U> {
    stream: TcpStream,
    /// The data of the request that waits for its answer.
    pub under_way: Option<U>,
    /// The beginning of an incomplete answer.
    partial: Vec<u8>,
}

/// Why a connection can no longer be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostConnection {
    /// The server closed it, perhaps after announcing it in its last answer.
    Closed,
    /// The server broke it off, so an answer may have been lost.
    Reset,
    /// The server did not send the expected HTTP, or did not take a whole request.
    OutOfStep,
}

impl<U: Copy> Connection<U> {
    pub fn open(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        let stream = std::net::TcpStream::connect_timeout(&address, CONNECT_LIMIT)?;
        stream.set_nodelay(true)?;
        stream.set_nonblocking(true)?;
        let mut stream = TcpStream::from_std(stream);
        registry.register(&mut stream, token, Interest::READABLE)?;
        Ok(Self { stream, under_way: None, partial: Vec::new() })
    }

    /// Begins to connect, from the given local address if there is one. `connected` tells when it is done.
    pub fn begin(
        address: SocketAddr,
        source: Option<IpAddr>,
        registry: &Registry,
        token: Token,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
        socket.set_tcp_nodelay(true)?;
        socket.set_nonblocking(true)?;
        if let Some(source) = source {
            socket.bind(&SocketAddr::new(source, 0).into())?;
        }
        match socket.connect(&address.into()) {
            Err(error) if error.raw_os_error() != Some(IN_PROGRESS) => return Err(error),
            _ => {}
        }
        let mut stream = TcpStream::from_std(socket.into());
        registry.register(&mut stream, token, Interest::READABLE | Interest::WRITABLE)?;
        Ok(Self { stream, under_way: None, partial: Vec::new() })
    }

    /// Whether a connection that was begun can be used now.
    pub fn connected(&self) -> io::Result<bool> {
        if let Some(error) = self.stream.take_error()? {
            return Err(error);
        }
        match self.stream.peer_addr() {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(false),
            Err(error) => Err(error),
        }
    }

    pub fn close(mut self, registry: &Registry) {
        // Dropping the socket removes it from the poll too, so a failure here changes nothing.
        let _ = registry.deregister(&mut self.stream);
    }

    pub fn send(&mut self, under_way: U, request: &[u8]) -> Result<(), LostConnection> {
        self.under_way = Some(under_way);
        // The socket is idle, so its buffer takes a whole request. If it does not, the connection is lost.
        match self.stream.write(request) {
            Ok(written) if written == request.len() => Ok(()),
            Ok(_) => Err(LostConnection::OutOfStep),
            Err(error) => Err(broken(&error)),
        }
    }

    /// Reads the bytes that have come. `whole` is called once, when the answer to the request under way is
    /// complete.
    pub fn receive<R>(
        &mut self,
        scratch: &mut [u8],
        whole: impl FnOnce(U, &HttpAnswer<'_>) -> R,
    ) -> Result<Option<R>, LostConnection> {
        loop {
            let count = match self.stream.read(scratch) {
                Ok(0) => return Err(LostConnection::Closed),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(broken(&error)),
            };
            // Unexpected bytes: the server is out of step.
            let Some(under_way) = self.under_way else { return Err(LostConnection::OutOfStep) };
            let fresh = scratch.get(..count).unwrap_or_default();
            let joined = !self.partial.is_empty();
            if joined {
                self.partial.extend_from_slice(fresh);
            }
            let bytes = if joined { self.partial.as_slice() } else { fresh };
            match parse(bytes) {
                Parsed::Whole(answer) if answer.total_bytes == bytes.len() => {
                    self.under_way = None;
                    let result = whole(under_way, &answer);
                    let closes = answer.closes;
                    self.partial.clear();
                    return if closes { Err(LostConnection::Closed) } else { Ok(Some(result)) };
                }
                Parsed::Partial if bytes.len() < MAX_ANSWER_BYTES => {
                    if !joined {
                        self.partial.extend_from_slice(fresh);
                    }
                    // The socket may hold more, and an edge-triggered poll won't report it again.
                }
                _ => return Err(LostConnection::OutOfStep),
            }
        }
    }
}

fn broken(error: &io::Error) -> LostConnection {
    match error.kind() {
        io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionAborted => {
            LostConnection::Reset
        }
        _ => LostConnection::OutOfStep,
    }
}
