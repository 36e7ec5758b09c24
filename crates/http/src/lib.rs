//! HTTP: the server, the calls of the API, their contract, and the pages. It translates between HTTP and the
//! application, and decides nothing itself.

mod api;
mod contract;
mod options;
mod pages;
mod transport;

pub use self::{
    api::routes::openapi,
    contract::{problem::status_of, wire::JsonScribe},
    options::{PageFile, ServerOptions},
    transport::{
        server::{Server, StartError},
        worker::WorkerServer,
    },
};
