//! No admission control: whatever arrives runs, however late.

use serde::{Deserialize, Serialize};
use weir_types::DropReason;

use crate::admission::{AdmissionRule, BatchView, Candidate};

/// Rule `none`: admits every request.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AdmitAll {}

impl AdmissionRule for AdmitAll {
    fn verdict(&self, _: &Candidate, _: &BatchView) -> Option<DropReason> {
        None
    }
}
