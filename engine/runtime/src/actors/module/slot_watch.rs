//! Slots taken out of use while work on them is overdue, and back when it returns.

use weir_policy::SlotEvent;
use weir_types::SlotId;

use super::ModuleActor;
use super::overdue::SlotWatch;
use crate::actors::messages::ArbiterEvent;
use crate::telemetry;

impl ModuleActor {
    /// Counts a tick for all work on slots, and takes slots out of use on which it is overdue.
    pub(super) fn watch_slots(&mut self) {
        let batches = self.running.values_mut().filter_map(|batch| batch.watch.as_mut());
        let watches = batches.chain(self.instances.watches());
        let overdue: Vec<SlotWatch> = watches.filter_map(SlotWatch::on_tick).collect();
        for SlotWatch {
            slot, expected, ran, ..
        } in overdue
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
            self.setup.actors.overdue.add(slot);
            let slots = &self.setup.actors.slots;
            slots.do_send(ArbiterEvent(SlotEvent::Down { slot }));
        }
    }

    /// Work that was overdue on a slot has returned.
    pub(super) fn on_overdue_returned(&self, slot: SlotId) {
        let module = &self.setup.name;
        tracing::error!(
            module,
            slot = slot.0,
            "the batch of module {module} that was overdue has ended"
        );
        if self.setup.actors.overdue.remove(slot) {
            let slots = &self.setup.actors.slots;
            slots.do_send(ArbiterEvent(SlotEvent::Up { slot }));
        }
    }
}
