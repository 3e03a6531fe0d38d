//! All bookings, and their rescheduling by reported uses.
//!
//! Uses are ordered: on each resource by start, within a booking by stage. Each starts as soon as its predecessors in both
//! orders have ended. When a use is reported, its successors are rescheduled, earlier or later, and theirs in turn; since
//! every use starts after its predecessors, one pass in the order of starts is sufficient.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{ModuleId, PipelineId, ShareId, Span, Timestamp};

use super::api::{BookingId, Interval, PathStage, ResourceUse};
use super::booking_table::{BookedSpan, ResourceTable, UseKey};
use super::cluster_index::ClusterIndex;
use super::probe::Probe;

/// One use of a resource by a booking.
#[derive(Debug, Clone, Copy)]
struct BookedUse {
    key: UseKey,
    span: Interval,
    /// Expected length; `span` is longer if the use is overdue.
    length: Span,
    /// Indices of a share, or of an uplink and a downlink.
    resources: (usize, Option<usize>),
    ended: bool,
}

impl BookedUse {
    fn resources(&self) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(self.resources.0).chain(self.resources.1)
    }
}

/// A batch in flight.
#[derive(Debug, Clone)]
pub(super) struct Booking {
    pub(super) module: ModuleId,
    pub(super) pipeline: PipelineId,
    pub(super) size: u32,
    booked_at: Timestamp,
    path: Vec<PathStage>,
    uses: Vec<BookedUse>,
}

impl Booking {
    pub(super) fn finish(&self) -> Timestamp {
        self.uses
            .last()
            .map_or(Timestamp::ZERO, |resource_use| resource_use.span.to)
    }

    /// The share of a stage.
    pub(super) fn share(&self, stage: u32) -> Option<ShareId> {
        self.path.get(stage as usize).map(|stage| stage.share)
    }

    /// The stages as booked now.
    pub(super) fn path(&self) -> Vec<PathStage> {
        let mut path = self.path.clone();
        for resource_use in &self.uses {
            let stage = &mut path[resource_use.key.stage as usize];
            match resource_use.key.used {
                ResourceUse::Transfer => stage.transfer = Some(resource_use.span),
                ResourceUse::Run => stage.run = resource_use.span,
            }
        }
        path
    }
}

/// All bookings, and the tables of all resources.
#[derive(Debug, Clone)]
pub(super) struct Bookings {
    pub(super) tables: Vec<ResourceTable>,
    pub(super) all: BTreeMap<BookingId, Booking>,
    next: u64,
    /// Number of overlapping spans in all tables.
    overlaps: usize,
    /// Number of bookings after the last removal of ended ones.
    kept: usize,
    /// No first span of a table ends before this.
    overdue_from: Timestamp,
}

impl Bookings {
    pub(super) fn new(resources: usize) -> Self {
        Self {
            tables: vec![ResourceTable::default(); resources],
            all: BTreeMap::new(),
            next: 0,
            overlaps: 0,
            kept: 0,
            overdue_from: Timestamp::MAX,
        }
    }

    /// Books the probed path.
    pub(super) fn reserve(&mut self, cluster: &ClusterIndex, probe: &Probe, now: Timestamp) -> BookingId {
        let id = BookingId(self.next);
        self.next += 1;
        let overlaps = self.overlaps;
        let mut uses = Vec::with_capacity(2 * probe.path.len());
        let mut sender = 0;
        for (number, stage) in (0..).zip(&probe.path) {
            let server = cluster.server_of(stage.share);
            let mut resource_use = |used, span: Interval, resources| {
                uses.push(BookedUse {
                    key: UseKey {
                        booking: id,
                        stage: number,
                        used,
                    },
                    span,
                    length: span.length(),
                    resources,
                    ended: false,
                });
            };
            if let Some(transfer) = stage.transfer {
                let links = (cluster.uplink(sender), Some(cluster.downlink(server)));
                resource_use(ResourceUse::Transfer, transfer, links);
            }
            resource_use(ResourceUse::Run, stage.run, (stage.share.index(), None));
            sender = server;
        }
        for resource_use in &uses {
            self.overdue_from = self.overdue_from.min(resource_use.span.to);
            for resource in resource_use.resources() {
                let held = BookedSpan {
                    from: resource_use.span.from,
                    to: resource_use.span.to,
                    key: resource_use.key,
                };
                change_table(&mut self.tables[resource], &mut self.overlaps, |table| {
                    table.insert(held);
                });
            }
        }
        self.check(overlaps);
        let booking = Booking {
            module: cluster.pipelines[probe.pipeline.index()].module,
            pipeline: probe.pipeline,
            size: probe.size,
            booked_at: now,
            path: probe.path.clone(),
            uses,
        };
        self.all.insert(id, booking);
        id
    }

