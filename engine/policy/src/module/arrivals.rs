//! Requests that arrive: counted, shed, passed through or put into a mailbox.

use rand::RngExt;
use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{DropReason, RequestId, StreamId, Timestamp};

use super::mailboxes::Entry;
use super::{Module, ModuleEffect};
use crate::queue::tie_break;

impl Module {
    /// A request has arrived. A request that is here already is a violation and ignored.
    pub(super) fn on_arrived(
        &mut self,
        request: RequestId,
        mut entry: Entry,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let is_new = self.mailboxes.get(request).is_none();
        if !invariant!(
            is_new,
            Kind::Items,
            "request {} arrives at module {}, where it is already",
            request.0,
            self.spec.id.0
        ) {
            return;
        }
        let (stream, items) = (entry.stream, entry.items);
        self.metrics.objectives.on_arrived(entry.slo, now);
        self.metrics.on_items(stream, items);
        self.publish_fan_out(now, effects);
        if items == 0 {
            effects.push(ModuleEffect::Forward { request });
            return;
        }
        self.metrics.on_arrived(items, now);
        self.peers.on_arrived(stream, now);
        if let Some(fair) = &mut self.fair {
            fair.on_arrived(stream, now);
        }
        if entry.droppable && self.sheds() {
            effects.push(self.drop_or_accept(request, DropReason::Shed, None));
            return;
        }
        entry.key = self.key(request, &entry, now);
        entry.deprioritized = self.is_deprioritized(stream, items);
        if self.strategies.newest && entry.droppable {
            self.supersede(request, &mut entry, now, effects);
        }
        let mailbox = self.mailbox_of_arrival(&entry, now);
        self.mailboxes.insert(request, entry, mailbox);
        self.wakeups.mark(mailbox);
    }

    /// Drops the waiting request of the stream; the new request takes its turn.
    fn supersede(
        &mut self,
        request: RequestId,
        entry: &mut Entry,
        now: Timestamp,
        effects: &mut Vec<ModuleEffect>,
    ) {
        let Some(before) = self.newest.replace(entry.stream, request) else {
            return;
        };
        let waiting = self.mailboxes.get(before);
        if let Some(waiting) = waiting.filter(|waiting| waiting.bound == 0) {
            entry.key = waiting.key;
            self.drop_request(before, DropReason::Superseded, None, now, effects);
        }
    }

    /// Whether an arriving request is shed at random (overload control).
    fn sheds(&mut self) -> bool {
        let share = self.peers.estimate().shed_share.clamp(0.0, 1.0);
        share > 0.0 && self.random.random_bool(share)
    }

    /// Whether a request brings too much at present: by its items here, or downstream by its stream's recent
    /// items. Never true for a stream with a reserve.
    fn is_deprioritized(&mut self, stream: StreamId, items: u32) -> bool {
        if self
            .shares
            .as_ref()
            .is_some_and(|shares| shares.has_reserve(stream))
        {
            return false;
        }
        if self.metrics.exceeds_cost_limit(items) {
            return true;
        }
        let excess = self.peers.shed_probability(stream);
        excess > 0.0 && self.random.random_bool(excess)
    }

    /// Sort key of a request: its deadline, with a random shift so that requests of about equal urgency share
    /// the losses; or its arrival under first-come, first-served. The shift follows the tightest objective:
    /// with a part of a long objective, a request would move behind others that are due after it.
    pub(super) fn key(&self, request: RequestId, entry: &Entry, now: Timestamp) -> Timestamp {
        if self.priority.is_fcfs() {
            return entry.arrived_at;
        }
        let deadline = entry.deadline();
        if !entry.droppable || !self.strategies.tie_break {
            return deadline;
        }
        let tightest = self.metrics.objectives.tightest(now);
        deadline + (tightest / self.strategies.jitter_divisor()).scale(tie_break::random_rank(request))
    }
}
