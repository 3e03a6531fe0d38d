//! The engine in virtual time: the decisions of `weir-policy`, line for line, driven by one event heap instead of actors
//! and threads.

pub mod bound;
