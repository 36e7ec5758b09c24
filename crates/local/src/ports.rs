//! Loopback addresses for servers.

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    ops::Range,
    sync::{
        OnceLock,
        atomic::{AtomicU16, Ordering},
    },
    time::Duration,
};

use anyhow::Context;

/// Below the ports that Linux gives to clients. While a server is down, no client's connection takes its
/// port, and no client that keeps trying connects to itself.
const PORTS: Range<u16> = 10_240..32_768;

/// A loopback address that nothing listens on now and that this process has not been given lately.
pub fn free_address() -> anyhow::Result<SocketAddr> {
    static NEXT: OnceLock<AtomicU16> = OnceLock::new();
    // Processes that start at the same time begin their search at different ports.
    next_free(NEXT.get_or_init(|| AtomicU16::new(fastrand::u16(..))))
}

/// The first free address, searching from `next`, which moves past it.
fn next_free(next: &AtomicU16) -> anyhow::Result<SocketAddr> {
    let mut candidates = PORTS.map(|_| {
        let port = PORTS.start + next.fetch_add(1, Ordering::Relaxed) % (PORTS.end - PORTS.start);
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    });
    candidates.find(|address| TcpListener::bind(address).is_ok()).context("cannot find a free port")
}

pub fn accepts(address: SocketAddr) -> bool {
    TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_ok()
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn addresses_differ_and_are_outside_the_clients_range() {
        let addresses: Vec<_> = (0..100).map(|_| free_address().unwrap()).collect();
        assert_eq!(addresses.iter().collect::<HashSet<_>>().len(), addresses.len());
        assert!(
            addresses.iter().all(|address| PORTS.contains(&address.port()) && address.ip().is_loopback())
        );
    }

    #[test]
    fn an_address_in_use_is_skipped() {
        let (start, listener) = (0..100)
            .find_map(|_| {
                let start = fastrand::u16(..PORTS.end - PORTS.start);
                let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, PORTS.start + start)).ok()?;
                Some((start, listener))
            })
            .unwrap();
        let taken = listener.local_addr().unwrap();
        assert!(accepts(taken));
        assert_ne!(next_free(&AtomicU16::new(start)).unwrap(), taken);
    }
}
