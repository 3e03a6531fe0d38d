//! What is scheduled for streams happens: modules get the facts that they get live, at the same moments.

use weir_control::{BooksMessage, Message};
use weir_policy::ModuleEvent;
use weir_types::ModuleId;

use super::Site;
use crate::scheduled::ChangeKind;

impl Site<'_> {
    /// The change by its index. Whether the stream is there shows in its arrivals; what else it is, here.
    pub(super) fn on_stream_changed(&mut self, index: usize, messages: &mut Vec<Message>) {
        let Some(&change) = self.spec.changes.get(index) else {
            return;
        };
        let stream = change.stream;
        match change.kind {
            ChangeKind::Added | ChangeKind::Paused | ChangeKind::Resumed => {}
            ChangeKind::Removed => messages.push(Message::Books(BooksMessage::RemoveStream(stream))),
            ChangeKind::Slo(slo) => {
                if let Some(own) = self.own_slo.get_mut(stream.index()) {
                    *own = slo;
                }
            }
            ChangeKind::Share(share) => {
                for module in (0..self.spec.modules.len() as u32).map(ModuleId) {
                    let changed = ModuleEvent::StreamShareChanged { stream, share };
                    self.send(Message::fact(module, changed), messages);
                }
            }
        }
    }
}
