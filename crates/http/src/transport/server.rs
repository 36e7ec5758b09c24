//! The server: one thread per core, each with its own runtime and its own listener on the same port, so that
//! only batches to the ledger cross cores.

use std::{
    fmt, io,
    net::SocketAddr,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use futures_util::FutureExt as _;
use penstock_ledger::{Ledger, Precedence, take_precedence};
use penstock_records::{Records, RecordsError};
use penstock_shop::{
    Shop, housekeeping, identity::InvalidJwtKey, ports::Neighbours, storefront::Storefront,
    tally::ConnectionEnd,
};
use socket2::{Domain, Protocol, Socket, Type};
use tokio::{
    net::{TcpListener, TcpStream},
    runtime,
    sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch},
    task::JoinHandle,
    time::{MissedTickBehavior, interval, sleep, timeout},
};

use super::{
    answers::PreparedRefusals,
    connection::serve,
    connections::{Connections, Listed, Patience},
    entry::Entry,
    peer::Remote,
    per_address::{AddressPlace, PerAddress},
    pulse::ConnectionCommand,
};
use crate::{
    api::{Api, buyer::tickets::TicketStreams, routes},
    options::ServerOptions,
    pages,
};

const BACKLOG: i32 = 4096;
/// How long a worker waits when it can't accept, for example because it has run out of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a newcomer waits for one connection to leave before a second one is displaced.
const DISPLACE_PAUSE: Duration = Duration::from_millis(50);
/// Bytes per connection that the system buffers before it sends them. Otherwise a client that does not read
/// would make it keep megabytes.
#[cfg(any(target_os = "linux", target_os = "android"))]
const MAX_UNSENT_BYTES: u32 = 128 << 10;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("can't listen on {address}: {error}")]
    Listen { address: SocketAddr, error: io::Error },
    #[error("can't start a worker: {0}")]
    Worker(io::Error),
    #[error(transparent)]
    JwtKey(InvalidJwtKey),
    #[error(transparent)]
    Records(#[from] RecordsError),
}

/// A running server. Dropping it stops it without waiting.
pub struct Server {
    address: SocketAddr,
    stopping: watch::Sender<bool>,
    workers: Vec<oneshot::Receiver<()>>,
    housekeeping: JoinHandle<()>,
    neighbours: Arc<dyn Neighbours>,
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    /// Loads what it needs from the records and starts to serve. `storefront` has to be the ledger's
    /// listener. Requests are answered at once; those that need the ledger wait until it has recovered.
    pub async fn start(
        options: ServerOptions,
        storefront: Arc<Storefront>,
        ledger: Ledger,
        records: Records,
    ) -> Result<Self, StartError> {
        let workers = match options.workers {
            0 => thread::available_parallelism().map_or(1, usize::from),
            workers => workers,
        };
        let (stopping, stop) = watch::channel(false);
        let shop = Shop::new(options.shop.clone(), workers, storefront, ledger, records);
        let shop = Arc::new(shop.map_err(StartError::JwtKey)?);
        shop.passwords.start().map_err(StartError::Worker)?;
        let begun = housekeeping::load(&shop).await?;
        let (address, listeners) = listen(&options, workers)
            .map_err(|error| StartError::Listen { address: options.listen, error })?;
        let api = Api::new(Arc::clone(&shop), Arc::new(options), stop.clone());
        let options = &api.options;
        let router = routes::router(api.clone()).merge(pages::router(Arc::clone(&shop), options.pages));
        let refusals = Arc::new(PreparedRefusals::new(&options.problem_type_base));
        let per_address = PerAddress::new(options.max_connections_per_address);
        let places = (options.max_connections / workers).max(1);
        let mut finished = Vec::new();
        for (number, listener) in listeners.into_iter().enumerate() {
            let worker = Worker {
                api: api.clone(),
                router: router.clone(),
                refusals: Arc::clone(&refusals),
                number,
                connections: Connections::new(&shop.tallies, number, options.max_unread_bytes),
                per_address: Arc::clone(&per_address),
                permits: Arc::new(Semaphore::new(places)),
                ticket_streams: TicketStreams::beside(places),
                newcomer: None,
                stop: stop.clone(),
            };
            finished.push(worker.start(listener).map_err(StartError::Worker)?);
        }
        let neighbours = Arc::clone(&shop.options.neighbours);
        let housekeeping = tokio::spawn(housekeeping::run(shop, Arc::clone(&api.live), begun, stop));
        Ok(Self { address, stopping, workers: finished, housekeeping, neighbours })
    }

    pub fn addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts nothing new, answers the requests under way, and returns when all connections are closed. Stop
    /// the ledger afterwards, not before.
    pub async fn stop(self) {
        self.stopping.send_replace(true);
        for worker in self.workers {
            // An error means that the worker is gone, which is what we wait for.
            let _ = worker.await;
        }
        let _ = self.housekeeping.await;
        self.neighbours.all_told().await;
    }
}

fn listen(options: &ServerOptions, listeners: usize) -> io::Result<(SocketAddr, Vec<std::net::TcpListener>)> {
    // Sharing a port would even allow another Penstock process on it. A socket that does not share detects
    // that.
    let probe = socket(options.listen, false)?;
    let address = probe.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    drop(probe);
    let open = |_| {
        let socket = socket(address, true)?;
        // Accepted connections inherit these options. The first makes the system drop a client that has
        // vanished or never reads the buffered data. A stream of small events would not notice for hours.
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(options.idle_timeout))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_notsent_lowat(MAX_UNSENT_BYTES)?;
        socket.listen(BACKLOG)?;
        Ok(socket.into())
    };
    Ok((address, (0..listeners).map(open).collect::<io::Result<_>>()?))
}

