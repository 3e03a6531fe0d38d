//! Common parts of the benchmarks: medians with confidence intervals, and the overheads of PARD's decisions.

pub mod median;
pub mod pard;
