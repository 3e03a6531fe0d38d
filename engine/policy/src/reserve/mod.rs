//! Reservations: spans of time on device shares and links, and which batch goes where (PPipe 5.4, A.3).

mod ask;
mod spec;

pub use ask::Ask;
pub use spec::{ClusterSpec, PipelineId, PipelineSpec, ServerId, ServerSpec, ShareId, ShareSpec, StageSpec};
