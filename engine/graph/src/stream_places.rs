//! Places that streams which clients of the API add may be read from.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};

/// Hosts and folders that `[app]` names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct StreamPlaces {
    /// `None`: any host.
    pub(crate) hosts: Option<Vec<Hosts>>,
    pub(crate) folders: Vec<PathBuf>,
}

impl StreamPlaces {
    /// Whether streams may be of this host of an address, which is in small letters.
    #[must_use]
    pub fn allows_host(&self, host: &str) -> bool {
        let hosts = self.hosts.as_ref();
        hosts.is_none_or(|hosts| hosts.iter().any(|hosts| hosts.has(host)))
    }

    /// Whether any host is allowed, since the graph names none.
    #[must_use]
    pub fn allows_any_host(&self) -> bool {
        self.hosts.is_none()
    }

    /// Whether the graph names this host itself, alone or with others.
    #[must_use]
    pub fn names_host(&self, host: &str) -> bool {
        self.hosts.is_some() && self.allows_host(host)
    }

    /// Absolute paths of the folders.
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.folders
    }

    pub(crate) fn add_folder(&mut self, folder: &Path) {
        self.folders.push(folder.to_owned());
    }
}

/// One host, or many.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Hosts {
    /// `camera-1.lan`
    Name(String),
    /// `*.lan`: every name that ends with `.lan`.
    Below(String),
    /// `10.0.7.0/24`, or one address.
    Network { bits: u128, mask: u128, is_v6: bool },
}

impl Hosts {
    /// Reads an entry of the list.
    ///
    /// # Errors
    /// It is none, with what it must be.
    pub(crate) fn parse(text: &str) -> Result<Self, &'static str> {
        const FORMS: &str = "write a name (\"camera-1.lan\"), all names of a domain (\"*.lan\"), an address or a network \
                             (\"10.0.7.0/24\"), without scheme and port";
        let text = text.to_ascii_lowercase();
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length.parse::<u32>().map_err(|_| FORMS)?)),
            None => (text.as_str(), None),
        };
        if let Ok(address) = address.parse::<IpAddr>() {
            let (bits, is_v6) = bits_of(address);
            let all = if is_v6 { 128 } else { 32 };
            let length = length.unwrap_or(all);
            if length > all {
                return Err("the length of a network is 32 bits at most, or 128 for IPv6");
            }
            // The bits of an IPv4 address are the lowest.
            let mask = u128::MAX.checked_shl(all - length).unwrap_or(0);
            return Ok(Self::Network {
                bits: bits & mask,
                mask,
                is_v6,
            });
        }
        let (name, is_domain) = text
            .strip_prefix("*.")
            .map_or((text.as_str(), false), |name| (name, true));
        let is_name = !name.is_empty()
            && name.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c))
            && length.is_none();
        match (is_name, is_domain) {
            (false, _) => Err(FORMS),
            (true, true) => Ok(Self::Below(format!(".{name}"))),
            (true, false) => Ok(Self::Name(text)),
        }
    }

    fn has(&self, host: &str) -> bool {
        match self {
            Self::Name(name) => host == name,
            Self::Below(ending) => host.len() > ending.len() && host.ends_with(ending.as_str()),
            Self::Network { bits, mask, is_v6 } => {
                let address = host.parse::<IpAddr>().map(bits_of);
                address.is_ok_and(|(other, other_is_v6)| *is_v6 == other_is_v6 && other & mask == *bits)
            }
        }
    }
}

/// The bits of an address, and whether they are of IPv6. An IPv4 address that is written as one of IPv6 is the former.
fn bits_of(address: IpAddr) -> (u128, bool) {
    let v4 = |address: Ipv4Addr| (u128::from(address.to_bits()), false);
    match address {
        IpAddr::V4(address) => v4(address),
        IpAddr::V6(address) => address
            .to_ipv4_mapped()
            .map_or((Ipv6Addr::to_bits(address), true), v4),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_those_that_are_named() {
        for (named, yes, no) in [
            (
                "camera-1.lan",
                vec!["camera-1.lan"],
                vec!["camera-1.lan.", "xcamera-1.lan", "lan", ""],
            ),
            (
                "*.lan",
                vec!["a.lan", "a.b.lan"],
                vec!["lan", ".lan", "a.wlan", "a.lan.evil"],
            ),
            (
                "10.0.7.0/24",
                vec!["10.0.7.0", "10.0.7.255", "::ffff:10.0.7.9"],
                vec![
                    "10.0.8.1",
                    "10.0.7",
                    "10.0.7.010",
                    "0xa.0.7.1",
                    "::a00:701",
                    "10.0.7.1.lan",
                ],
            ),
            ("10.0.7.9/24", vec!["10.0.7.1"], vec!["10.0.6.1"]),
            (
                "127.0.0.1",
                vec!["127.0.0.1"],
                vec!["127.0.0.2", "localhost", "2130706433", "127.1"],
            ),
            ("fd00::/8", vec!["fd12::1"], vec!["fe80::1", "253.0.0.1"]),
            ("0.0.0.0/0", vec!["1.2.3.4"], vec!["::1", "host"]),
        ] {
            let places = StreamPlaces {
                hosts: Some(vec![Hosts::parse(named).unwrap()]),
                folders: Vec::new(),
            };
            assert!(yes.iter().all(|host| places.allows_host(host)), "{named}");
            assert!(no.iter().all(|host| !places.allows_host(host)), "{named}");
        }
        assert!(StreamPlaces::default().allows_host("host"));
    }

    #[test]
    fn other_texts_are_no_hosts() {
        for text in [
            "",
            "*.",
            "http://a",
            "a:554",
            "10.0.0.0/33",
            "::/129",
            "a/8",
            "a*b",
            "u@a",
            "10.0.0.0/x",
        ] {
            assert!(Hosts::parse(text).is_err(), "{text}");
        }
    }
}
