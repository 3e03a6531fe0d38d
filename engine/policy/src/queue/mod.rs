//! Containers of requests: the double-ended priority queue of a mailbox, and a map of requests in flight.

pub(crate) mod depq;
pub(crate) mod request_map;
pub(crate) mod tie_break;
