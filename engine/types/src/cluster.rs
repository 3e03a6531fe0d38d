//! Resources that can be reserved: device shares, the links of servers, and the pooled pipelines over them
//! (PPipe 5.3).

use serde::{Deserialize, Serialize};

use crate::id::ModuleId;
use crate::profile::Profile;
use crate::time::Span;

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an index into a table.
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
id!(
    /// A partition worker, numbered in the order of the graph.
    WorkerId
);
id!(
    /// A partition, numbered by the engine over all plans: a new plan gives new numbers.
    PartitionId
);

/// The links of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerSpec {
    /// Bits a second of the uplink, and of the downlink.
    pub bandwidth_bps: u64,
}

/// The location of a share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShareSpec {
    /// The server of the device.
    pub server: ServerId,
    /// Index of the device in the cluster; shares of one device run concurrently.
    pub device: u32,
    /// Name of the device class.
    pub class: String,
}

/// Stage of a pipeline: a partition and its pool of shares.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct StageSpec {
    /// First block, and the block after the last.
    pub blocks: (u32, u32),
    /// The pool: the shares that run this stage.
    pub shares: Vec<ShareId>,
    /// Batch duration by batch size.
    pub profile: Profile,
    /// Input bytes per item that cross a link; zero for the first stage.
    pub received_bytes: u64,
}

/// A pooled pipeline of one module's model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PipelineSpec {
    /// Module whose model the pipeline runs.
    pub module: ModuleId,
    /// Planned batch size in items, and the upper bound of every batch.
    pub batch: u32,
    /// Stages in order.
    pub stages: Vec<StageSpec>,
}

/// Transfer time of `items` items of `bytes` bytes each over a link of `bandwidth_bps` bits a second that carries nothing else.
#[must_use]
pub fn transfer_time(bytes: u64, items: u32, bandwidth_bps: u64) -> Span {
    let bits = u128::from(bytes) * 8 * u128::from(items);
    let micros = (bits * 1_000_000).div_ceil(u128::from(bandwidth_bps.max(1)));
    Span::from_micros(u64::try_from(micros).unwrap_or(u64::MAX))
}

/// Everything that can be reserved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ClusterSpec {
    /// Servers by id.
    pub servers: Vec<ServerSpec>,
    /// Shares by id.
    pub shares: Vec<ShareSpec>,
    /// Pipelines by id.
    pub pipelines: Vec<PipelineSpec>,
}

impl ClusterSpec {
    /// First stage without a share that is up; `None` if every stage has one.
    pub fn stage_without(&self, is_up: impl Fn(ShareId) -> bool) -> Option<&StageSpec> {
        let mut stages = self.pipelines.iter().flat_map(|pipeline| &pipeline.stages);
        stages.find(|stage| !stage.shares.iter().any(|&share| is_up(share)))
    }
}