    /// A batch has fewer items than were booked: its uses get shorter. Returns whether they did. Legal for an
    /// unknown booking, as with `release`.
    pub(super) fn resize(&mut self, cluster: &ClusterIndex, id: BookingId, items: u32) -> bool {
        let overlaps = self.overlaps;
        let Some(booking) = self.all.get_mut(&id).filter(|booking| items < booking.size) else {
            return false;
        };
        booking.size = items;
        let stages = &cluster.pipelines[booking.pipeline.index()].stages;
        let mut sender = None;
        for resource_use in &mut booking.uses {
            let (number, used) = (resource_use.key.stage as usize, resource_use.key.used);
            let server = cluster.server_of(booking.path[number].share);
            let length = match (used, sender) {
                (ResourceUse::Transfer, Some(sender)) => {
                    stages[number].transfer(items, (sender, server), cluster.bandwidth(sender, server))
                }
                _ => stages[number].duration(items),
            };
            resource_use.length = resource_use.length.min(length);
            sender = Some(server);
        }
        let left = booking.uses.iter().filter(|resource_use| !resource_use.ended);
        let pending = left.map(|resource_use| Reverse((resource_use.span.from, resource_use.key)));
        let pending = pending.collect();
        self.reschedule(pending);
        self.check(overlaps);
        true
    }

    /// Frees all that it still holds. Legal for one that is not here: its last use was reported, or it was lost with a
    /// worker, before its module or its batch was known.
    pub(super) fn release(&mut self, id: BookingId) -> Option<Booking> {
        let booking = self.all.remove(&id)?;
        for resource_use in booking.uses.iter().filter(|resource_use| !resource_use.ended) {
            for resource in resource_use.resources() {
                change_table(&mut self.tables[resource], &mut self.overlaps, |table| {
                    table.remove(resource_use.key);
                });
            }
        }
        Some(booking)
    }

    /// Bookings that still need the share, or whose output on it is not sent yet, by id.
    pub(super) fn bookings_on(&self, share: ShareId, now: Timestamp, feedback: bool) -> Vec<BookingId> {
        let has_ended = |resource_use: &BookedUse| {
            if feedback {
                resource_use.ended
            } else {
                resource_use.span.to <= now
            }
        };
        let needs = |booking: &Booking| {
            let mut here = false;
            booking.uses.iter().any(|resource_use| {
                let at = booking.path[resource_use.key.stage as usize].share == share;
                let from_here = resource_use.key.used == ResourceUse::Transfer && here;
                here = at;
                (at || from_here) && !has_ended(resource_use)
            })
        };
        let hit = |(&id, booking): (&BookingId, &Booking)| needs(booking).then_some(id);
        self.all.iter().filter_map(hit).collect()
    }

    /// Records the actual use of a resource; earlier uses of the booking are over as well. Reports of several
    /// workers may overtake each other: one for an unknown booking, or for a use that a later report has
    /// ended, is legal and ignored.
    pub(super) fn on_used(&mut self, id: BookingId, stage: u32, used: ResourceUse, span: Interval) {
        let overlaps = self.overlaps;
        let Some(booking) = self.all.get_mut(&id) else {
            return;
        };
        let Some(used_index) = booking.uses.iter().position(|resource_use| {
            (resource_use.key.stage, resource_use.key.used) == (stage, used) && !resource_use.ended
        }) else {
            return;
        };
        let mut touched = Vec::with_capacity(8);
        for (index, resource_use) in booking.uses.iter_mut().enumerate().take(used_index + 1) {
            if resource_use.ended {
                continue;
            }
            resource_use.ended = true;
            if index == used_index {
                resource_use.span = span;
            } else {
                // Not reported: ended before this one started.
                resource_use.span.to = resource_use.span.to.min(span.from);
                resource_use.span.from = resource_use.span.from.min(resource_use.span.to);
            }
            for resource in resource_use.resources() {
                change_table(&mut self.tables[resource], &mut self.overlaps, |table| {
                    table.remove(resource_use.key);
                    table.used_until = table.used_until.max(resource_use.span.to);
                });
                touched.push(resource);
            }
        }
        let next = booking
            .uses
            .get(used_index + 1)
            .map(|resource_use| (resource_use.span.from, resource_use.key));
        let ended = next.is_none();
        let mut pending: BinaryHeap<_> = next.into_iter().map(Reverse).collect();
        for resource in touched {
            pending.extend(
                self.tables[resource]
                    .spans
                    .first()
                    .map(|span| Reverse((span.from, span.key))),
            );
        }
        self.reschedule(pending);
        self.check(overlaps);
        if ended {
            self.all.remove(&id);
        }
    }

