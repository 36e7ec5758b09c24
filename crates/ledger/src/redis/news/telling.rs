//! Sends this node's own news to the other nodes.

use penstock_redis_client::LinkError;
use tokio::sync::mpsc;

use crate::redis::{
    layout::{NodeMessage, pack_message},
    store::Store,
};

/// Messages that gather while one is being sent go together; those that follow each other are merged.
pub(super) async fn tell(store: Store, mut told: mpsc::Receiver<NodeMessage>) {
    while let Some(message) = told.recv().await {
        let mut messages = vec![message];
        while let Ok(message) = told.try_recv() {
            add(&mut messages, message);
        }
        if let Err(error) = publish(&store, &messages).await {
            tracing::debug!(%error, "the other nodes were not told");
        }
    }
}

async fn publish(store: &Store, messages: &[NodeMessage]) -> Result<(), LinkError> {
    let channel = store.keys.news();
    let mut pipeline = redis::pipe();
    for message in messages {
        pipeline.cmd("PUBLISH").arg(&channel).arg(pack_message(message));
    }
    // A message reaches all servers, whichever one it was sent to.
    let key = messages.first().map(|message| store.keys.sale(message.known.sale())).unwrap_or_default();
    store.link.run(&key, pipeline, false).await.map(drop)
}

fn add(messages: &mut Vec<NodeMessage>, message: NodeMessage) {
    let follows = |earlier: &&mut NodeMessage| {
        earlier.known.sale() == message.known.sale()
            && earlier.known.position() == message.before
            && earlier.known.epoch() == message.known.epoch()
    };
    match messages.iter_mut().find(follows) {
        Some(earlier) => {
            earlier.known = message.known;
            earlier.accepted.extend(message.accepted);
        }
        None => messages.push(message),
    }
}
