//! Connections to servers of NATS of which nothing is read beyond bounds.
//!
//! The client of NATS keeps what a server sends until a message is whole, however large the server says that it is. So it gets no
//! connection to a server: it connects to a [`Relay`] on loopback, which connects to the server, encrypts, and passes on what keeps
//! to the bounds of [`Limits`]. A server that does not is cut off, with the reason in [`Relay::failure`].
//!
//! Others on this machine can connect to the relay as well. They get no further than the server's greeting: the client shows a
//! name that only its own process knows.

mod framing;
mod relay;
mod tls;

pub use framing::Limits;
pub use relay::{Failure, Relay, Server};
pub use tls::{TlsConfig, tls};

#[cfg(test)]
#[path = "../../../tests/shared/edited.rs"]
mod edited;
