//! Losses of batches and requests, counted by their kinds. Each kind is logged at powers of two.

use std::collections::BTreeMap;

use weir_types::SlotId;

use crate::telemetry;

/// Kinds of losses that are counted apart: reasons may hold numbers, so there may be as many kinds as losses.
const MAX_LOSS_KINDS: usize = 64;

/// Losses of a graph, by module and reason.
#[derive(Debug, Default)]
pub(super) struct LossCounts(BTreeMap<(String, String), u64>);

impl LossCounts {
    /// A batch was lost. Its worker has discarded the session and builds a new one for the next batch.
    pub(super) fn on_batch_lost(&mut self, module: &str, slot: SlotId, reason: &str) {
        telemetry::record_batches_lost(module, 1);
        if let Some(times) = self.count(module, reason) {
            tracing::warn!(module, slot = slot.0, times, "batch lost: {reason}");
        }
    }

    /// A request was lost outside a batch, or a batch on its path.
    pub(super) fn on_request_lost(&mut self, module: &str, reason: &str) {
        if let Some(times) = self.count(module, reason) {
            tracing::warn!(module, times, "request lost: {reason}");
        }
    }

    /// Counts a loss of its kind; gives the count where it is to be logged: at 1, 2, 4 and so on.
    fn count(&mut self, module: &str, reason: &str) -> Option<u64> {
        let kind = (module.to_owned(), reason.to_owned());
        let kind = if self.0.len() < MAX_LOSS_KINDS || self.0.contains_key(&kind) {
            kind
        } else {
            (module.to_owned(), String::new())
        };
        let count = self.0.entry(kind).or_default();
        *count += 1;
        count.is_power_of_two().then_some(*count)
    }
}
