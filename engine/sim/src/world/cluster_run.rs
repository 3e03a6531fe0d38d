//! Batches on a cluster: a share runs one batch at a time, a link carries one transfer at a time, and each use starts as
//! soon as its input is there and what is booked before it has ended. Uses may take another time than is booked.

use std::collections::{BTreeMap, BTreeSet};

use rand_pcg::Pcg64Mcg;
use weir_policy::reservations::{BookingId, PathStage, Reservations, ResourceUse};
use weir_types::{ClusterSpec, ShareId, Span, StageSpec, Timestamp, transfer_time};

use crate::demand::normal;

/// Use of a resource by a batch.
#[derive(Debug, Clone)]
struct Step {
    stage: u32,
    share: ShareId,
    used: ResourceUse,
    resources: Vec<usize>,
    /// Booked start, and actual duration.
    booked: Timestamp,
    takes: Span,
    began: Timestamp,
}

/// A batch on its way.
#[derive(Debug, Clone)]
struct BatchRun {
    steps: Vec<Step>,
    next: usize,
    running: bool,
}

/// Path and size of a batch on the cluster.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchLoad<'a> {
    pub(super) path: &'a [PathStage],
    /// Stages of its pipeline.
    pub(super) stages: &'a [StageSpec],
    /// Number of items that it contains.
    pub(super) items: u32,
}

/// A use that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishedUse {
    pub(super) stage: u32,
    pub(super) share: ShareId,
    pub(super) used: ResourceUse,
    pub(super) from: Timestamp,
    /// True if the batch has left its last stage.
    pub(super) last: bool,
}

/// The shares and links of a cluster, and what is on them.
#[derive(Debug)]
pub(super) struct ClusterRun {
    servers: Vec<u32>,
    /// Bandwidth of each server.
    bandwidths: Vec<u64>,
    /// Class of each share.
    classes: Vec<String>,
    /// Factors of transfer times by class, where they are not as configured.
    pub(super) link_factors: BTreeMap<String, f64>,
    batches: BTreeMap<BookingId, BatchRun>,
    /// Waiting uses of each resource (shares, then uplinks and downlinks), in the order of bookings.
    waiting: Vec<Vec<(BookingId, usize)>>,
    busy: Vec<bool>,
    /// Batches that may be able to proceed.
    runnable: BTreeSet<BookingId>,
}

impl ClusterRun {
    pub(super) fn new(cluster: &ClusterSpec) -> Self {
        let resources = cluster.shares.len() + 2 * cluster.servers.len();
        Self {
            servers: cluster.shares.iter().map(|share| share.server.0).collect(),
            bandwidths: cluster
                .servers
                .iter()
                .map(|server| server.bandwidth_bps)
                .collect(),
            classes: cluster.shares.iter().map(|share| share.class.clone()).collect(),
            link_factors: BTreeMap::new(),
            batches: BTreeMap::new(),
            waiting: vec![Vec::new(); resources],
            busy: vec![false; resources],
            runnable: BTreeSet::new(),
        }
    }

    /// A batch sets out on its path. With `reservations`, which then learn of every use, the order is that of the bookings as
    /// they are now; without, as they were made.
    pub(super) fn start(
        &mut self,
        id: BookingId,
        load: BatchLoad<'_>,
        reservations: Option<&Reservations>,
        (noise, random): (f64, &mut Pcg64Mcg),
    ) {
        let steps = self.steps(load, noise, random);
        for (index, step) in steps.iter().enumerate() {
            for &resource in &step.resources {
                self.waiting[resource].push((id, index));
            }
        }
        let batch = BatchRun {
            steps,
            next: 0,
            running: false,
        };
        self.batches.insert(id, batch);
        self.runnable.insert(id);
        self.put_in_order(id, reservations);
    }

    /// Sorts waiting uses by their bookings. Corrections of reservations may change bookings of all
    /// resources, and then all queues are sorted at once: with bookings of different times, two batches could
    /// wait for each other. Otherwise only the queues with `new` change.
    fn put_in_order(&mut self, new: BookingId, reservations: Option<&Reservations>) {
        let mut waiting = std::mem::take(&mut self.waiting);
        let changes = |queue: &Vec<(BookingId, usize)>| {
            reservations.is_some() || queue.last().is_some_and(|(last, _)| *last == new)
        };
        for queue in waiting
            .iter_mut()
            .filter(|queue| queue.len() > 1 && changes(queue))
        {
            let before = queue[0];
            queue.sort_by_cached_key(|&(id, place)| self.booked_start(id, place, reservations));
            if queue[0] != before {
                self.runnable.insert(queue[0].0);
            }
        }
        self.waiting = waiting;
    }

