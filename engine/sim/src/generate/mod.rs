//! Models that generate token by token, in virtual time: instances by their step times, and a router before them.

mod cluster;
mod driver;
mod lengths;
mod published;
#[cfg(test)]
mod tests;

pub use cluster::{
    GenerateCluster, GenerateClusterError, GenerateOutcome, GenerateRequest, GenerateResult, MoveBy,
    MoveLink, Predict, simulate_cluster, simulate_predicted,
};
pub use driver::{InstanceDriver, Placed, SequenceNews};
pub use lengths::{LengthRule, Lengths};
pub use published::{PublishedError, published_instance, smoothed};
