//! What the rule `weir` adds to PARD, one idea a file, with its formula. README.md has the whole, and what was not kept.

pub(crate) mod branch_load;
pub(crate) mod branch_shedding;
pub(crate) mod cost_limit;
pub(crate) mod duration_spread;
pub(crate) mod fair_streams;
pub(crate) mod joint_batching;
pub(crate) mod slack;
pub(crate) mod stagger;
