//! Flow control of streams: concurrency limits, shares under overload, joins of branches, reordering of results.

pub(crate) mod concurrency_limit;
pub(crate) mod join;
pub(crate) mod reorder;
pub(crate) mod stream_shares;
