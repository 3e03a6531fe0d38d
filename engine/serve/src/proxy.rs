//! Reverse proxies whose headers are believed: the user that a proxy has authenticated, and the address and protocol of its client.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use axum::http::{HeaderMap, StatusCode};

use crate::error::ApiError;
use crate::role::{Identity, Role};

/// Longest name of a user that is taken from a header, in bytes.
const MAX_USER_BYTES: usize = 128;

/// Addresses of `X-Forwarded-For` that are looked at, from the last one on.
const MAX_FORWARDED: usize = 16;

/// Addresses with a common prefix, written `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    bits: u32,
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("\"{text}\" is no network: write an address such as 10.0.0.7, or 10.0.0.0/24");
        let (address, bits) = text
            .split_once('/')
            .map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let longest = width(address);
        let bits = bits.map_or(Ok(longest), str::parse).map_err(|_| wrong())?;
        if bits > longest {
            return Err(wrong());
        }
        Ok(Self { address, bits })
    }
}

const fn width(address: IpAddr) -> u32 {
    match address {
        IpAddr::V4(_) => 32,
        IpAddr::V6(_) => 128,
    }
}

impl Network {
    /// True if the address is in the network. An IPv4 address that is written as IPv6 counts as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        let differing = match (self.address.to_canonical(), address.to_canonical()) {
            (IpAddr::V4(own), IpAddr::V4(other)) => u128::from(own.to_bits() ^ other.to_bits()),
            (IpAddr::V6(own), IpAddr::V6(other)) => own.to_bits() ^ other.to_bits(),
            _ => return false,
        };
        let host_bits = width(self.address).saturating_sub(self.bits);
        differing.checked_shr(host_bits).unwrap_or(0) == 0
    }
}

/// Trusted reverse proxies, and the headers in which they name users.
#[derive(Debug, Clone, Default)]
pub struct ProxyOptions {
    /// Addresses of the proxies. Headers of other addresses are ignored.
    pub trusted: Vec<Network>,
    /// Header with the name of the authenticated user; `None`: proxies do not authenticate users.
    pub user_header: Option<String>,
    /// Header with the groups of the user, separated by commas.
    pub groups_header: Option<String>,
    /// Roles of groups. A user has the highest role of its groups.
    pub group_roles: Vec<(String, Role)>,
    /// Role of users without a group that has one; `None`: such users are refused.
    pub default_role: Option<Role>,
}

impl ProxyOptions {
    /// True if proxies name users, so that requests without a user or a token are refused.
    pub(crate) fn authenticates(&self) -> bool {
        !self.trusted.is_empty() && self.user_header.is_some()
    }

    /// True if the headers of this address are believed.
    pub(crate) fn trusts(&self, address: IpAddr) -> bool {
        self.trusted.iter().any(|network| network.contains(address))
    }

    /// Returns the user that a trusted proxy names; `None` if it names none.
    ///
    /// # Errors
    /// [`ApiError`] with status 403: the user has no role, or no usable name.
    pub(crate) fn user(&self, headers: &HeaderMap) -> Result<Option<Identity>, ApiError> {
        let Some(user) = self.user_header.as_ref().and_then(|header| headers.get(header)) else {
            return Ok(None);
        };
        let denied = |what: String| ApiError::with_status(StatusCode::FORBIDDEN, what);
        let is_name =
            |name: &&str| (1..=MAX_USER_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
        let name = std::str::from_utf8(user.as_bytes())
            .ok()
            .map(str::trim)
            .filter(is_name);
        let name = name.ok_or_else(|| denied("the proxy gives no usable name of its user".to_owned()))?;
        let role = self.role(headers).ok_or_else(|| {
            denied(format!("the user {name} has no role"))
                .hint("give a group of the user a role with --proxy-role GROUP=ROLE, or all users one with --proxy-role ROLE")
        })?;
        Ok(Some(Identity::new(name, role)))
    }

    fn role(&self, headers: &HeaderMap) -> Option<Role> {
        let groups = self.groups_header.iter();
        let groups = groups.flat_map(|header| headers.get_all(header));
        let groups = groups.filter_map(|groups| std::str::from_utf8(groups.as_bytes()).ok());
        let groups = groups.flat_map(|groups| groups.split(',')).map(str::trim);
        let of_group = |group: &str| {
            let roles = self.group_roles.iter();
            roles
                .filter(|(known, _)| known == group)
                .map(|(_, role)| *role)
                .max()
        };
        groups.filter_map(of_group).max().or(self.default_role)
    }

    /// Returns the address that a request came from: that of the connection, or the last one that trusted proxies forwarded for.
    pub(crate) fn client(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let forwarded = headers.get_all("x-forwarded-for").iter();
        let forwarded: Vec<&str> = forwarded
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .collect();
        let mut client = peer;
        for address in forwarded.iter().rev().take(MAX_FORWARDED) {
            match address_of(address.trim()) {
                Some(address) if self.trusts(client) => client = address,
                _ => break,
            }
        }
        client
    }
}

/// The address of an entry of `X-Forwarded-For`, behind which some proxies write the port.
fn address_of(entry: &str) -> Option<IpAddr> {
    let with_port = || entry.parse::<SocketAddr>().ok().map(|address| address.ip());
    let in_brackets = || entry.strip_prefix('[')?.strip_suffix(']')?.parse::<IpAddr>().ok();
    let address = entry.parse::<IpAddr>().ok();
    address.or_else(with_port).or_else(in_brackets)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        text.parse().unwrap()
    }

