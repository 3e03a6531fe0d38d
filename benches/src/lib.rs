//! Benchmarks.

pub mod median;
pub mod pard;
