//! The settings of the server.

use std::{fmt, net::SocketAddr, time::Duration};

use ipnet::IpNet;
use penstock_shop::ShopOptions;

#[derive(Clone)]
pub struct ServerOptions {
    pub listen: SocketAddr,
    /// Threads that serve, each with its own listener; 0 means one per core.
    pub workers: usize,
    /// Always marks the session cookie `Secure`; for servers that are reached by HTTPS only. If a trusted
    /// proxy says that a visitor came by HTTPS, the cookie is marked in any case.
    pub secure_cookies: bool,
    /// Returns one-time codes in the answer, so that anybody can sign up with any phone: for rehearsals and
    /// demos only.
    pub codes_in_answers: bool,
    /// The most open connections over all workers. A further one takes the place of the one that has been
    /// idle longest.
    pub max_connections: usize,
    /// The most open connections of one address. A further one is closed at once. Loopback and trusted
    /// proxies are exempt.
    pub max_connections_per_address: usize,
    /// The most bytes of answers that may wait for one client to read them. Until it does, no more of its
    /// requests are looked at. The last answer may exceed it.
    pub max_unread_bytes_per_connection: usize,
    /// Memory for answers that clients have not read, over all connections. When it is full, the connections
    /// whose clients have read nothing for longest are cut.
    pub max_unread_bytes: usize,
    /// The proxies whose `X-Forwarded-For` and `X-Forwarded-Proto` are believed.
    pub trusted_proxies: Vec<IpNet>,
    /// How long a request may take to arrive, from its first byte to its last.
    pub request_timeout: Duration,
    /// How long a connection may go without completing the next request, or without reading any of our
    /// answer.
    pub idle_timeout: Duration,
    /// How long `Server::stop` waits for requests under way.
    pub drain_timeout: Duration,
    /// The prefix of a code in a problem's `type`. This server serves `/errors/`.
    pub problem_type_base: String,
    /// The files of the shop and the console. Without any there are no pages.
    pub pages: &'static [PageFile],
    /// The application behind it.
    pub shop: ShopOptions,
}

impl ServerOptions {
    pub fn new(shop: ShopOptions) -> Self {
        Self {
            listen: SocketAddr::from(([127, 0, 0, 1], 8080)),
            workers: 0,
            secure_cookies: false,
            codes_in_answers: false,
            max_connections: 65_536,
            max_connections_per_address: 1_024,
            max_unread_bytes_per_connection: 64 << 10,
            max_unread_bytes: 256 << 20,
            trusted_proxies: Vec::new(),
            request_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(75),
            drain_timeout: Duration::from_secs(30),
            problem_type_base: "/errors/".to_owned(),
            pages: &[],
            shop,
        }
    }
}

impl fmt::Debug for ServerOptions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("ServerOptions")
            .field("listen", &self.listen)
            .field("workers", &self.workers)
            .field("shop", &self.shop)
            .finish_non_exhaustive()
    }
}

/// A file of the pages, with its compressed variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageFile {
    /// The path that clients request, such as `/assets/shop-Bx3k1a9Q.js`. `/index.html` is the shop's page and `/console.html` the console's;
    /// both are shown at other paths. Under `/assets/` the name has to change with the bytes.
    pub path: &'static str,
    pub content_type: &'static str,
    /// Changes with the bytes. Only letters and digits.
    pub fingerprint: &'static str,
    pub bytes: &'static [u8],
    /// The same, compressed, if that is smaller.
    pub brotli: Option<&'static [u8]>,
    pub gzip: Option<&'static [u8]>,
}