fn socket(address: SocketAddr, shared: bool) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// A connection that is not served yet.
struct Newcomer {
    stream: TcpStream,
    remote: Remote,
    place: AddressPlace,
}

struct Worker {
    api: Api,
    router: axum::Router,
    refusals: Arc<PreparedRefusals>,
    number: usize,
    connections: Arc<Connections>,
    per_address: Arc<PerAddress>,
    permits: Arc<Semaphore>,
    ticket_streams: TicketStreams,
    /// An accepted connection that waits for a place.
    newcomer: Option<Newcomer>,
    stop: watch::Receiver<bool>,
}

impl Worker {
    fn start(self, listener: std::net::TcpListener) -> io::Result<oneshot::Receiver<()>> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (finished, is_finished) = oneshot::channel();
        thread::Builder::new().name(format!("http-{}", self.number)).spawn(move || {
            take_precedence(Precedence::Serving);
            let served = runtime.block_on(self.run(listener));
            if let Err(error) = served {
                tracing::error!(%error, "a worker could not serve");
            }
            // Nobody may be waiting for this.
            let _ = finished.send(());
        })?;
        Ok(is_finished)
    }

    async fn run(mut self, listener: std::net::TcpListener) -> io::Result<()> {
        let listener = TcpListener::from_std(listener)?;
        let options = &self.api.options;
        let patience = Patience { request: options.request_timeout, idle: options.idle_timeout };
        let sweeping = tokio::spawn(sweep(Arc::clone(&self.connections), patience));
        let mut connection_number = 0;
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                // An error means that the server was dropped.
                _ = stop.wait_for(|stop| *stop) => break,
                () = self.accept(&listener, &mut connection_number) => {}
            }
        }
        // Connections that were already established are still served.
        while self.permits.available_permits() > 0
            && self.accept(&listener, &mut connection_number).now_or_never().is_some()
        {}
        drop(listener);
        self.drain().await;
        sweeping.abort();
        Ok(())
    }

    async fn accept(&mut self, listener: &TcpListener, connection_number: &mut u64) {
        if self.newcomer.is_none() {
            match listener.accept().await {
                Ok((stream, peer)) => self.newcomer = self.admit(stream, peer, connection_number),
                Err(error) => {
                    tracing::warn!(%error, "a connection could not be accepted");
                    return sleep(ACCEPT_PAUSE).await;
                }
            }
        }
        if self.newcomer.is_none() {
            return;
        }
        let permit = self.permit().await;
        let Some(Newcomer { stream, remote, place }) = self.newcomer.take() else { return };
        let listed = self.list(connection_number);
        let entry = Entry {
            api: self.api.clone(),
            router: self.router.clone(),
            refusals: Arc::clone(&self.refusals),
            tally: Arc::clone(&self.api.shop.tallies[self.number]),
            remote,
            pulse: Arc::clone(&listed.pulse),
            connections: Arc::clone(&self.connections),
            ticket_streams: self.ticket_streams.clone(),
        };
        tokio::spawn(async move {
            serve(stream, entry, listed).await;
            drop((place, permit));
        });
    }

    fn list(&self, connection_number: &mut u64) -> Listed {
        *connection_number += 1;
        self.connections.add(*connection_number, Instant::now())
    }

    /// None if its address has too many. A refused connection displaces nobody.
    fn admit(&self, stream: TcpStream, peer: SocketAddr, connection_number: &mut u64) -> Option<Newcomer> {
        let remote = Remote::new(peer.ip(), &self.api.options.trusted_proxies);
        let Some(place) = self.per_address.enter(remote.address_key()) else {
            self.list(connection_number).pulse.end_because(ConnectionEnd::Refused);
            // A reset leaves nothing behind, not even a closing connection. If it fails, an ordinary close
            // will do.
            let _ = stream.set_zero_linger();
            return None;
        };
        // Otherwise an answer might wait for the client's acknowledgement of the previous one.
        if stream.set_nodelay(true).is_err() {
            drop(self.list(connection_number));
            return None;
        }
        Some(Newcomer { stream, remote, place })
    }

    /// A place among the connections that may be open. If there is none, the one that has been idle longest
    /// has to leave.
    async fn permit(&self) -> OwnedSemaphorePermit {
        loop {
            let permits = &self.permits;
            if let Ok(permit) = Arc::clone(permits).try_acquire_owned() {
                return permit;
            }
            self.connections.displace(Instant::now());
            if let Ok(Ok(permit)) = timeout(DISPLACE_PAUSE, Arc::clone(permits).acquire_owned()).await {
                return permit;
            }
        }
    }

    async fn drain(&self) {
        let began = Instant::now();
        self.connections.tell_all(ConnectionCommand::Finish);
        if timeout(self.api.options.drain_timeout, self.connections.all_closed()).await.is_err() {
            let waited_seconds = began.elapsed().as_secs();
            tracing::warn!(waited_seconds, "connections that did not finish in time are cut");
            self.connections.tell_all(ConnectionCommand::Cut);
            self.connections.all_closed().await;
        }
    }
}

async fn sweep(connections: Arc<Connections>, patience: Patience) {
    let mut ticks = interval(patience.sweep_interval());
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        connections.sweep(patience, Instant::now());
    }
}
