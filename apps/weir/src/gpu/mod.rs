//! What a machine has for running models on its GPU, and whether that gives the same as the CPU, and how fast.

pub(crate) mod facts;
pub(crate) mod libraries;
