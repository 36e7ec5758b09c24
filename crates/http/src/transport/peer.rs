//! Where a request comes from: the address at the other end of its connection or, behind a trusted proxy, the
//! address that the proxy names. It does not know the limits.

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::Once,
};

use hyper::header::HeaderName;
use ipnet::IpNet;
use penstock_gate::AddressKey;
use penstock_shop::gate::Peer;

use crate::api::caller::CameByHttps;

pub(crate) const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Stands for all clients whose trusted proxy does not say where they come from. They share the limits of one
/// client. Without any limits, anybody who finds a way to confuse the proxy could do as they like.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

/// The other end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remote {
    Client(IpAddr),
    /// A trusted proxy: its requests come from many clients.
    Proxy(IpAddr),
}

impl Remote {
    pub(crate) fn new(address: IpAddr, trusted: &[IpNet]) -> Self {
        let address = address.to_canonical();
        if is_trusted(address, trusted) { Self::Proxy(address) } else { Self::Client(address) }
    }

    /// The key for the number of connections of one address. None for loopback and proxies, which are not
    /// counted.
    pub(crate) fn address_key(self) -> Option<AddressKey> {
        match self {
            Self::Client(address) => AddressKey::of(address),
            Self::Proxy(_) => None,
        }
    }

    /// `proto` is the header `X-Forwarded-Proto`. With several proxies, the first entry is that of the proxy
    /// that the visitor reached. A client that makes it up fools only itself.
    pub(crate) fn came_by_https(self, proto: Option<&[u8]>) -> CameByHttps {
        let is_https = || {
            let first = proto.and_then(|list| list.split(|byte| *byte == b',').next());
            first.is_some_and(|proto| proto.trim_ascii().eq_ignore_ascii_case(b"https"))
        };
        CameByHttps(matches!(self, Self::Proxy(_)) && is_https())
    }

    /// Where a request on this connection comes from. `forwarded` are its `X-Forwarded-For` headers in their
    /// order. Each proxy appends the address it sees, so only the end can be believed. From there, the first
    /// address that does not belong to our proxies is the client's. The client may have made up anything
    /// before it. Without the header, the proxy itself is asking.
    pub(crate) fn peer<'a>(
        self,
        mut forwarded: impl DoubleEndedIterator<Item = &'a [u8]>,
        trusted: &[IpNet],
    ) -> Peer {
        let proxy = match self {
            Self::Client(address) => {
                if is_of_our_own_network(address) && forwarded.next().is_some() {
                    warn_of_unnamed_proxy(address);
                }
                return Peer(address);
            }
            Self::Proxy(address) => address,
        };
        let mut farthest = proxy;
        for entry in forwarded.flat_map(|header| header.split(|byte| *byte == b',')).rev() {
            let Some(address) = parse(entry) else { return Peer(UNKNOWN) };
            let is_proxy = is_trusted(address, trusted);
            // Whatever machine a remote proxy means by it, it is not this one, and loopback has no limits.
            if address.is_loopback() && !is_proxy {
                return Peer(UNKNOWN);
            }
            farthest = address;
            if !is_proxy {
                break;
            }
        }
        Peer(farthest)
    }
}

/// Whether this may be the operator's own proxy. Anybody on the Internet can send a header.
fn is_of_our_own_network(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private(),
        IpAddr::V6(address) => address.is_loopback() || address.is_unique_local(),
    }
}

/// Explains once what it means that a proxy is not configured.
fn warn_of_unnamed_proxy(proxy: IpAddr) {
    static WARNED: Once = Once::new();
    WARNED.call_once(|| {
        let limits = match AddressKey::of(proxy) {
            Some(_) => "all clients that come through it share the limits of one address",
            None => "clients that come through it have no limits by address, because loopback is exempt",
        };
        tracing::warn!(
            %proxy,
            "requests carry X-Forwarded-For, but http.trusted_proxies does not name where they come from, so the header is not \
             believed: {limits}, and no cookie is Secure"
        );
    });
}

fn is_trusted(address: IpAddr, trusted: &[IpNet]) -> bool {
    trusted.iter().any(|net| net.contains(&address))
}

