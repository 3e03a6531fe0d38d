//! What is booked, and how the tables follow what really happens.
//!
//! Uses stand in an order: on every resource by their beginnings, and within a booking stage after stage. Each begins as
//! soon as what stands before it has ended. When a report comes in, what stands behind is timed anew in that order, later
//! or earlier, and so on; since every use begins after those before it, one pass in the order of beginnings is enough.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use weir_types::invariant;
use weir_types::invariant::Kind;
use weir_types::{ModuleId, PipelineId, ShareId, Span, Timestamp};

use super::api::{BookingId, Interval, PathStage, ResourceUse};
use super::booking_table::{Held, Key, Table};
use super::cluster_index::ClusterIndex;
use super::probe::Probe;

/// One use of a booking.
#[derive(Debug, Clone, Copy)]
struct Step {
    key: Key,
    span: Interval,
    /// How long it should take; `span` may be longer where it goes on beyond that.
    length: Span,
    /// A share, or an uplink and a downlink.
    on: (usize, Option<usize>),
    over: bool,
}

impl Step {
    fn resources(&self) -> impl Iterator<Item = usize> + use<> {
        std::iter::once(self.on.0).chain(self.on.1)
    }
}

/// A batch on its way.
#[derive(Debug, Clone)]
pub(super) struct Booking {
    pub(super) module: ModuleId,
    pub(super) pipeline: PipelineId,
    pub(super) size: u32,
    booked_at: Timestamp,
    legs: Vec<PathStage>,
    steps: Vec<Step>,
}

impl Booking {
    pub(super) fn finish(&self) -> Timestamp {
        self.steps.last().map_or(Timestamp::ZERO, |step| step.span.to)
    }

    /// The stages as they are booked now.
    pub(super) fn legs(&self) -> Vec<PathStage> {
        let mut legs = self.legs.clone();
        for step in &self.steps {
            let leg = &mut legs[step.key.stage as usize];
            match step.key.used {
                ResourceUse::Transfer => leg.transfer = Some(step.span),
                ResourceUse::Run => leg.run = step.span,
            }
        }
        legs
    }
}

/// All tables, and whose spans they hold.
#[derive(Debug, Clone)]
pub(super) struct Bookings {
    pub(super) tables: Vec<Table>,
    pub(super) all: BTreeMap<BookingId, Booking>,
    next: u64,
    /// Spans of all tables that overlap.
    overlaps: usize,
    /// Bookings left after the last look for those that have ended.
    kept: usize,
    /// No table's first span ends before this.
    overdue_from: Timestamp,
}

impl Bookings {
    pub(super) fn new(resources: usize) -> Self {
        Self {
            tables: vec![Table::default(); resources],
            all: BTreeMap::new(),
            next: 0,
            overlaps: 0,
            kept: 0,
            overdue_from: Timestamp::MAX,
        }
    }

