//! Restricts the addresses to which a worker connects to send features. An engine names the next worker of a
//! batch, so an untrusted engine could otherwise name any address that this machine reaches.

use std::fmt;
use std::net::{IpAddr, SocketAddr};

/// Addresses to which features may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AllowedHops {
    /// Only this machine.
    #[default]
    Loopback,
    /// Only addresses of this list; an empty list allows none.
    Listed(Vec<AllowedHop>),
    /// Any address, for workers within the process of their engine.
    Any,
}

/// Entry of a list of allowed addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AllowedHop {
    /// IP address of the machine.
    pub ip: IpAddr,
    /// Port; `None` allows any.
    pub port: Option<u16>,
}

impl AllowedHops {
    /// True if a connection to `to` is allowed.
    #[must_use]
    pub fn allow(&self, to: SocketAddr) -> bool {
        let ip = to.ip().to_canonical();
        match self {
            Self::Any => true,
            Self::Loopback => ip.is_loopback(),
            Self::Listed(allowed) => allowed.iter().any(|allowed| {
                allowed.ip.to_canonical() == ip && allowed.port.is_none_or(|port| port == to.port())
            }),
        }
    }
}

impl fmt::Display for AllowedHop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.port {
            Some(port) => SocketAddr::new(self.ip, port).fmt(f),
            None => self.ip.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_listed_is_reached() {
        let to = |text: &str| text.parse::<SocketAddr>().unwrap();
        let hop = |ip: &str, port| AllowedHop {
            ip: ip.parse().unwrap(),
            port,
        };
        let listed = AllowedHops::Listed(vec![hop("10.0.0.1", None), hop("10.0.0.2", Some(7101))]);
        for (hops, address, allowed) in [
            (&AllowedHops::Loopback, "127.0.0.1:1", true),
            (&AllowedHops::Loopback, "[::1]:1", true),
            (&AllowedHops::Loopback, "[::ffff:127.0.0.1]:1", true),
            (&AllowedHops::Loopback, "10.0.0.1:1", false),
            (&AllowedHops::Loopback, "0.0.0.0:1", false),
            (&listed, "10.0.0.1:22", true),
            (&listed, "10.0.0.2:7101", true),
            (&listed, "[::ffff:10.0.0.2]:7101", true),
            (&listed, "10.0.0.2:22", false),
            (&listed, "127.0.0.1:1", false),
            (&AllowedHops::Listed(Vec::new()), "127.0.0.1:1", false),
            (&AllowedHops::Any, "10.0.0.3:1", true),
        ] {
            assert_eq!(hops.allow(to(address)), allowed, "{hops:?} {address}");
        }
    }
}
