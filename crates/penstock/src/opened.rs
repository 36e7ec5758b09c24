//! An assembled engine, ready to be served. It does not know which engine it is.

use std::sync::Arc;

use penstock_http::ServerOptions;
use penstock_ledger::Ledger;
use penstock_records::Records;
use penstock_settle::Settlement;
use penstock_shop::storefront::Storefront;

use crate::{demo::Demo, folder::DataFolder};

pub(crate) struct Opened {
    pub(crate) http: ServerOptions,
    pub(crate) storefront: Arc<Storefront>,
    pub(crate) ledger: Ledger,
    pub(crate) records: Records,
    /// None: separate workers settle.
    pub(crate) settlement: Option<Settlement>,
    pub(crate) demo: Option<Demo>,
    /// None: a node of a cluster, which keeps nothing on its machine.
    pub(crate) folder: Option<DataFolder>,
}
