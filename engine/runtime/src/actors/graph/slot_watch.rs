//! Slots taken out of use while work on them is overdue, and back when it returns.

use weir_types::SlotId;

use super::module_site::ModuleSite;
use super::overdue::SlotWatch;
use super::site::Shared;
use crate::telemetry;

impl ModuleSite {
    /// Counts a tick for all work on slots. Gives the slots on which work becomes overdue.
    pub(super) fn watch_slots(&mut self, shared: &mut Shared) -> Vec<SlotId> {
        let batches = self.running.values_mut().filter_map(|batch| batch.watch.as_mut());
        let watches = batches.chain(self.instances.watches());
        let overdue: Vec<SlotWatch> = watches.filter_map(SlotWatch::on_tick).collect();
        for SlotWatch {
            slot, expected, ran, ..
        } in &overdue
        {
            let module = &self.setup.name;
            tracing::error!(
                module,
                slot = slot.0,
                "a batch of module {module} has not ended after {:.0} s, and {expected} were expected: its model may hang; the slot \
                 is out of use until it ends",
                ran.as_secs_f64()
            );
            telemetry::record_batch_overdue(module);
            shared.overdue.add(*slot);
        }
        overdue.into_iter().map(|watch| watch.slot).collect()
    }

    /// Work that was overdue on a slot has returned; says whether the slot is free of such work, and comes back.
    pub(super) fn on_overdue_returned(&self, slot: SlotId, shared: &mut Shared) -> bool {
        let module = &self.setup.name;
        tracing::error!(
            module,
            slot = slot.0,
            "the batch of module {module} that was overdue has ended"
        );
        shared.overdue.remove(slot)
    }
}