/// An address, with or without a port: some proxies write it.
fn parse(entry: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(entry).ok()?.trim();
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let address = bare.parse().or_else(|_| text.parse::<SocketAddr>().map(|with_port| with_port.ip()));
    address.ok().map(|address| address.to_canonical())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trusted() -> Vec<IpNet> {
        ["10.0.0.0/8", "2001:db8:aaaa::/48"].map(|net| net.parse().unwrap()).to_vec()
    }

    fn peer(connection: &str, forwarded: &[&str]) -> String {
        let remote = Remote::new(connection.parse().unwrap(), &trusted());
        remote.peer(forwarded.iter().map(|header| header.as_bytes()), &trusted()).0.to_string()
    }

    #[test]
    fn only_a_trusted_proxy_is_believed() {
        assert_eq!(peer("203.0.113.9", &["198.51.100.1"]), "203.0.113.9");
        assert_eq!(peer("10.1.2.3", &["198.51.100.1"]), "198.51.100.1");
        assert_eq!(peer("::ffff:10.1.2.3", &["198.51.100.1"]), "198.51.100.1", "also as mapped IPv4");
        assert_eq!(peer("2001:db8:aaaa::1", &["2001:db8:bbbb::7"]), "2001:db8:bbbb::7");
        assert_eq!(peer("10.1.2.3", &[]), "10.1.2.3");
    }

    #[test]
    fn addresses_that_the_client_wrote_itself_are_not_believed() {
        assert_eq!(peer("10.1.2.3", &["192.0.2.1, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(peer("10.1.2.3", &["10.9.9.9, 198.51.100.1, 10.4.4.4"]), "198.51.100.1");
        assert_eq!(peer("10.1.2.3", &["nonsense, 198.51.100.1"]), "198.51.100.1");
        assert_eq!(peer("10.1.2.3", &["192.0.2.1", "198.51.100.1,10.4.4.4"]), "198.51.100.1", "one list");
        assert_eq!(peer("10.1.2.3", &["198.51.100.1", "10.4.4.4"]), "198.51.100.1");
    }

    #[test]
    fn a_caller_among_the_proxies_is_the_farthest_address() {
        assert_eq!(peer("10.1.2.3", &["10.7.7.7, 10.4.4.4"]), "10.7.7.7");
    }

    #[test]
    fn a_client_that_its_proxy_does_not_name_is_the_unknown_client() {
        for list in
            ["", "unknown", "198.51.100.1,", "198.51.100", "198.51.100.1 x", ", ,", "_hidden, 10.4.4.4"]
        {
            assert_eq!(peer("10.1.2.3", &[list]), "0.0.0.0", "{list:?}");
        }
        assert_eq!(peer("10.1.2.3", &["198.51.100.1", "unknown"]), "0.0.0.0", "as the last of two headers");
    }

    #[test]
    fn loopback_in_a_list_is_unknown_unless_it_is_a_trusted_proxy() {
        for list in
            ["198.51.100.1, 127.0.0.1", "127.0.0.1", "::1", "198.51.100.1, ::ffff:127.0.0.1, 10.4.4.4"]
        {
            assert_eq!(peer("10.1.2.3", &[list]), "0.0.0.0", "{list:?}");
        }
        let trusted = ["10.0.0.0/8", "127.0.0.0/8"].map(|net| net.parse().unwrap());
        let peer = |connection: &str, list: &str| {
            let remote = Remote::new(connection.parse().unwrap(), &trusted);
            remote.peer([list.as_bytes()].into_iter(), &trusted).0.to_string()
        };
        assert_eq!(peer("10.1.2.3", "198.51.100.1, 127.0.0.1"), "198.51.100.1");
        assert_eq!(peer("127.0.0.1", "127.0.0.1"), "127.0.0.1", "a cluster on one machine");
    }

    #[test]
    fn nobody_escapes_the_limits_by_a_header_that_can_not_be_read() {
        let trusted = ["127.0.0.0/8".parse().unwrap()];
        let remote = Remote::new("127.0.0.1".parse().unwrap(), &trusted);
        for list in ["", "unknown", "unknown, 127.0.0.1", "127.0.0.1, x"] {
            let Peer(address) = remote.peer([list.as_bytes()].into_iter(), &trusted);
            assert!(AddressKey::of(address).is_some(), "{list:?} is limited as {address}");
        }
    }

    #[test]
    fn ports_and_brackets_are_left_out() {
        assert_eq!(peer("10.1.2.3", &["198.51.100.1:4711"]), "198.51.100.1");
        assert_eq!(peer("10.1.2.3", &["[2001:db8::7]:4711"]), "2001:db8::7");
        assert_eq!(peer("10.1.2.3", &["[2001:db8::7]"]), "2001:db8::7");
        assert_eq!(peer("10.1.2.3", &["::ffff:198.51.100.1"]), "198.51.100.1");
    }

    #[test]
    fn only_a_trusted_proxy_tells_that_somebody_came_by_https() {
        let came_by_https = |connection: &str, proto: Option<&str>| {
            let remote = Remote::new(connection.parse().unwrap(), &trusted());
            remote.came_by_https(proto.map(str::as_bytes)).0
        };
        assert!(came_by_https("10.1.2.3", Some("https")));
        assert!(came_by_https("10.1.2.3", Some("HTTPS, http")), "the visitor came to the first proxy");
        assert!(!came_by_https("10.1.2.3", Some("http")) && !came_by_https("10.1.2.3", Some("http, https")));
        assert!(!came_by_https("10.1.2.3", Some("httpss")) && !came_by_https("10.1.2.3", None));
        assert!(!came_by_https("203.0.113.9", Some("https")));
    }

    #[test]
    fn clients_of_an_unconfigured_proxy_on_this_machine_have_no_limits_by_address() {
        let address_of = |connection: &str| peer(connection, &["203.0.113.9"]);
        for loopback in ["127.0.0.1", "::1"] {
            assert_eq!(AddressKey::of(address_of(loopback).parse().unwrap()), None);
        }
        assert!(AddressKey::of(address_of("192.168.0.1").parse().unwrap()).is_some());
    }

    #[test]
    fn the_warning_is_only_about_proxies_that_may_be_the_operators_own() {
        let is_own = |address: &str| is_of_our_own_network(address.parse().unwrap());
        for own in ["127.0.0.1", "::1", "10.1.2.3", "172.16.0.1", "192.168.0.1", "fd99::10"] {
            assert!(is_own(own), "{own}");
        }
        for stranger in ["198.51.100.1", "172.32.0.1", "2001:db8::1"] {
            assert!(!is_own(stranger), "{stranger}");
        }
    }

    #[test]
    fn loopback_and_proxies_may_connect_as_often_as_they_like() {
        let key = |address: &str| Remote::new(address.parse().unwrap(), &trusted()).address_key();
        assert_eq!((key("127.0.0.1"), key("10.1.2.3")), (None, None));
        assert!(key("198.51.100.1").is_some());
    }
}
