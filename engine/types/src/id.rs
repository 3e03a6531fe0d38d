//! Ids within one run. Ties are broken by id, so that runs on the same events make the same decisions.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(transparent)]
        pub struct $name(pub $inner);

        impl $name {
            /// The id as an index into a table.
            #[must_use]
            #[inline]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }
    };
}

id!(
    /// A request: one frame in flight, numbered by arrival over all streams.
    RequestId(u64)
);
id!(
    /// A stream (source), numbered in the order of the graph.
    StreamId(u32)
);
id!(
    /// A module, numbered in the topological order of the graph.
    ModuleId(u32)
);
id!(
    /// A slot, numbered over all devices.
    SlotId(u32)
);
id!(
    /// A batch of one module, numbered in the order in which they start.
    BatchId(u64)
);
id!(
    /// A sequence: one prompt and what a model generates after it, numbered by arrival.
    SequenceId(u64)
);
id!(
    /// An instance: a slot or a worker that runs a model which generates, numbered over all devices of the model.
    InstanceId(u32)
);
id!(
    /// A model, numbered over all that may be opened.
    ModelId(u32)
);
id!(
    /// A group of requests, numbered in the order in which groups come to be.
    GroupId(u64)
);
