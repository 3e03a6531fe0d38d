//! Applies scheduled changes of streams: modules receive the same facts at the same moments as in a live run.

use weir_control::{BooksMessage, Message};
use weir_policy::ModuleEvent;
use weir_types::ModuleId;

use super::Site;
use crate::scheduled::ChangeKind;

impl Site<'_> {
    /// Applies the change with this index. The start, pause and end of a stream show in its arrivals; this
    /// handles only the other effects.
    pub(super) fn on_stream_changed(&mut self, index: usize, messages: &mut Vec<Message>) {
        let Some(&change) = self.spec.changes.get(index) else {
            return;
        };
        let stream = change.stream;
        match change.kind {
            ChangeKind::Added | ChangeKind::Resumed => {}
            ChangeKind::Paused => self.streams.forget_waiting(stream),
            ChangeKind::Removed => {
                self.streams.forget_waiting(stream);
                messages.push(Message::Books(BooksMessage::RemoveStream(stream)));
            }
            ChangeKind::Slo(slo) => self.streams.set_slo(stream, slo, self.spec.slo),
            ChangeKind::Share(share) => {
                for module in (0..self.spec.modules.len() as u32).map(ModuleId) {
                    let changed = ModuleEvent::StreamShareChanged { stream, share };
                    self.send(Message::fact(module, changed), messages);
                }
            }
        }
    }
}
