//! What is scheduled for streams happens: modules get the facts that they get live, at the same moments.

use weir_policy::ModuleEvent;
use weir_types::{ModuleId, StreamId};

use super::World;
use crate::scheduled::ChangeKind;

impl World<'_> {
    /// The change by its index. Whether the stream is there shows in its arrivals; what else it is, here.
    pub(super) fn on_stream_changed(&mut self, index: usize) {
        let Some(&change) = self.spec.changes.get(index) else {
            return;
        };
        let stream = change.stream;
        match change.kind {
            ChangeKind::Added | ChangeKind::Paused | ChangeKind::Resumed => {}
            ChangeKind::Removed => {
                self.removed.insert(stream);
                self.complete_removal(stream);
            }
            ChangeKind::Slo(slo) => {
                if let Some(own) = self.own_slo.get_mut(stream.index()) {
                    *own = slo;
                }
            }
            ChangeKind::Share(share) => self.publish(|| ModuleEvent::StreamShareChanged { stream, share }),
        }
    }

    /// Informs the modules of a stream that was removed, once nothing of it is in flight.
    pub(super) fn complete_removal(&mut self, stream: StreamId) {
        if self.removed.contains(&stream) && self.ledger.stream(stream).in_flight == 0 {
            self.removed.remove(&stream);
            self.publish(|| ModuleEvent::StreamRemoved { stream });
        }
    }

    fn publish(&mut self, event: impl Fn() -> ModuleEvent) {
        for module in (0..self.modules.len() as u32).map(ModuleId) {
            self.send(module, event());
        }
    }
}
