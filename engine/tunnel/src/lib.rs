//! TLS with certificates on both ends, in front of a transport that has none of its own.
//!
//! ```text
//! transport --- unix socket --- tunnel === TLS over TCP === tunnel --- unix socket --- transport
//! ```
//!
//! The transport listens and connects in a folder that its user alone can enter. The tunnel listens and connects on the network. Both
//! ends show a certificate of one authority, and the end that connects checks the host as well. A transport learns no names from such
//! a socket, so the tunnel reads the first message in each direction, and a [`Gate`] decides whether the name in the certificate may
//! send that message. The rest passes unread.
//!
//! Handshakes, connections and the time to end them are bounded. Connections that are refused are counted by the gate.

mod accept;
mod address;
mod certificates;
mod dial;
mod error;
mod folder;
mod link;
mod shared;
mod tunnel;

pub use address::Address;
pub use certificates::CertificateFiles;
pub use error::TunnelError;
pub use shared::{Gate, Opening};
pub use tunnel::{Tunnel, TunnelSettings};
