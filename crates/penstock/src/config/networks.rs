//! Networks as text in a setting: addresses or CIDR ranges, separated by commas. It does not know what they
//! are for.

use std::{net::IpAddr, ops::Deref, str::FromStr};

use ipnet::IpNet;
use serde::Deserialize;

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Networks(Vec<IpNet>);

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is neither an address nor a network such as 10.0.0.0/8")]
pub(crate) struct InvalidNetwork(String);

impl FromStr for Networks {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        text.split(',').map(|part| network(part.trim())).collect::<Result<_, _>>().map(Self)
    }
}

fn network(text: &str) -> Result<IpNet, InvalidNetwork> {
    let address = text.parse::<IpAddr>().map(IpNet::from);
    let network = address.or_else(|_| text.parse::<IpNet>()).map_err(|_| InvalidNetwork(text.to_owned()))?;
    Ok(network.trunc())
}

impl TryFrom<String> for Networks {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Self, InvalidNetwork> {
        text.parse()
    }
}

impl Deref for Networks {
    type Target = [IpNet];

    fn deref(&self) -> &[IpNet] {
        &self.0
    }
}