    /// Books what was probed, as it is.
    pub(super) fn reserve(&mut self, cluster: &ClusterIndex, probe: &Probe, now: Timestamp) -> BookingId {
        let id = BookingId(self.next);
        self.next += 1;
        let overlaps = self.overlaps;
        let mut steps = Vec::with_capacity(2 * probe.legs.len());
        let mut sender = 0;
        for (stage, leg) in (0..).zip(&probe.legs) {
            let server = cluster.server_of(leg.share);
            let mut step = |used, span: Interval, on| {
                steps.push(Step {
                    key: Key {
                        booking: id,
                        stage,
                        used,
                    },
                    span,
                    length: span.length(),
                    on,
                    over: false,
                });
            };
            if let Some(transfer) = leg.transfer {
                let links = (cluster.uplink(sender), Some(cluster.downlink(server)));
                step(ResourceUse::Transfer, transfer, links);
            }
            step(ResourceUse::Run, leg.run, (leg.share.index(), None));
            sender = server;
        }
        for step in &steps {
            self.overdue_from = self.overdue_from.min(step.span.to);
            for resource in step.resources() {
                let held = Held {
                    from: step.span.from,
                    to: step.span.to,
                    key: step.key,
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
            legs: probe.legs.clone(),
            steps,
        };
        self.all.insert(id, booking);
        id
    }

    /// Frees all that it still holds. Legal for one that is not here: its last use was reported, or it was lost with a
    /// worker, before its module or its batch was heard of.
    pub(super) fn release(&mut self, id: BookingId) -> Option<Booking> {
        let booking = self.all.remove(&id)?;
        for step in booking.steps.iter().filter(|step| !step.over) {
            for resource in step.resources() {
                change_table(&mut self.tables[resource], &mut self.overlaps, |table| {
                    table.remove(step.key);
                });
            }
        }
        Some(booking)
    }

    /// Bookings that still need the share, or what lies there and is not yet sent on; in the order of their ids.
    pub(super) fn on(&self, share: ShareId, now: Timestamp, feedback: bool) -> Vec<BookingId> {
        let over = |step: &Step| if feedback { step.over } else { step.span.to <= now };
        let needs = |booking: &Booking| {
            let mut here = false;
            booking.steps.iter().any(|step| {
                let at = booking.legs[step.key.stage as usize].share == share;
                let from_here = step.key.used == ResourceUse::Transfer && here;
                here = at;
                (at || from_here) && !over(step)
            })
        };
        let hit = |(&id, booking): (&BookingId, &Booking)| needs(booking).then_some(id);
        self.all.iter().filter_map(hit).collect()
    }

    /// A resource was used in truth; what the booking needs before it is over as well. Reports of several workers overtake
    /// each other: one of a booking that is gone, or of a use that is over by a later report, is legal and says nothing.
    pub(super) fn used(&mut self, id: BookingId, stage: u32, used: ResourceUse, span: Interval) {
        let overlaps = self.overlaps;
        let Some(booking) = self.all.get_mut(&id) else {
            return;
        };
        let Some(place) = booking
            .steps
            .iter()
            .position(|step| (step.key.stage, step.key.used) == (stage, used) && !step.over)
        else {
            return;
        };
        let mut touched = Vec::with_capacity(8);
        for (index, step) in booking.steps.iter_mut().enumerate().take(place + 1) {
            if step.over {
                continue;
            }
            step.over = true;
            if index == place {
                step.span = span;
            } else {
                // Nobody told when; not after this one began.
                step.span.to = step.span.to.min(span.from);
                step.span.from = step.span.from.min(step.span.to);
            }
            for resource in step.resources() {
                change_table(&mut self.tables[resource], &mut self.overlaps, |table| {
                    table.remove(step.key);
                    table.used_until = table.used_until.max(step.span.to);
                });
                touched.push(resource);
            }
        }
        let next = booking
            .steps
            .get(place + 1)
            .map(|step| (step.span.from, step.key));
        let ended = next.is_none();
        let mut work: BinaryHeap<_> = next.into_iter().map(Reverse).collect();
        for resource in touched {
            work.extend(
                self.tables[resource]
                    .spans
                    .first()
                    .map(|held| Reverse((held.from, held.key))),
            );
        }
        self.time_anew(work);
        self.check(overlaps);
        if ended {
            self.all.remove(&id);
        }
    }

    /// Holds what should have ended before `now`, and was not reported to, to go on until now.
    pub(super) fn hold_overdue(&mut self, now: Timestamp) {
        if self.overdue_from >= now {
            return;
        }
        let overlaps = self.overlaps;
        let mut work = BinaryHeap::new();
        for table in &self.tables {
            if let Some(held) = table.spans.first().filter(|held| held.to < now) {
                work.push(Reverse((held.from, held.key)));
            }
        }
        while let Some(Reverse((_, key))) = work.pop() {
            let mut behind = BinaryHeap::new();
            self.set(key, |span| span.to = span.to.max(now), &mut behind);
            self.time_anew(behind);
        }
        self.check(overlaps);
        let ends = self.tables.iter().filter_map(|table| table.spans.first());
        self.overdue_from = ends.map(|held| held.to).min().unwrap_or(Timestamp::MAX);
    }

    /// Times what is in `work` anew, and what stands behind that.
    fn time_anew(&mut self, mut work: BinaryHeap<Reverse<(Timestamp, Key)>>) {
        while let Some(Reverse((_, key))) = work.pop() {
            let Some((from, length)) = self.soonest(key) else {
                continue;
            };
            let span = Interval {
                from,
                to: from + length,
            };
            self.set(key, |held| *held = span, &mut work);
        }
    }

    /// When it begins, given what stands before it, and how long it takes.
    fn soonest(&self, key: Key) -> Option<(Timestamp, Span)> {
        let booking = self.all.get(&key.booking)?;
        let place = booking.steps.iter().position(|step| step.key == key)?;
        let step = booking.steps.get(place).filter(|step| !step.over)?;
        let before = place.checked_sub(1).and_then(|before| booking.steps.get(before));
        let mut from = before.map_or(booking.booked_at, |step| step.span.to);
        for resource in step.resources() {
            let table = &self.tables[resource];
            let ahead = table.place(key)?.checked_sub(1);
            from = from
                .max(table.used_until)
                .max(ahead.map_or(Timestamp::ZERO, |ahead| table.spans[ahead].to));
        }
        Some((from, step.length))
    }

    /// Changes a use's span and puts what stands right behind it into `work`, if it is another now.
    fn set(
        &mut self,
        key: Key,
        change: impl FnOnce(&mut Interval),
        work: &mut BinaryHeap<Reverse<(Timestamp, Key)>>,
    ) {
        let Some(booking) = self.all.get_mut(&key.booking) else {
            return;
        };
        let Some(place) = booking.steps.iter().position(|step| step.key == key) else {
            return;
        };
        let step = &mut booking.steps[place];
        let before = step.span;
        change(&mut step.span);
        if step.span == before {
            return;
        }
        let (span, resources) = (step.span, step.resources());
        self.overdue_from = self.overdue_from.min(span.to);
        work.extend(
            booking
                .steps
                .get(place + 1)
                .map(|step| Reverse((step.span.from, step.key))),
        );
        for resource in resources {
            let table = &mut self.tables[resource];
            if let Some(place) = table.place(key) {
                change_table(table, &mut self.overlaps, |table| {
                    table.set(place, span.from, span.to);
                });
                let spans = &table.spans;
                work.extend(spans.get(place + 1).map(|held| Reverse((held.from, held.key))));
            }
        }
    }

    /// Forgets what has ended by the tables: for those who are not told.
    pub(super) fn forget(&mut self, now: Timestamp) {
        if self.all.len() < 2 * self.kept + 64 {
            return;
        }
        self.all.retain(|_, booking| booking.finish() > now);
        self.kept = self.all.len();
        for table in &mut self.tables {
            change_table(table, &mut self.overlaps, |table| table.forget(now));
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
                .find_map(|(resource, table): (usize, &Table)| Some((resource, table.first_overlap()?)))
        );
    }
}

/// Changes a table, and the count of all spans that overlap by what comes of it.
fn change_table(table: &mut Table, overlaps: &mut usize, act: impl FnOnce(&mut Table)) {
    let before = table.overlaps;
    act(table);
    *overlaps = *overlaps + table.overlaps - before;
}
