//! Additions of rule `weir` to PARD, one idea in each file, with its formula. README.md describes all, and
//! ideas that were rejected.

pub(crate) mod branch_load;
pub(crate) mod branch_shedding;
pub(crate) mod cost_limit;
pub(crate) mod duration_spread;
pub(crate) mod fair_streams;
pub(crate) mod joint_batching;
pub(crate) mod slack;
pub(crate) mod stagger;
