//! Requests that are in a module, and the order in which those of them that wait become urgent.

use std::collections::{BTreeMap, BTreeSet};

use crate::id::RequestId;
use crate::time::Timestamp;

/// One request in one module.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    /// Its key in the mailbox.
    pub(super) key: Timestamp,
    pub(super) sent_at: Timestamp,
    pub(super) arrived_at: Timestamp,
    pub(super) items: u32,
    /// Items that were put into batches.
    pub(super) bound: u32,
    /// Items that were put on a slot.
    started: u32,
    /// Items that came back.
    done: u32,
    pub(super) droppable: bool,
}

impl Entry {
    pub(super) fn new(
        key: Timestamp,
        sent_at: Timestamp,
        arrived_at: Timestamp,
        items: u32,
        droppable: bool,
    ) -> Self {
        Self {
            key,
            sent_at,
            arrived_at,
            items,
            bound: 0,
            started: 0,
            done: 0,
            droppable,
        }
    }

    /// Items that still wait for a batch.
    pub(super) fn waiting(&self) -> u32 {
        self.items - self.bound
    }
}

/// All requests in a module.
#[derive(Debug, Clone, Default)]
pub(super) struct Entries {
    all: BTreeMap<RequestId, Entry>,
    /// Those with items that do not run yet and that may be let go, by sending time, that is by deadline.
    urgent: BTreeSet<(Timestamp, RequestId)>,
    /// Those of which some items are bound and some are not: they go first, what was begun is to be finished.
    begun: BTreeSet<(Timestamp, RequestId)>,
    waiting_items: u64,
}

impl Entries {
    pub(super) fn insert(&mut self, request: RequestId, entry: Entry) {
        self.remove(request);
        if entry.droppable {
            self.urgent.insert((entry.sent_at, request));
        }
        self.waiting_items += u64::from(entry.waiting());
        self.all.insert(request, entry);
    }

    pub(super) fn remove(&mut self, request: RequestId) -> Option<Entry> {
        let entry = self.all.remove(&request)?;
        self.urgent.remove(&(entry.sent_at, request));
        self.begun.remove(&(entry.sent_at, request));
        self.waiting_items -= u64::from(entry.waiting());
        Some(entry)
    }

    pub(super) fn of(&self, request: RequestId) -> Option<Entry> {
        self.all.get(&request).copied()
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Items that wait for a batch.
    pub(super) fn waiting_items(&self) -> u64 {
        self.waiting_items
    }

    /// Binds up to `room` items of `request`; gives the first of them and how many.
    pub(super) fn bind(&mut self, request: RequestId, room: u32) -> (u32, u32) {
        let Some(entry) = self.all.get_mut(&request) else {
            return (0, 0);
        };
        let (first, count) = (entry.bound, entry.waiting().min(room));
        entry.bound += count;
        self.waiting_items -= u64::from(count);
        let place = (entry.sent_at, request);
        if entry.waiting() == 0 {
            self.begun.remove(&place);
        } else {
            self.begun.insert(place);
        }
        (first, count)
    }

    /// Counts `items` as running: when nothing of a request is left to run, it is no longer to be let go.
    pub(super) fn started(&mut self, request: RequestId, items: u32) {
        if let Some(entry) = self.all.get_mut(&request) {
            entry.started += items;
            if entry.started >= entry.items {
                self.urgent.remove(&(entry.sent_at, request));
            }
        }
    }

    /// The most urgent request of which a part is bound and a part waits.
    pub(super) fn begun(&self) -> Option<RequestId> {
        self.begun.first().map(|(_, request)| *request)
    }

    /// The request with the least budget among those that do not run yet, bound or not, and may be let go.
    pub(super) fn most_urgent_waiting(&self) -> Option<(RequestId, Entry)> {
        let (_, request) = self.urgent.first()?;
        self.all.get(request).map(|entry| (*request, *entry))
    }

    /// Counts `items` as come back; gives the entry when they were the last.
    pub(super) fn done(&mut self, request: RequestId, items: u32) -> Option<Entry> {
        let entry = self.all.get_mut(&request)?;
        entry.done += items;
        if entry.done < entry.items {
            None
        } else {
            self.remove(request)
        }
    }
}
