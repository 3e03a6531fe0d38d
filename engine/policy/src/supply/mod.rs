//! The number of workers of a module.

pub(crate) mod pool;
pub(crate) mod scaling;
