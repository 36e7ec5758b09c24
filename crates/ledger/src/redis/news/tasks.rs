//! Starts the tasks that tell, listen and look, on the writer's thread.

use std::sync::Arc;

use penstock_redis_client::Heard;
use tokio::sync::mpsc;

use super::{
    hearing::News,
    looking::{poll, spawn_or_abort},
    telling::tell,
};
use crate::{
    Listener, Unavailable,
    redis::{adopt::Adoption, store::Store},
};

/// The most messages that wait to be sent. Further ones are dropped: the other nodes find out when they poll.
const MAX_UNTOLD: usize = 4_096;

/// Starts telling and listening on the current runtime.
pub(crate) fn start(
    store: Store,
    listener: Arc<dyn Listener>,
    adoption: Arc<Adoption>,
) -> Result<Arc<News>, Unavailable> {
    let (untold, told) = mpsc::channel(MAX_UNTOLD);
    let news = News::new(store.clone(), listener, adoption, untold)?;
    spawn_or_abort(tell(store, told));
    spawn_or_abort(listen(news.clone()));
    spawn_or_abort(poll(news.clone()));
    Ok(news)
}

async fn listen(news: Arc<News>) {
    let channel = news.store.keys.news();
    let mut following = news.store.link.follow(&[&channel]);
    loop {
        match following.next().await {
            Heard::Joined => news.look.notify_one(),
            Heard::Message((_, payload)) => news.take_message(&payload),
        }
    }
}
