//! Listens to channels. Any server will do, since messages reach all of them; if it dies, another one is
//! chosen. A message can be missed, so listeners also poll from time to time.

use std::{
    pin::Pin,
    sync::atomic::Ordering,
    task::{Context, Poll},
    time::Duration,
};

use futures_util::{Stream, StreamExt};
use redis::aio::PubSub;
use tokio::{
    sync::mpsc,
    time::{Instant, MissedTickBehavior, interval, sleep, timeout_at},
};

use super::{link::Link, options::LinkError};

/// The most messages that wait for a listener. A slower one is cut off, and catches up when it is back.
const MAX_WAITING: usize = 4_096;
const PING_INTERVAL: Duration = Duration::from_secs(1);
const RETRY_INTERVAL: Duration = Duration::from_millis(100);

/// A channel and a message on it.
pub type Message = (String, Vec<u8>);

/// The messages on some channels. The stream ends when the connection is lost.
#[derive(Debug)]
pub struct Messages {
    receiver: mpsc::Receiver<Message>,
}

impl Stream for Messages {
    type Item = Message;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Message>> {
        self.receiver.poll_recv(context)
    }
}

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
    messages: Option<Messages>,
}

impl Following {
    pub async fn next(&mut self) -> Heard {
        loop {
            if let Some(messages) = &mut self.messages {
                if let Some(message) = messages.next().await {
                    return Heard::Message(message);
                }
                self.messages = None;
            }
            let channels: Vec<&str> = self.channels.iter().map(String::as_str).collect();
            match self.link.subscribe(&channels).await {
                Ok(messages) => {
                    self.messages = Some(messages);
                    return Heard::Joined;
                }
                Err(error) => tracing::debug!(%error, "there is no server to listen to"),
            }
            sleep(RETRY_INTERVAL).await;
        }
    }
}

impl Link {
    pub async fn subscribe(&self, channels: &[&str]) -> Result<Messages, LinkError> {
        let mut nodes = self.nodes();
        if nodes.is_empty() {
            self.refresh(self.deadline()).await?;
            nodes = self.nodes();
        }
        // After a failure the next server is tried. Not all nodes listen to the same one.
        let turn = self.rotation().fetch_add(1, Ordering::Relaxed);
        let Some(chosen) = nodes.get(turn.checked_rem(nodes.len()).unwrap_or(0)).cloned() else {
            let reason = "no server is known".into();
            return Err(LinkError::Unreachable { server: "cluster".into(), reason });
        };
        let client = self.server(&chosen)?.client().clone();
        let names: Vec<String> = channels.iter().map(|channel| (*channel).into()).collect();
        let (sender, receiver) = mpsc::channel(MAX_WAITING);
        let deadline = self.deadline();
        let failed = |reason: String| {
            self.refresh_soon();
            LinkError::Unreachable { server: chosen.to_string(), reason }
        };
        let subscribed = self.runtime().spawn(timeout_at(deadline, async move {
            let mut connection = client.get_async_pubsub().await?;
            connection.subscribe(&names).await?;
            Ok::<_, redis::RedisError>(connection)
        }));
        let connection = match subscribed.await {
            Ok(Ok(Ok(connection))) => connection,
            Ok(Ok(Err(error))) => return Err(failed(error.to_string())),
            Ok(Err(_)) => return Err(failed("subscribing took too long".into())),
            Err(_) => return Err(failed("the process is about to end".into())),
        };
        self.runtime().spawn(forward(self.clone(), chosen.to_string(), connection, sender));
        Ok(Messages { receiver })
    }

    /// Listens forever.
    pub fn follow(&self, channels: &[&str]) -> Following {
        let channels = channels.iter().map(|channel| (*channel).into()).collect();
        Following { link: self.clone(), channels, messages: None }
    }
}

/// Passes messages on until the connection or the listener is gone.
async fn forward(link: Link, server: String, connection: PubSub, sender: mpsc::Sender<Message>) {
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
                let is_known = link.nodes().iter().any(|node| **node == *server);
                let deadline = Instant::now() + link.options().timeout;
                let answer = timeout_at(deadline, sink.ping::<redis::Value>()).await;
                if !is_known || !matches!(answer, Ok(Ok(_))) {
                    return;
                }
            }
            () = sender.closed() => return,
        }
    }
}
