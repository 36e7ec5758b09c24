//! The JSON messages of the outbox, for a merchant's other programs.

use serde::Serialize;

#[derive(Serialize)]
pub(crate) struct SalePayload {
    pub(crate) sale: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) units: Option<u32>,
    pub(crate) at_millis: i64,
}

#[derive(Serialize)]
pub(crate) struct WaiterPayload<'a> {
    pub(crate) sale: String,
    pub(crate) buyer: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) quantity: Option<u32>,
    /// The order that the buyer was offered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) order: Option<String>,
    pub(crate) at_millis: i64,
}

#[derive(Serialize)]
pub(crate) struct OrderPayload<'a> {
    pub(crate) order: String,
    pub(crate) sale: String,
    pub(crate) buyer: &'a str,
    pub(crate) quantity: u32,
    pub(crate) unit_price: String,
    pub(crate) currency: &'a str,
    pub(crate) state: &'a str,
    pub(crate) refund_due: bool,
    pub(crate) at_millis: i64,
}
