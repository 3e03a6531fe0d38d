//! Accounting of a run: outcomes of requests, statistics of modules, and the report of both.

pub(crate) mod efficiency;
pub(crate) mod ledger;
pub(crate) mod processor;
pub(crate) mod report;
pub(crate) mod residency;
pub(crate) mod transform_report;
