//! Gears (KEN): the cascade that answers depends on the load. A plan (`weir_types::GearPlan`) has the cascade
//! of each gear and how its stages are invoked. [`GearShift`] decides the gear in force. Replicas have queues, shares and
//! triggers in the mailboxes of their module (`module/routed.rs`); [`Replicas`] has them in the planner's own simulation,
//! which drops nothing.

mod emulated;
mod fallback;
mod invocation;
mod load;
mod plan;
mod replicas;
mod settle;
mod shift;
mod shift_rule;
mod stage_settings;
mod tally;

pub use emulated::{EMULATED_REGIONS, MAX_EMULATED_REGIONS, emulated_certainty, emulated_regions};
pub use fallback::Fallback;
pub use invocation::InvocationSize;
pub use plan::{GearNode, Gears, StageSetting};
pub use replicas::{Invocation, Replicas};
pub use settle::{Settle, StageRule, Verdict, is_accepted};
pub use shift::{GearEffect, GearEvent, GearShift};
pub use shift_rule::{BacklogRule, ShiftBy, ShiftDown, ShiftRule, ShiftScope, ShiftSpec};
pub use stage_settings::StageSettings;
pub use tally::GearTally;
