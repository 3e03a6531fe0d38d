//! What keeps frames of a stream together and in order, and bounds how many are in flight.

pub(crate) mod concurrency_limit;
pub(crate) mod join;
pub(crate) mod reorder;
