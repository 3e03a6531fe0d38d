//! GPU of this machine: its facts, and the libraries that CUDA needs.

pub(crate) mod facts;
pub(crate) mod libraries;
