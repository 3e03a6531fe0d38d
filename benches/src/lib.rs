//! Benchmarks.

pub mod pard;
