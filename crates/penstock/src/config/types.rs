//! The types that settings can have: how each is read from a TOML value, and what is wrong with a value that
//! can't be read.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    num::NonZeroU32,
    ops::Deref,
    path::PathBuf,
};

use ipnet::IpNet;
use penstock_shop::identity::Country;
use toml::Value;
use tracing_subscriber::EnvFilter;

pub(crate) trait SettingType: Sized {
    /// All values of the type, if they are few.
    const CHOICES: &'static [&'static str] = &[];
    /// Never printed.
    const IS_SECRET: bool = false;

    /// Reads a value that has the same TOML type as the default. The error says what is wrong with it.
    fn read(value: &Value) -> Result<Self, String>;
}

macro_rules! whole_numbers {
    ($($type:ty),*) => {$(
        impl SettingType for $type {
            fn read(value: &Value) -> Result<Self, String> {
                let number = value.as_integer().unwrap_or_default();
                number.try_into().map_err(|_| format!("{number} is out of bounds"))
            }
        }
    )*};
}

whole_numbers!(i64, u8, u32, u64, usize);

impl SettingType for NonZeroU32 {
    fn read(value: &Value) -> Result<Self, String> {
        Self::new(u32::read(value)?).ok_or_else(|| "0 is out of bounds".to_owned())
    }
}

impl SettingType for bool {
    const CHOICES: &'static [&'static str] = &["true", "false"];

    fn read(value: &Value) -> Result<Self, String> {
        Ok(value.as_bool().unwrap_or_default())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

macro_rules! texts {
    ($($type:ty),*) => {$(
        impl SettingType for $type {
            fn read(value: &Value) -> Result<Self, String> {
                Ok(text(value).into())
            }
        }
    )*};
}

texts!(String, PathBuf);

impl SettingType for SocketAddr {
    fn read(value: &Value) -> Result<Self, String> {
        let text = text(value);
        text.parse().map_err(|_| format!("{text:?} is not an address such as 127.0.0.1:8080"))
    }
}

/// Addresses or networks, separated by commas; may be empty.
impl SettingType for Vec<IpNet> {
    fn read(value: &Value) -> Result<Self, String> {
        let network = |text: &str| {
            let network = text.parse::<IpAddr>().map(IpNet::from).or_else(|_| text.parse());
            let problem = |_: ipnet::AddrParseError| {
                format!("{text:?} is neither an address nor a network such as 10.0.0.0/8")
            };
            network.map(|network| network.trunc()).map_err(problem)
        };
        match text(value).trim() {
            "" => Ok(Self::new()),
            text => text.split(',').map(|text| network(text.trim())).collect(),
        }
    }
}

impl SettingType for Country {
    fn read(value: &Value) -> Result<Self, String> {
        let text = text(value);
        text.parse().map_err(|error| format!("{text:?} {error}"))
    }
}

/// Empty text is None.
impl<T: SettingType> SettingType for Option<T> {
    fn read(value: &Value) -> Result<Self, String> {
        if text(value).is_empty() { Ok(None) } else { T::read(value).map(Some) }
    }
}

/// A secret that can't get into a log by accident. Empty means unset.
#[derive(Clone)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn get(&self) -> Option<&str> {
        if self.0.is_empty() { None } else { Some(&self.0) }
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(if self.0.is_empty() { "unset" } else { "set" })
    }
}

impl SettingType for Secret {
    const IS_SECRET: bool = true;

    fn read(value: &Value) -> Result<Self, String> {
        // A header can't carry anything else.
        if !text(value).chars().all(|character| character.is_ascii_graphic()) {
            return Err("has to consist of visible ASCII characters without spaces".to_owned());
        }
        String::read(value).map(Self)
    }
}

/// Names or addresses with a port, separated by commas.
#[derive(Clone, Debug)]
pub(crate) struct ServerList(Vec<String>);

impl Deref for ServerList {
    type Target = [String];

    fn deref(&self) -> &[String] {
        &self.0
    }
}

impl SettingType for ServerList {
    fn read(value: &Value) -> Result<Self, String> {
        let server = |text: &str| {
            let host_and_port = text.rsplit_once(':').filter(|(host, _)| !host.is_empty());
            match host_and_port.is_some_and(|(_, port)| port.parse::<u16>().is_ok_and(|port| port > 0)) {
                true => Ok(text.to_owned()),
                false => Err(format!("{text:?} is not a server such as 10.0.0.5:6379")),
            }
        };
        text(value).split(',').map(|text| server(text.trim())).collect::<Result<_, _>>().map(Self)
    }
}

/// A filter of the `tracing` crate, such as `info` or `info,penstock_settle=debug`.
#[derive(Clone, Debug)]
pub(crate) struct LogFilter(pub(crate) String);

impl SettingType for LogFilter {
    fn read(value: &Value) -> Result<Self, String> {
        let text = text(value);
        match text.parse::<EnvFilter>() {
            Ok(_) if text.trim().is_empty() => Err("is empty; info is the default".to_owned()),
            Ok(_) => Ok(Self(text.to_owned())),
            Err(error) => Err(format!("{text:?} is not a log filter: {error}")),
        }
    }
}

/// Declares an enum whose variants have a name in the configuration.
macro_rules! choice {
    ($type:ident { $($variant:ident = $name:literal),* }) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub(crate) enum $type {
            $($variant),*
        }

        impl SettingType for $type {
            const CHOICES: &'static [&'static str] = &[$($name),*];

            fn read(value: &Value) -> Result<Self, String> {
                match text(value) {
                    $($name => Ok(Self::$variant),)*
                    other => Err(format!("{other:?} is not one of {}", Self::CHOICES.join(", "))),
                }
            }
        }
    };
}

choice!(EngineKind { Embedded = "embedded", Cluster = "cluster" });
choice!(RedisTopology { Single = "single", Sentinel = "sentinel", Cluster = "cluster" });
choice!(LogFormat { Text = "text", Json = "json" });
