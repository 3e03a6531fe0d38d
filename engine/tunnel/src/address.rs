//! Addresses of nodes.

use std::fmt;

/// Host and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    /// Name, or address without brackets.
    pub host: String,
    /// Port of TCP.
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}
