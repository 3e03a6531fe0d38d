//! The number of workers of a module.

pub(crate) mod scaling;
