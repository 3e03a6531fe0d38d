//! Requests that come in: counted, turned away, passed through or put into a mailbox.

use rand::RngExt;

use super::queues::Entry;
use super::{Module, ModuleEffect};
use crate::broker::DropReason;
use crate::fair;
use crate::id::RequestId;
use crate::time::Timestamp;

impl Module {
    /// A request has come; one that is here already comes only once.
    pub(super) fn arrived(
        &mut self,
        request: RequestId,
        mut entry: Entry,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        if self.queues.of(request).is_some() {
            return;
        }
        let (stream, items) = (entry.stream, entry.items);
        self.load.brought(stream, items);
        self.tell_streams(now, effects);
        if items == 0 {
            effects.push(ModuleEffect::Forward { request });
            return;
        }
        self.load.arrived(items, now);
        self.foresee(stream, now);
        if entry.droppable && self.turns_away() {
            effects.push(ModuleEffect::Drop {
                request,
                reason: DropReason::TurnedAway,
            });
            return;
        }
        entry.key = self.key(request, &entry);
        entry.dear = self.is_dear(stream, items);
        let mailbox = if self.queues.mailboxes() > 1 {
            self.workers.in_turn()
        } else {
            0
        };
        self.queues.insert(request, entry, mailbox);
        self.touch(mailbox);
    }

    /// Whether a newcomer is turned away by chance (`oc`).
    fn turns_away(&mut self) -> bool {
        let share = self.outlook.turn_away.clamp(0.0, 1.0);
        share > 0.0 && self.random.random_bool(share)
    }

    /// What a request is ordered by: its deadline, moved by lot so that those about equally urgent share the losses; or
    /// its arrival.
    fn key(&self, request: RequestId, entry: &Entry) -> Timestamp {
        if self.priority.by_arrival() {
            return entry.arrived_at;
        }
        let deadline = entry.sent_at + self.spec.slo;
        if !entry.droppable || !self.spec.policy.fair {
            return deadline;
        }
        // The margin is spread by lots, too.
        let near = if self.keeps_margin() {
            fair::CLOSE
        } else {
            fair::NEAR
        };
        deadline + (self.spec.slo / near).scale(fair::lot(request))
    }
}
