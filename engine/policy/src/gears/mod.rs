//! Gears (KEN): which cascade answers by the load, and how its stages are invoked. A plan (`weir_types::GearPlan`) says all
//! of it; what is decided at run time is which gear is in force ([`GearShift`]), which replica takes an item, and when a
//! replica runs ([`Replicas`]).

mod emulated;
mod fallback;
mod invocation;
mod load;
mod plan;
mod replicas;
mod settle;
mod shift;
mod shift_rule;
mod tally;

pub use emulated::{EMULATED_REGIONS, MAX_EMULATED_REGIONS, emulated_certainty, emulated_regions};
pub use fallback::Fallback;
pub use invocation::InvocationSize;
pub use plan::{GearNode, Gears, StageSetting};
pub use replicas::{Invocation, Replicas};
pub use settle::{Settle, StageRule, Verdict, is_accepted};
pub use shift::{GearEffect, GearEvent, GearShift};
pub use shift_rule::{ShiftDown, ShiftRule, ShiftScope, ShiftSpec};
pub use tally::GearTally;
