//! The address that a request comes from, for the limits by address. Finding it out is the transport's business.

use std::net::IpAddr;

use penstock_domain::Timestamp;
use penstock_gate::{AddressKey, KeyedLimit, TooMany};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer(pub IpAddr);

impl Peer {
    /// Checks a limit by address. Loopback has no limits.
    pub fn within(self, limit: &KeyedLimit<AddressKey>, now: Timestamp) -> Result<(), TooMany> {
        let Some(key) = AddressKey::of(self.0) else { return Ok(()) };
        limit.check(&key, now)
    }

    /// The address in the form in which one-time codes store it. All clients on this machine share one.
    pub fn origin(self) -> String {
        AddressKey::of(self.0).map(|key| key.to_string()).unwrap_or_default()
    }
}
