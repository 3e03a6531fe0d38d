//! What can be reserved: shares of devices, links of servers, and the pooled pipelines that run over them.

use serde::{Deserialize, Serialize};

use crate::id::ModuleId;
use crate::profile::Profile;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// As an index into a table of these.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A share of a device: it runs one batch of its stage at a time.
    ShareId
);
id!(
    /// A server: its devices share one uplink and one downlink.
    ServerId
);
id!(
    /// A pooled pipeline.
    PipelineId
);

/// A server's links.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Bits a second each way.
    pub bandwidth_bps: u64,
}

/// Where a share is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSpec {
    /// On which server.
    pub server: ServerId,
    /// Its device, numbered over the cluster: shares of one device run side by side.
    pub device: u32,
    /// The device's class.
    pub class: String,
}

/// One stage of a pipeline.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSpec {
    /// First block and the block after the last.
    pub blocks: (u32, u32),
    /// Its pool.
    pub shares: Vec<ShareId>,
    /// How long a batch takes, by its size.
    pub profile: Profile,
    /// Bytes an item that it receives over the links; zero for the first stage.
    pub received_bytes: u64,
}

/// A pooled pipeline of one module's model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineSpec {
    /// Whose model it runs.
    pub module: ModuleId,
    /// The planned batch size, which no batch exceeds.
    pub batch: u32,
    /// Its stages.
    pub stages: Vec<StageSpec>,
}

/// All that can be reserved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// Servers by id.
    pub servers: Vec<ServerSpec>,
    /// Shares by id.
    pub shares: Vec<ShareSpec>,
    /// Pipelines by id.
    pub pipelines: Vec<PipelineSpec>,
}
