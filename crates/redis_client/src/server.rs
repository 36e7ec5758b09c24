//! One Redis server and the connections to it, which are made on demand and replaced when they fail. Nothing
//! is sent twice here.

use std::sync::Arc;

use parking_lot::Mutex;
use redis::{
    AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError,
    Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use tokio::{
    runtime::Handle,
    sync::Mutex as AsyncMutex,
    time::{Instant, timeout_at},
};

use crate::error::LinkError;

/// `WAIT` blocks everything behind it on its connection, so confirmed calls have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallKind {
    Plain,
    Confirmed,
}

pub(crate) struct ServerConnections {
    pub(crate) address: Arc<str>,
    pub(crate) client: redis::Client,
    /// Connections live on this runtime, not on the caller's: a connection dies with the runtime it was made
    /// on.
    runtime: Handle,
    plain: Connected,
    confirmed: Connected,
}

#[derive(Default)]
struct Connected {
    current: Mutex<Option<Arc<MultiplexedConnection>>>,
    /// One task connects, the others wait for it.
    connecting: AsyncMutex<()>,
}

impl Connected {
    /// Closes the connection. The late failure of an earlier connection does not close this one.
    fn discard(&self, failed: &Arc<MultiplexedConnection>) {
        let mut current = self.current.lock();
        if current.as_ref().is_some_and(|current| Arc::ptr_eq(current, failed)) {
            *current = None;
        }
    }
}

impl ServerConnections {
    pub(crate) fn new(address: &str, login: RedisConnectionInfo, runtime: Handle) -> Result<Self, LinkError> {
        let wrong = |reason: &str| LinkError::Misconfigured(format!("{address} {reason}"));
        let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("is not host:port"))?;
        let port = port.parse().map_err(|_| wrong("has no port between 0 and 65535"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let info = ConnectionAddr::Tcp(host.into(), port)
            .into_connection_info()
            .map_err(|error| wrong(&error.to_string()))?
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(login);
        let client = redis::Client::open(info).map_err(|error| wrong(&error.to_string()))?;
        let address = address.into();
        Ok(Self { address, client, runtime, plain: Connected::default(), confirmed: Connected::default() })
    }

    /// Sends the commands in one go and returns their replies, including the errors of single commands.
    pub(crate) async fn send(
        &self,
        kind: CallKind,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        let connection = self.connection(kind, deadline).await?;
        let mut channel = MultiplexedConnection::clone(&connection);
        let sent = channel.send_packed_commands(pipeline, 0, pipeline.len());
        let reason = match timeout_at(deadline, sent).await {
            Ok(Ok(values)) => return Ok(values),
            Ok(Err(error)) => error.to_string(),
            // A silent connection may be cut without either side knowing.
            Err(_) => "it took too long".into(),
        };
        self.connected(kind).discard(&connection);
        Err(LinkError::Lost { server: self.address.to_string(), reason })
    }

    /// Pings the open connections, and closes those that do not answer.
    pub(crate) async fn ping(&self, deadline: Instant) {
        let mut ping = redis::pipe();
        ping.cmd("PING");
        for kind in [CallKind::Plain, CallKind::Confirmed] {
            if self.connected(kind).current.lock().is_some() {
                // A failure closes the connection; there is nothing else to do.
                let _ = self.send(kind, &ping, deadline).await;
            }
        }
    }

    fn connected(&self, kind: CallKind) -> &Connected {
        match kind {
            CallKind::Plain => &self.plain,
            CallKind::Confirmed => &self.confirmed,
        }
    }

    async fn connection(
        &self,
        kind: CallKind,
        deadline: Instant,
    ) -> Result<Arc<MultiplexedConnection>, LinkError> {
        let connected = self.connected(kind);
        let current = || connected.current.lock().clone();
        if let Some(current) = current() {
            return Ok(current);
        }
        let late = |_| self.unreachable("connecting took too long");
        let _alone = timeout_at(deadline, connected.connecting.lock()).await.map_err(late)?;
        if let Some(current) = current() {
            return Ok(current);
        }
        let connection = Arc::new(self.connect(deadline).await?);
        *connected.current.lock() = Some(connection.clone());
        Ok(connection)
    }

    async fn connect(&self, deadline: Instant) -> Result<MultiplexedConnection, LinkError> {
        let client = self.client.clone();
        let connecting = self.runtime.spawn(async move {
            // The callers keep the deadlines.
            let config = AsyncConnectionConfig::new().set_connection_timeout(None).set_response_timeout(None);
            timeout_at(deadline, client.get_multiplexed_async_connection_with_config(&config)).await
        });
        match timeout_at(deadline, connecting).await {
            Ok(Ok(Ok(Ok(connection)))) => Ok(connection),
            Ok(Ok(Ok(Err(error)))) => Err(self.unreachable(&describe(&error))),
            Ok(Err(_)) => Err(self.unreachable("the process is about to end")),
            Ok(Ok(Err(_))) | Err(_) => Err(self.unreachable("connecting took too long")),
        }
    }

    fn unreachable(&self, reason: &str) -> LinkError {
        LinkError::unreachable(&self.address, reason)
    }
}

fn describe(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) if !error.to_string().contains(detail) => format!("{error}: {detail}"),
        _ => error.to_string(),
    }
}
