//! Location of a queue: a folder, or a name on a NATS server.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use crate::error::QueueError;

/// Maximum length of a queue's name on a server.
const MAX_NAME: usize = 64;

/// Location of a queue.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum QueuePlace {
    /// A folder, which one engine at a time can open.
    Folder(PathBuf),
    /// A server, which serves any number of engines.
    Server(ServerPlace),
}

/// A queue on a server.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerPlace {
    host: String,
    port: u16,
    name: String,
}

/// Authentication at a server and verification of its certificate. Secrets are given only as files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ServerOptions {
    /// User name, for authentication by password.
    pub username: Option<String>,
    /// File with the password.
    pub password_file: Option<PathBuf>,
    /// Credentials file made by NATS, instead of user name and password.
    pub credentials_file: Option<PathBuf>,
    /// PEM file with trusted certificate authorities; `None`: those of the system.
    pub ca_file: Option<PathBuf>,
    /// PEM file with the client certificate; needs its key.
    pub certificate_file: Option<PathBuf>,
    /// PEM file with the key of the client certificate.
    pub key_file: Option<PathBuf>,
}

impl QueuePlace {
    /// Parses a path: an address if it has a scheme, else a folder.
    ///
    /// # Errors
    /// [`QueueError::Address`].
    pub fn of(path: &Path) -> Result<Self, QueueError> {
        let address = path.to_str().and_then(|text| text.split_once("://"));
        let Some((scheme, rest)) = address else {
            return Ok(Self::Folder(path.to_owned()));
        };
        let place = (scheme == "nats").then(|| ServerPlace::of(rest)).flatten();
        place.map(Self::Server).ok_or(QueueError::Address)
    }
}

impl ServerPlace {
    fn of(text: &str) -> Option<Self> {
        let (authority, name) = text.split_once('/')?;
        let (host, port) = authority.rsplit_once(':')?;
        let port = port.parse().ok().filter(|port| *port > 0)?;
        let in_brackets = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = match in_brackets {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(|c| c.is_alphanumeric() || "-_.".contains(c)),
        };
        let is_name = (1..=MAX_NAME).contains(&name.len())
            && name
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_".contains(c));
        (is_host && is_name).then(|| Self {
            host: host.to_owned(),
            port,
            name: name.to_owned(),
        })
    }

    /// The name of the queue.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The server, with its port.
    #[must_use]
    pub fn authority(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// The server's name or address, that of IPv6 without brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }

    /// The server's port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// True if only this machine can reach the server.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        let bare = self.host();
        match bare.parse::<IpAddr>() {
            Ok(address) => address.is_loopback(),
            Err(_) => bare.eq_ignore_ascii_case("localhost"),
        }
    }
}

impl fmt::Display for ServerPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "nats://{}/{}", self.authority(), self.name)
    }
}

impl fmt::Display for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(folder) => folder.display().fmt(f),
            Self::Server(server) => server.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_has_a_scheme_is_a_server_and_all_else_a_folder() {
        let check = |text: &str, expected: Option<(&str, bool)>| {
            let found = match QueuePlace::of(Path::new(text)) {
                Ok(QueuePlace::Server(server)) => Some((server.to_string(), server.is_loopback())),
                Ok(QueuePlace::Folder(_)) => panic!("{text} is a folder"),
                Err(_) => None,
            };
            let found = found
                .as_ref()
                .map(|(text, is_loopback)| (text.as_str(), *is_loopback));
            assert_eq!(found, expected, "{text}");
        };
        for (text, is_loopback) in [
            ("nats://127.0.0.1:4222/jobs", true),
            ("nats://localhost:4222/jobs", true),
            ("nats://[::1]:4222/jobs", true),
            ("nats://nats.lan:4222/night-shift_2", false),
        ] {
            check(text, Some((text, is_loopback)));
        }
        let long = format!("nats://a:4222/{}", "n".repeat(65));
        for text in [
            "nats://a/jobs",
            "nats://a:4222",
            "nats://a:4222/",
            "nats://a:0/jobs",
            "nats://a:4222/jobs/more",
            "nats://a:4222/a.b",
            "nats://user:password@a:4222/jobs",
            "http://a:4222/jobs",
            long.as_str(),
        ] {
            check(text, None);
        }
        let error = QueuePlace::of(Path::new("nats://user:secret@a:1/b")).expect_err("refused");
        assert!(!error.to_string().contains("secret"), "{error}");
        for text in ["jobs", "../jobs", "/nats:/a"] {
            let folder = QueuePlace::Folder(PathBuf::from(text));
            assert_eq!(QueuePlace::of(Path::new(text)).ok(), Some(folder), "{text}");
        }
    }
}
