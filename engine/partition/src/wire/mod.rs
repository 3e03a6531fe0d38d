//! The protocol between the engine and partition workers, and between workers.
//!
//! A connection begins with eight bytes of magic and a version in each direction. A peer of another version
//! is refused with an error message. After that come frames: length, kind, body, little-endian. A length
//! above the limit is refused before anything is allocated, and buffers grow only with received bytes, so an
//! announced length alone costs nothing. Counts, shapes and lengths must agree; any contradiction is an
//! error, after which the connection cannot be trusted and is closed.
//!
//! Timestamps on the wire are on the engine's clock (see [`crate::Timebase`]).

mod body;
mod codes;
mod decode;
mod encode;
mod error;
mod frame;
mod generate;
mod message;
mod pieces;

pub use error::WireError;
pub use frame::{
    Limits, MAGIC, VERSION, read_message, read_preamble, wire_bytes, write_message, write_preamble,
};
pub use generate::InstanceStep;
pub use message::{
    Address, BatchFailure, BatchKey, Hop, LoadPartition, Message, PartitionId, Resource, StageInput,
    StageTimes, Usage, Welcome,
};

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
