//! How many workers a module should have.

pub(crate) mod scaling;
