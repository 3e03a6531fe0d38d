//! IPv4 addresses of this machine that a search can be sent from: one for each network of its routes.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, UdpSocket};

/// Routes that are looked at; each may have an interface of its own.
const MAX_ROUTES: usize = 256;

/// Interfaces that a search is sent on at once.
const MAX_INTERFACES: usize = 32;

/// `RTF_UP`: the route can be used.
const UP: u32 = 1;

/// Addresses to send from, without those of the machine itself.
pub(super) fn addresses() -> Vec<Ipv4Addr> {
    let routes = std::fs::read_to_string("/proc/net/route").unwrap_or_default();
    let destinations = destinations(&routes);
    // The address that the system itself would send a search from, whatever the file says.
    let all = std::iter::once(super::probe::GROUP).chain(destinations);
    let found: BTreeSet<Ipv4Addr> = all.filter_map(address_towards).collect();
    found.into_iter().take(MAX_INTERFACES).collect()
}

/// Address that packets to `destination` are sent from. Nothing is sent.
fn address_towards(destination: Ipv4Addr) -> Option<Ipv4Addr> {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((destination, 9)).ok()?;
    match socket.local_addr().ok()?.ip() {
        std::net::IpAddr::V4(address) => Some(address).filter(|ip| !ip.is_loopback() && !ip.is_unspecified()),
        std::net::IpAddr::V6(_) => None,
    }
}

/// A destination on each network of a table in the form of `/proc/net/route`.
fn destinations(routes: &str) -> Vec<Ipv4Addr> {
    let rows = routes.lines().skip(1).take(MAX_ROUTES);
    let destinations = rows.filter_map(|row| {
        let mut columns = row.split_whitespace();
        let interface = columns.next()?;
        let (destination, gateway) = (address(columns.next()?)?, address(columns.next()?)?);
        let flags = u32::from_str_radix(columns.next()?, 16).ok()?;
        if flags & UP == 0 || interface == "lo" {
            return None;
        }
        if !gateway.is_unspecified() {
            return Some(gateway);
        }
        // The address of a network itself is a broadcast on some systems.
        Some(Ipv4Addr::from(u32::from(destination) | 1))
    });
    destinations.collect()
}

/// An address as the kernel writes it: eight digits, in the order of its bytes in memory.
fn address(digits: &str) -> Option<Ipv4Addr> {
    let bytes = u32::from_str_radix(digits, 16).ok()?.to_ne_bytes();
    Some(Ipv4Addr::from(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_endian = "little")]
    fn networks_are_read_from_the_routes_of_the_kernel() {
        let routes = "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT\n\
                      eth0\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n\
                      eth0\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      eth1\t0000000A\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
                      down\t0002A8C0\t00000000\t0000\t0\t0\t0\t00FFFFFF\t0\t0\t0\n\
                      lo\t0000007F\t00000000\t0001\t0\t0\t0\t000000FF\t0\t0\t0\n\
                      short\t0000\n";
        let found = destinations(routes);
        assert_eq!(
            found,
            [
                Ipv4Addr::new(192, 168, 1, 1),
                Ipv4Addr::new(192, 168, 1, 1),
                Ipv4Addr::new(10, 0, 0, 1)
            ]
        );
        assert_eq!(destinations(""), Vec::<Ipv4Addr>::new());
    }

    #[test]
    fn own_addresses_are_no_loopback() {
        assert!(addresses().iter().all(|address| !address.is_loopback()));
        assert_eq!(address_towards(Ipv4Addr::LOCALHOST), None);
    }
}
