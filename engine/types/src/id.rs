//! Names of things within one run. Ties are broken by them, so that every run of the same events decides the same.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

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
    /// One request: a frame on its way, numbered by arrival over all streams.
    RequestId(u64)
);
id!(
    /// One stream (source), by its place in the graph.
    StreamId(u32)
);
id!(
    /// One module, by its place in the topological order of the graph.
    ModuleId(u32)
);
id!(
    /// One slot, numbered over all devices.
    SlotId(u32)
);
id!(
    /// One batch of one module, numbered as they are run.
    BatchId(u64)
);
