//! Gears (KEN): the cascade that answers depends on the load. A plan (`weir_types::GearPlan`) has the cascade
//! of each gear and how its stages are invoked. At run time are decided the gear in force ([`GearShift`]),
//! the replica that takes an item, and the time at which a replica runs ([`Replicas`]).

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
pub use shift_rule::{ShiftDown, ShiftRule, ShiftScope, ShiftSpec};
pub use stage_settings::StageSettings;
pub use tally::GearTally;
