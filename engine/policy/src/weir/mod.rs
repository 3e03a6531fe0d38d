//! What the policy `weir` adds to PARD: each file one idea, with its formula and its test.

pub(crate) mod branch_load;
pub(crate) mod branch_shedding;
pub(crate) mod cost_limit;
pub(crate) mod joint_batching;
pub(crate) mod slack;
pub(crate) mod stagger;
