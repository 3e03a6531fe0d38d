//! Accounting of a run: outcomes of requests, statistics of modules, and the report of both.

pub(crate) mod efficiency;
pub(crate) mod ledger;
pub(crate) mod processor;
pub(crate) mod report;
pub(crate) mod residency;
pub(crate) mod transform_report;

/// Whether a count is 0, which reports leave out.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
pub(crate) fn is_zero(count: &u64) -> bool {
    *count == 0
}
