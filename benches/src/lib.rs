//! Common parts of the benchmarks: medians with confidence intervals, the overheads of PARD's decisions, and measurements from
//! event logs.

pub mod event_log;
pub mod median;
pub mod pard;