    fn booked_start(
        &self,
        id: BookingId,
        place: usize,
        reservations: Option<&Reservations>,
    ) -> (Timestamp, BookingId) {
        let Some(batch) = self.batches.get(&id) else {
            return (Timestamp::ZERO, id);
        };
        let step = &batch.steps[place];
        let now = reservations.and_then(|reservations| {
            let leg = *reservations.booked(id)?.get(step.stage as usize)?;
            match step.used {
                ResourceUse::Transfer => leg.transfer.map(|span| span.from),
                ResourceUse::Run => Some(leg.run.from),
            }
        });
        (now.unwrap_or(step.booked), id)
    }

    fn steps(&self, load: BatchLoad<'_>, noise: f64, random: &mut Pcg64Mcg) -> Vec<Step> {
        let shares = self.servers.len();
        let mut steps = Vec::with_capacity(2 * load.path.len());
        let mut sender = 0_usize;
        let mut sending_class = "";
        for ((number, booked), stage) in (0..).zip(load.path).zip(load.stages) {
            let server = self.servers[booked.share.index()] as usize;
            let links = vec![shares + 2 * sender, shares + 2 * server + 1];
            let class = self.classes[booked.share.index()].as_str();
            let factor = [sending_class, class].map(|class| self.link_factors.get(class).copied());
            let factor = factor.into_iter().flatten().reduce(f64::max).unwrap_or(1.0);
            let bandwidth = self.bandwidths[sender].min(self.bandwidths[server]);
            let transfer = booked.transfer.map(|interval| {
                // Reservations correct bookings by measurements; the actual time is that of the link.
                let takes = transfer_time(stage.received_bytes, load.items, bandwidth).scale(factor);
                (ResourceUse::Transfer, interval.from, links, takes)
            });
            // Reservations correct bookings by measurements; the actual duration is that of the profile.
            let takes = stage.profile.duration(load.items);
            let run = (
                ResourceUse::Run,
                booked.run.from,
                vec![booked.share.index()],
                takes,
            );
            for (used, from, resources, takes) in transfer.into_iter().chain([run]) {
                steps.push(Step {
                    stage: number,
                    share: booked.share,
                    used,
                    resources,
                    booked: from,
                    takes: actual_span(takes, noise, random),
                    began: Timestamp::ZERO,
                });
            }
            sender = server;
            sending_class = class;
        }
        steps
    }

    /// Starts every use that can start; gives the end of each, with its batch.
    pub(super) fn start_ready(&mut self, now: Timestamp) -> Vec<(Timestamp, BookingId)> {
        let mut started = Vec::new();
        for id in std::mem::take(&mut self.runnable) {
            let Some(batch) = self.batches.get_mut(&id).filter(|batch| !batch.running) else {
                continue;
            };
            let next = batch.next;
            let step = &mut batch.steps[next];
            let free = |&resource: &usize| {
                !self.busy[resource] && self.waiting[resource].first() == Some(&(id, next))
            };
            if !step.resources.iter().all(free) {
                continue;
            }
            step.began = now;
            for &resource in &step.resources {
                self.busy[resource] = true;
                self.waiting[resource].remove(0);
            }
            started.push((now + step.takes, id));
            batch.running = true;
        }
        started
    }

    /// Handles the end of a batch's current use; `None` if the batch was lost in the meantime.
    pub(super) fn on_use_end(&mut self, id: BookingId) -> Option<FinishedUse> {
        let batch = self.batches.get_mut(&id)?;
        let step = batch.steps.get(batch.next)?;
        for &resource in &step.resources {
            self.busy[resource] = false;
            self.runnable
                .extend(self.waiting[resource].first().map(|(other, _)| *other));
        }
        let last = batch.next + 1 == batch.steps.len();
        let ended = FinishedUse {
            stage: step.stage,
            share: step.share,
            used: step.used,
            from: step.began,
            last,
        };
        batch.running = false;
        batch.next += 1;
        self.runnable.insert(id);
        if last {
            self.batches.remove(&id);
        }
        Some(ended)
    }

    /// A batch is lost: what it uses is free, what it waits for goes to others.
    pub(super) fn remove(&mut self, id: BookingId) {
        let Some(batch) = self.batches.remove(&id) else {
            return;
        };
        for (index, step) in batch.steps.iter().enumerate().skip(batch.next) {
            for &resource in &step.resources {
                if batch.running && index == batch.next {
                    self.busy[resource] = false;
                }
                self.waiting[resource].retain(|(other, _)| *other != id);
                self.runnable
                    .extend(self.waiting[resource].first().map(|(other, _)| *other));
            }
        }
    }
}

/// Draws an actual duration with mean `expected`; `noise` is the standard deviation of its logarithm.
pub(super) fn actual_span(expected: Span, noise: f64, random: &mut Pcg64Mcg) -> Span {
    if noise > 0.0 {
        expected.scale((noise * normal(random) - noise * noise / 2.0).exp())
    } else {
        expected
    }
}