    #[test]
    fn networks_contain_addresses_with_their_prefix() {
        let contains = |text: &str, address: &str| network(text).contains(address.parse().unwrap());
        assert!(contains("10.0.0.0/8", "10.200.0.1") && !contains("10.0.0.0/8", "11.0.0.1"));
        assert!(contains("10.0.0.7", "10.0.0.7") && !contains("10.0.0.7", "10.0.0.6"));
        assert!(contains("10.0.0.7", "::ffff:10.0.0.7"));
        assert!(contains("2001:db8::/32", "2001:db8:1::1") && !contains("2001:db8::/32", "2001:db9::1"));
        assert!(contains("0.0.0.0/0", "192.0.2.1") && contains("::/0", "2001:db8::1"));
        assert!(!contains("0.0.0.0/0", "2001:db8::1"));
        for wrong in ["", "proxy", "10.0.0.0/33", "10.0.0.0/", "10.0.0/8", "::/129"] {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn user_has_the_highest_role_of_its_groups() {
        let mut options = ProxyOptions {
            trusted: vec![network("127.0.0.1")],
            user_header: Some("x-forwarded-user".to_owned()),
            groups_header: Some("x-forwarded-groups".to_owned()),
            group_roles: vec![
                ("guards".to_owned(), Role::Operate),
                ("admins".to_owned(), Role::Edit),
            ],
            default_role: None,
        };
        let mut headers = HeaderMap::new();
        assert!(options.user(&headers).unwrap().is_none());
        headers.insert("x-forwarded-user", "anna".parse().unwrap());
        assert!(options.user(&headers).is_err());
        headers.insert("x-forwarded-groups", "staff, guards".parse().unwrap());
        assert_eq!(
            options.user(&headers).unwrap().unwrap(),
            Identity::new("anna", Role::Operate)
        );
        headers.insert("x-forwarded-groups", "guards,admins".parse().unwrap());
        assert_eq!(options.user(&headers).unwrap().unwrap().role, Role::Edit);
        headers.insert("x-forwarded-groups", "staff".parse().unwrap());
        headers.append("x-forwarded-groups", "guards".parse().unwrap());
        assert_eq!(options.user(&headers).unwrap().unwrap().role, Role::Operate);
        headers.insert("x-forwarded-groups", "staff".parse().unwrap());
        options.default_role = Some(Role::View);
        assert_eq!(options.user(&headers).unwrap().unwrap().role, Role::View);
        headers.insert("x-forwarded-user", " ".parse().unwrap());
        assert!(options.user(&headers).is_err());
    }

    #[test]
    fn forwarded_addresses_are_believed_from_trusted_proxies_only() {
        let options = ProxyOptions {
            trusted: vec![network("10.0.0.0/24")],
            ..ProxyOptions::default()
        };
        let client = |peer: &str, forwarded: &str| {
            let mut headers = HeaderMap::new();
            headers.insert("x-forwarded-for", forwarded.parse().unwrap());
            options.client(peer.parse().unwrap(), &headers).to_string()
        };
        assert_eq!(client("10.0.0.1", "192.0.2.9"), "192.0.2.9");
        assert_eq!(
            client("10.0.0.1", "203.0.113.1, 192.0.2.9, 10.0.0.2"),
            "192.0.2.9"
        );
        assert_eq!(client("192.0.2.1", "203.0.113.1"), "192.0.2.1");
        assert_eq!(client("10.0.0.1", "unknown"), "10.0.0.1");
        // Gateways of Azure write ports.
        assert_eq!(client("10.0.0.1", "192.0.2.9:17085, 10.0.0.2:80"), "192.0.2.9");
        assert_eq!(client("10.0.0.1", "[2001:db8::9]:443"), "2001:db8::9");
        assert_eq!(client("10.0.0.1", "[2001:db8::9]"), "2001:db8::9");
        assert_eq!(client("10.0.0.1", "2001:db8::9"), "2001:db8::9");
    }
}