    /// Extends uses that should have ended before `now`, and were not reported, until now.
    pub(super) fn extend_overdue(&mut self, now: Timestamp) {
        if self.overdue_from >= now {
            return;
        }
        let overlaps = self.overlaps;
        let mut pending = BinaryHeap::new();
        for table in &self.tables {
            if let Some(span) = table.spans.first().filter(|span| span.to < now) {
                pending.push(Reverse((span.from, span.key)));
            }
        }
        while let Some(Reverse((_, key))) = pending.pop() {
            let mut behind = BinaryHeap::new();
            self.update_span(key, |span| span.to = span.to.max(now), &mut behind);
            self.reschedule(behind);
        }
        self.check(overlaps);
        let ends = self.tables.iter().filter_map(|table| table.spans.first());
        self.overdue_from = ends.map(|span| span.to).min().unwrap_or(Timestamp::MAX);
    }

    /// Reschedules the uses in `pending` and their successors.
    fn reschedule(&mut self, mut pending: BinaryHeap<Reverse<(Timestamp, UseKey)>>) {
        while let Some(Reverse((_, key))) = pending.pop() {
            let Some((from, length)) = self.earliest_start(key) else {
                continue;
            };
            let span = Interval {
                from,
                to: from + length,
            };
            self.update_span(key, |of_use| *of_use = span, &mut pending);
        }
    }

    /// Earliest start of a use after its predecessors, with its length.
    fn earliest_start(&self, key: UseKey) -> Option<(Timestamp, Span)> {
        let booking = self.all.get(&key.booking)?;
        let index = booking
            .uses
            .iter()
            .position(|resource_use| resource_use.key == key)?;
        let resource_use = booking
            .uses
            .get(index)
            .filter(|resource_use| !resource_use.ended)?;
        let before = index.checked_sub(1).and_then(|before| booking.uses.get(before));
        let mut from = before.map_or(booking.booked_at, |resource_use| resource_use.span.to);
        for resource in resource_use.resources() {
            let table = &self.tables[resource];
            let predecessor = table.index_of(key)?.checked_sub(1);
            from = from
                .max(table.used_until)
                .max(predecessor.map_or(Timestamp::ZERO, |index| table.spans[index].to));
        }
        Some((from, resource_use.length))
    }

    /// Changes the span of a use and, if it differs, adds its direct successors to `pending`.
    fn update_span(
        &mut self,
        key: UseKey,
        change: impl FnOnce(&mut Interval),
        pending: &mut BinaryHeap<Reverse<(Timestamp, UseKey)>>,
    ) {
        let Some(booking) = self.all.get_mut(&key.booking) else {
            return;
        };
        let Some(index) = booking
            .uses
            .iter()
            .position(|resource_use| resource_use.key == key)
        else {
            return;
        };
        let resource_use = &mut booking.uses[index];
        let before = resource_use.span;
        change(&mut resource_use.span);
        if resource_use.span == before {
            return;
        }
        let (span, resources) = (resource_use.span, resource_use.resources());
        self.overdue_from = self.overdue_from.min(span.to);
        pending.extend(
            booking
                .uses
                .get(index + 1)
                .map(|resource_use| Reverse((resource_use.span.from, resource_use.key))),
        );
        for resource in resources {
            let table = &mut self.tables[resource];
            if let Some(index) = table.index_of(key) {
                change_table(table, &mut self.overlaps, |table| {
                    table.move_span(index, span.from, span.to);
                });
                let spans = &table.spans;
                pending.extend(spans.get(index + 1).map(|span| Reverse((span.from, span.key))));
            }
        }
    }

    /// Removes bookings that have ended by the tables, if uses are not reported.
    pub(super) fn remove_ended(&mut self, now: Timestamp) {
        if self.all.len() < 2 * self.kept + 64 {
            return;
        }
        self.all.retain(|_, booking| booking.finish() > now);
        self.kept = self.all.len();
        for table in &mut self.tables {
            change_table(table, &mut self.overlaps, |table| table.remove_ended(now));
        }
    }

    /// Whether no more spans overlap than the `before` that did.
    fn check(&self, before: usize) {
        invariant!(
            self.overlaps <= before,
            Kind::Bookings,
            "resource and spans {:?}",
            (0..)
                .zip(&self.tables)
                .find_map(|(resource, table): (usize, &ResourceTable)| Some((
                    resource,
                    table.first_overlap()?
                )))
        );
    }
}

/// Changes a table, and updates the count of overlapping spans.
fn change_table(table: &mut ResourceTable, overlaps: &mut usize, act: impl FnOnce(&mut ResourceTable)) {
    let before = table.overlaps;
    act(table);
    *overlaps = *overlaps + table.overlaps - before;
}
