//! Several models on instances whose memory cannot hold all of them, in virtual time: the queues of
//! `weir-policy`, models that are loaded and unloaded, and steps by profile.

mod result;
#[cfg(test)]
mod tests;
mod workload;
mod world;

pub use result::{QueueOutcome, QueueResult};
pub use workload::{ClassSpec, MegaSpec, QueueRequest, QueueWorkload};
pub use world::{InstanceFault, QueueWorld, QueueWorldError, simulate_queues};
