//! Listens to channels. Any server will do, since messages reach all of them; if it dies, another one is
//! chosen. A message can be missed, so listeners also poll from time to time.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt;
use redis::aio::PubSub;
use tokio::{
    sync::mpsc,
    time::{MissedTickBehavior, interval, sleep, timeout_at},
};

use crate::{error::LinkError, link::Link};

/// The most messages that wait for a listener. A slower one is cut off, and catches up when it is back.
const MAX_WAITING: usize = 4_096;
const PING_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A channel and a message on it.
pub type Message = (String, Vec<u8>);

/// What a follower hears.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The follower listens from now on. It has missed earlier messages.
    Joined,
    Message(Message),
}

/// Channels that are listened to forever, whichever server dies.
#[derive(Debug)]
pub struct Following {
    link: Link,
    channels: Vec<String>,
    messages: Option<mpsc::Receiver<Message>>,
}

impl Following {
    pub async fn next(&mut self) -> Heard {
        loop {
            if let Some(messages) = &mut self.messages {
                if let Some(message) = messages.recv().await {
                    return Heard::Message(message);
                }
                self.messages = None;
            }
            match self.subscribe().await {
                Ok(messages) => {
                    self.messages = Some(messages);
                    return Heard::Joined;
                }
                Err(error) => {
                    tracing::debug!(%error, "there is no server to listen to");
                    self.link.servers.refresh_soon();
                }
            }
            sleep(RETRY_INTERVAL).await;
        }
    }

    async fn subscribe(&self) -> Result<mpsc::Receiver<Message>, LinkError> {
        let servers = &self.link.servers;
        let nodes = servers.topology().nodes();
        // After a failure the next server is tried. Not all nodes listen to the same one.
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed).wrapping_add(std::process::id() as usize);
        let chosen = nodes.get(next.checked_rem(nodes.len()).unwrap_or(0)).cloned();
        let chosen = chosen.ok_or_else(|| LinkError::unreachable("cluster", "no server is known"))?;
        let (client, channels) = (servers.at(&chosen)?.client.clone(), self.channels.clone());
        let subscribing = servers.runtime.spawn(timeout_at(servers.deadline(), async move {
            let mut connection = client.get_async_pubsub().await?;
            connection.subscribe(&channels).await?;
            Ok::<_, redis::RedisError>(connection)
        }));
        let connection = match subscribing.await {
            Ok(Ok(Ok(connection))) => connection,
            Ok(Ok(Err(error))) => return Err(LinkError::unreachable(&chosen, error)),
            Ok(Err(_)) => return Err(LinkError::unreachable(&chosen, "subscribing took too long")),
            Err(_) => return Err(LinkError::unreachable(&chosen, "the process is about to end")),
        };
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        servers.runtime.spawn(forward(self.link.clone(), chosen, connection, sender));
        Ok(receiver)
    }
}

impl Link {
    /// Listens to the channels forever.
    pub fn follow(&self, channels: &[&str]) -> Following {
        let channels = channels.iter().map(|channel| (*channel).into()).collect();
        Following { link: self.clone(), channels, messages: None }
    }
}

/// Passes messages on until the connection or the listener is gone.
async fn forward(link: Link, server: Arc<str>, connection: PubSub, sender: mpsc::Sender<Message>) {
    let (mut sink, mut stream) = connection.split();
    let mut pings = interval(PING_INTERVAL);
    pings.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            message = stream.next() => {
                let Some(message) = message else { return };
                let message = (message.get_channel_name().to_owned(), message.get_payload_bytes().to_vec());
                if sender.try_send(message).is_err() {
                    return;
                }
            }
            _ = pings.tick() => {
                // A master that was replaced may live on and hear nothing.
                let is_known = link.servers.topology().nodes().contains(&server);
                let answer = timeout_at(link.deadline(), sink.ping::<redis::Value>()).await;
                if !is_known || !matches!(answer, Ok(Ok(_))) {
                    return;
                }
            }
            () = sender.closed() => return,
        }
    }
}
