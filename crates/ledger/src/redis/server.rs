//! One Redis server and the connections to it, which are made on demand and replaced when they fail. Nothing
//! is sent twice here.

use std::{
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use redis::{
    AsyncConnectionConfig, ConnectionAddr, IntoConnectionInfo, Pipeline, RedisConnectionInfo, RedisError,
    Value, aio::MultiplexedConnection, io::tcp::TcpSettings,
};
use tokio::{
    runtime::Handle,
    sync::Mutex as Turn,
    time::{Instant, timeout_at},
};

use super::options::LinkError;

/// `WAIT` blocks everything behind it on its connection, so confirmed calls have a connection of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Plain,
    Confirmed,
}

#[derive(Clone, Default)]
pub(super) struct Credentials {
    pub(super) username: Option<String>,
    pub(super) password: Option<String>,
}

pub(super) struct Server {
    pub(super) address: Arc<str>,
    client: redis::Client,
    /// Connections live on this runtime, not on the caller's: a connection dies with the runtime it was made
    /// on.
    runtime: Handle,
    plain: Connected,
    confirmed: Connected,
}

#[derive(Default)]
struct Connected {
    /// The connection and its number. A late failure of an earlier connection does not end this one.
    current: Mutex<(Option<MultiplexedConnection>, u64)>,
    /// One task connects, the others wait for it.
    connecting: Turn<()>,
}

impl Connected {
    fn current(&self) -> Option<(MultiplexedConnection, u64)> {
        let current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        current.0.clone().map(|connection| (connection, current.1))
    }

    fn put(&self, connection: MultiplexedConnection) -> (MultiplexedConnection, u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        *current = (Some(connection.clone()), current.1 + 1);
        (connection, current.1)
    }

    fn discard(&self, number: u64) {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.1 == number {
            current.0 = None;
        }
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

impl Server {
    pub(super) fn new(address: &str, credentials: &Credentials, runtime: Handle) -> Result<Self, LinkError> {
        let wrong = |reason: &str| LinkError::Misconfigured(format!("{address} {reason}"));
        let (host, port) = address.rsplit_once(':').ok_or_else(|| wrong("is not host:port"))?;
        let port = port.parse().map_err(|_| wrong("has no port between 0 and 65535"))?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let mut settings = RedisConnectionInfo::default();
        if let Some(username) = &credentials.username {
            settings = settings.set_username(username);
        }
        if let Some(password) = &credentials.password {
            settings = settings.set_password(password);
        }
        let info = ConnectionAddr::Tcp(host.into(), port)
            .into_connection_info()
            .map_err(|error| wrong(&error.to_string()))?
            .set_tcp_settings(TcpSettings::default().set_nodelay(true))
            .set_redis_settings(settings);
        let client = redis::Client::open(info).map_err(|error| wrong(&error.to_string()))?;
        let address = address.into();
        Ok(Self { address, client, runtime, plain: Connected::default(), confirmed: Connected::default() })
    }

    pub(super) fn client(&self) -> &redis::Client {
        &self.client
    }

    /// Sends the commands in one go and returns their replies, including the errors of single commands.
    pub(super) async fn send(
        &self,
        lane: Lane,
        pipeline: &Pipeline,
        deadline: Instant,
    ) -> Result<Vec<Value>, LinkError> {
        let (mut connection, number) = self.connection(lane, deadline).await?;
        let sent = connection.send_packed_commands(pipeline, 0, pipeline.len());
        let failed = match timeout_at(deadline, sent).await {
            Ok(Ok(values)) => return Ok(values),
            Ok(Err(error)) => error.to_string(),
            // A silent connection may be cut without either side knowing.
            Err(_) => "it took too long".into(),
        };
        self.lane(lane).discard(number);
        Err(LinkError::Lost { server: self.address.to_string(), reason: failed })
    }

    /// Pings the open connections, and closes those that do not answer.
    pub(super) async fn ping(&self, deadline: Instant) {
        let mut ping = redis::pipe();
        ping.cmd("PING");
        for lane in [Lane::Plain, Lane::Confirmed] {
            if self.lane(lane).current().is_some() {
                // A failure closes the connection; there is nothing else to do.
                let _ = self.send(lane, &ping, deadline).await;
            }
        }
    }

    fn lane(&self, lane: Lane) -> &Connected {
        match lane {
            Lane::Plain => &self.plain,
            Lane::Confirmed => &self.confirmed,
        }
    }

    async fn connection(
        &self,
        lane: Lane,
        deadline: Instant,
    ) -> Result<(MultiplexedConnection, u64), LinkError> {
        let connected = self.lane(lane);
        if let Some(current) = connected.current() {
            return Ok(current);
        }
        let _turn = timeout_at(deadline, connected.connecting.lock())
            .await
            .map_err(|_| self.unreachable("connecting took too long"))?;
        match connected.current() {
            Some(current) => Ok(current),
            None => Ok(connected.put(self.connect(deadline).await?)),
        }
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
        LinkError::Unreachable { server: self.address.to_string(), reason: reason.into() }
    }
}

fn describe(error: &RedisError) -> String {
    match error.detail() {
        Some(detail) if !error.to_string().contains(detail) => format!("{error}: {detail}"),
        _ => error.to_string(),
    }
}
