//! The books of a run: how every request ended, what modules did, and the report of both.

pub(crate) mod ledger;
pub(crate) mod report;
