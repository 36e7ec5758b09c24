//! A proxy to a server that can be cut, mended and slowed down: what a network does, without a network.

use std::{
    io,
    net::SocketAddr,
    sync::mpsc::{SyncSender, sync_channel},
    thread::{self, JoinHandle},
    time::Duration,
};

use anyhow::Context;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::{mpsc, watch},
    task::JoinSet,
    time::Instant,
};

use crate::ports::free_address;

/// The most pieces under way in one direction of a connection.
const PIECES: usize = 64;
const PIECE_BYTES: usize = 16 * 1024;
const ORDERS: usize = 16;
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// How a connection is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    /// Connections are reset and new ones are refused, as when a server has died.
    Reset,
    /// Connections stay open and new ones are accepted, but nothing comes through, as in a partitioned
    /// network. What was sent meanwhile arrives after `mend`.
    Silence,
}

#[derive(Clone, Copy, Debug, Default)]
struct State {
    cut: Option<Cut>,
    delay: Duration,
}

struct Order {
    state: State,
    done: SyncSender<io::Result<()>>,
}

/// Passes everything that arrives at its address on to the target, until it is cut.
#[derive(Debug)]
pub struct CutProxy {
    address: SocketAddr,
    state: State,
    /// Dropping it ends the thread.
    orders: Option<mpsc::Sender<Order>>,
    thread: Option<JoinHandle<()>>,
}

impl CutProxy {
    pub fn start(target: SocketAddr) -> anyhow::Result<Self> {
        let address = free_address()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = runtime.block_on(TcpListener::bind(address)).context("cannot start a proxy")?;
        let (orders, receiver) = mpsc::channel(ORDERS);
        let proxy = Proxy { address, target, listener: Some(listener), state: watch::Sender::default() };
        let thread = thread::Builder::new()
            .name("cut-proxy".to_owned())
            .spawn(move || runtime.block_on(proxy.run(receiver)))?;
        Ok(Self { address, state: State::default(), orders: Some(orders), thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Nothing comes through after it returns.
    pub fn cut(&mut self, cut: Cut) -> anyhow::Result<()> {
        self.order(State { cut: Some(cut), ..self.state })
    }

    /// New connections are accepted again after it returns.
    pub fn mend(&mut self) -> anyhow::Result<()> {
        self.order(State { cut: None, ..self.state })
    }

    /// Delays everything from now on by this much, in each direction.
    pub fn delay(&mut self, milliseconds: u64) -> anyhow::Result<()> {
        self.order(State { delay: Duration::from_millis(milliseconds), ..self.state })
    }

    fn order(&mut self, state: State) -> anyhow::Result<()> {
        let (done, answer) = sync_channel(1);
        let orders = self.orders.as_ref().context("the proxy has ended")?;
        orders.try_send(Order { state, done }).ok().context("the proxy has ended")?;
        answer.recv().context("the proxy has ended")?.context("the proxy cannot listen again")?;
        self.state = state;
        Ok(())
    }
}

impl Drop for CutProxy {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            // The thread has already printed its panic, and nobody else needs to know.
            let _ = thread.join();
        }
    }
}

struct Proxy {
    address: SocketAddr,
    target: SocketAddr,
    listener: Option<TcpListener>,
    state: watch::Sender<State>,
}

impl Proxy {
    async fn run(mut self, mut orders: mpsc::Receiver<Order>) {
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                order = orders.recv() => {
                    let Some(order) = order else { return };
                    let result = self.apply(order.state, &mut connections).await;
                    let _ = order.done.send(result);
                }
                client = accept(self.listener.as_ref()) => {
                    connections.spawn(connect(client, self.target, self.state.subscribe()));
                }
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn apply(&mut self, state: State, connections: &mut JoinSet<()>) -> io::Result<()> {
        self.state.send_replace(state);
        if state.cut == Some(Cut::Reset) {
            self.listener = None;
            // They see the new state and end.
            while connections.join_next().await.is_some() {}
        } else if self.listener.is_none() {
            self.listener = Some(TcpListener::bind(self.address).await?);
        }
        Ok(())
    }
}

/// The next client. Never returns while the proxy does not listen.
async fn accept(listener: Option<&TcpListener>) -> TcpStream {
    let Some(listener) = listener else { return std::future::pending().await };
    loop {
        match listener.accept().await {
            Ok((client, _)) => return client,
            // An error such as too many open files, which may be gone in a moment.
            Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
        }
    }
}

/// Serves one client until it leaves or is cut off.
async fn connect(mut client: TcpStream, target: SocketAddr, mut state: watch::Receiver<State>) {
    let reset = tokio::select! {
        ended = hand_on(&mut client, target, state.clone()) => ended.is_err(),
        _ = state.wait_for(|state| state.cut == Some(Cut::Reset)) => true,
    };
    if reset {
        // Without it the client would see a normal end.
        let _ = client.set_zero_linger();
    }
}

async fn hand_on(
    client: &mut TcpStream,
    target: SocketAddr,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    uncut(&mut state).await?;
    let mut server = TcpStream::connect(target).await?;
    client.set_nodelay(true)?;
    server.set_nodelay(true)?;
    let (from_client, to_client) = client.split();
    let (from_server, to_server) = server.split();
    let there = carry(from_client, to_server, state.clone());
    let back = carry(from_server, to_client, state);
    tokio::try_join!(there, back)?;
    Ok(())
}

/// Carries one direction: each piece waits out the delay and any cut, in the order of arrival.
async fn carry(
    mut from: ReadHalf<'_>,
    mut to: WriteHalf<'_>,
    mut state: watch::Receiver<State>,
) -> io::Result<()> {
    let (sender, mut receiver) = mpsc::channel::<(Instant, Vec<u8>)>(PIECES);
    let now_and_later = state.clone();
    let read = async move {
        let mut buffer = vec![0; PIECE_BYTES];
        loop {
            let bytes = from.read(&mut buffer).await?;
            let due = Instant::now() + now_and_later.borrow().delay;
            let piece = buffer.get(..bytes).unwrap_or_default().to_vec();
            // An empty piece means that this side has finished sending.
            if sender.send((due, piece)).await.is_err() || bytes == 0 {
                return io::Result::Ok(());
            }
        }
    };
    let write = async move {
        while let Some((due, piece)) = receiver.recv().await {
            if due > Instant::now() {
                tokio::time::sleep_until(due).await;
            }
            uncut(&mut state).await?;
            if piece.is_empty() {
                to.shutdown().await?;
            } else {
                to.write_all(&piece).await?;
            }
        }
        io::Result::Ok(())
    };
    tokio::try_join!(read, write)?;
    Ok(())
}

async fn uncut(state: &mut watch::Receiver<State>) -> io::Result<()> {
    let waited = state.wait_for(|state| state.cut.is_none()).await;
    waited.map(|_| ()).map_err(|_| io::Error::from(io::ErrorKind::ConnectionAborted))
}
