//! Pure decisions: `(event, now) -> effects`.
//!
//! Nothing here does I/O, reads a clock, spawns, or iterates in hash order; randomness comes from a seeded generator
//! that is handed in. The live engine and the simulator are two drivers around what is here.

mod id;
mod time;
mod values;

pub use id::{BatchId, ModuleId, RequestId, SlotId, StreamId};
pub use time::{BadSpan, Span, Timestamp};
pub use values::{
    Arbitration, Budget, DropRule, Forming, Lookahead, Order, OverloadControl, Policy, Split,
};
