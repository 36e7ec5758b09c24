//! The calls of the API, by the people who make them. Handlers translate: they read a request, ask the application,
//! and write its answer.

pub(crate) mod account;
pub(crate) mod admin;
pub(crate) mod buyer;
pub(crate) mod caller;
pub(crate) mod operator;
pub(crate) mod origin;
pub(crate) mod pictures;
pub(crate) mod routes;
pub(crate) mod streams;
pub(crate) mod visit;

use std::sync::Arc;

use axum::extract::FromRef;
use bytes::Bytes;
use penstock_shop::{Shop, live::Live};
use tokio::sync::{Semaphore, watch};

use crate::options::ServerOptions;

/// What handlers share.
#[derive(Clone)]
pub(crate) struct Api {
    pub(crate) shop: Arc<Shop>,
    pub(crate) live: Arc<Live>,
    pub(crate) options: Arc<ServerOptions>,
    /// The body of `GET /countries`, which is the same for everybody.
    pub(crate) countries: Bytes,
    /// One audit at a time: it reads everything.
    pub(crate) auditing: Arc<Semaphore>,
    /// Becomes true when the server stops.
    pub(crate) stopping: watch::Receiver<bool>,
}

impl FromRef<Api> for Arc<Shop> {
    fn from_ref(api: &Api) -> Self {
        Arc::clone(&api.shop)
    }
}

impl Api {
    pub(crate) fn new(shop: Arc<Shop>, options: Arc<ServerOptions>, stopping: watch::Receiver<bool>) -> Self {
        let countries = account::countries::listed(shop.options.identity.default_country);
        Self {
            shop,
            live: Arc::default(),
            options,
            countries,
            auditing: Arc::new(Semaphore::new(1)),
            stopping,
        }
    }
}
