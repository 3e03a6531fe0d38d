//! Settings of a node: its listening address, the nodes to which it connects, and its certificates.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use crate::error::FabricError;
use crate::identity::Identity;

/// Default limit of a message in bytes; the features of a batch take a few MiB.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// An address of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    host: String,
    port: u16,
}

impl Endpoint {
    /// True if only this machine can reach the address.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        match self.host.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => self.host.eq_ignore_ascii_case("localhost"),
        }
    }

    /// The host, without the brackets of an IPv6 address.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// TCP port of the endpoint.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl FromStr for Endpoint {
    type Err = FabricError;

    fn from_str(text: &str) -> Result<Self, FabricError> {
        let wrong = || FabricError::Address(text.to_owned());
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_address = bare.is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
        let host = bare.unwrap_or(host);
        let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        let is_host = is_address || (!host.is_empty() && bare.is_none() && host.chars().all(is_allowed));
        let port: u16 = port.parse().map_err(|_| wrong())?;
        if !is_host || port == 0 {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

/// Files with the certificates of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Certificates {
    /// The certificate of the fleet's authority.
    pub authority: PathBuf,
    /// The certificate of the node.
    pub certificate: PathBuf,
    /// File of its private key.
    pub key: PathBuf,
}

impl Certificates {
    /// Certificates of a node in a folder made by `weir fleet keys`.
    #[must_use]
    pub fn in_folder(folder: &Path, node: &str) -> Self {
        Self {
            authority: folder.join("authority.pem"),
            certificate: folder.join(format!("{node}.pem")),
            key: folder.join(format!("{node}.key")),
        }
    }

    /// Checks that the files exist, and that the key is readable only by its owner.
    ///
    /// # Errors
    /// [`FabricError::Certificate`].
    pub fn check(&self) -> Result<(), FabricError> {
        for path in [&self.authority, &self.certificate, &self.key] {
            let wrong = |reason: String| FabricError::Certificate {
                path: path.clone(),
                reason,
            };
            let metadata = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?;
            if !metadata.is_file() {
                return Err(wrong("it is no file".to_owned()));
            }
            #[cfg(unix)]
            if *path == self.key {
                use std::os::unix::fs::PermissionsExt;
                let mode = metadata.permissions().mode() & 0o777;
                if mode & 0o077 != 0 {
                    return Err(wrong(format!("others may read it (mode {mode:o}): chmod 600 it")));
                }
            }
        }
        Ok(())
    }
}

/// Settings of a node.
#[derive(Debug, Clone)]
pub struct FabricSettings {
    /// Address on which it listens; `None`: other nodes cannot connect to it.
    pub listen: Option<Endpoint>,
    /// Nodes to which it connects; failed connections are retried for ever.
    pub connect: Vec<Endpoint>,
    /// Names of all nodes of the fleet; with certificates, other nodes are refused.
    pub nodes: Vec<String>,
    /// Certificates by which nodes authenticate each other; required off loopback.
    pub certificates: Option<Certificates>,
    /// Limit of a message in bytes, header included.
    pub max_message_bytes: usize,
}

impl FabricSettings {
    /// A node that is on no network yet.
    #[must_use]
    pub fn new(nodes: Vec<String>) -> Self {
        Self {
            listen: None,
            connect: Vec::new(),
            nodes,
            certificates: None,
            max_message_bytes: MAX_MESSAGE_BYTES,
        }
    }

    /// Checks that a node may be opened with them.
    ///
    /// # Errors
    /// [`FabricError`]: an address off loopback without certificates, files that cannot be used, a name that the fleet lacks.
    pub fn check(&self, identity: &Identity) -> Result<(), FabricError> {
        let id = &identity.member().id;
        if !self.nodes.contains(id) {
            return Err(FabricError::NotOfFleet(id.clone()));
        }
        match &self.certificates {
            Some(certificates) => certificates.check(),
            None => {
                let mut addresses = self.listen.iter().chain(&self.connect);
                match addresses.find(|endpoint| !endpoint.is_loopback()) {
                    Some(endpoint) => Err(FabricError::NotLoopback(endpoint.to_string())),
                    None => Ok(()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

    use super::*;
    use crate::identity::Kind;

    #[test]
    fn addresses_are_a_host_and_a_port() {
        let check = |text: &str, loopback: Option<bool>| {
            let endpoint = text.parse::<Endpoint>();
            assert_eq!(
                endpoint.as_ref().ok().map(Endpoint::is_loopback),
                loopback,
                "{text}"
            );
            if let Ok(endpoint) = endpoint {
                assert_eq!(endpoint.to_string(), text);
            }
        };
        check("127.0.0.1:7447", Some(true));
        check("127.3.0.1:1", Some(true));
        check("[::1]:7447", Some(true));
        check("localhost:7447", Some(true));
        check("0.0.0.0:7447", Some(false));
        check("[::]:7447", Some(false));
        check("10.0.0.1:7447", Some(false));
        check("north.example:7447", Some(false));
        check("localhost.example:7447", Some(false));
        for bad in [
            "",
            "north",
            "north:",
            ":7447",
            "north:0",
            "north:70000",
            "a b:1",
            "tls/a:1",
            "[north]:1",
            "::1:7",
        ] {
            check(bad, None);
        }
    }

    #[test]
    fn other_machines_are_reached_with_certificates_alone() {
        let identity = Identity::new("site", Kind::Engine, "north").unwrap();
        let mut settings = FabricSettings::new(vec!["north".to_owned()]);
        settings.listen = Some("127.0.0.1:7447".parse().unwrap());
        assert!(settings.check(&identity).is_ok());
        settings.connect = vec!["10.0.0.2:7447".parse().unwrap()];
        let error = settings.check(&identity).unwrap_err().to_string();
        assert!(
            error.contains("10.0.0.2:7447") && error.contains("weir fleet keys"),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        settings.certificates = Some(Certificates::in_folder(folder.path(), "north"));
        let error = settings.check(&identity).unwrap_err().to_string();
        assert!(error.contains("authority.pem"), "{error}");
        settings.nodes = vec!["south".to_owned()];
        assert!(matches!(
            settings.check(&identity),
            Err(FabricError::NotOfFleet(_))
        ));
    }
}
