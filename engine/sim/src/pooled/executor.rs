//! What really happens to batches: shares run one at a time, links carry one transfer at a time, and each begins as soon
//! as what was booked before it has ended. Uses may take another time than was booked.

use std::collections::{BTreeMap, BTreeSet};

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;
use weir_policy::reservations::{BookingId, PathStage, Reservations, ReserveEvent, ResourceUse};
use weir_types::{ClusterSpec, ShareId};
use weir_types::{Span, Timestamp};

/// One use of a batch.
#[derive(Debug, Clone)]
struct Step {
    stage: u32,
    share: ShareId,
    used: ResourceUse,
    resources: Vec<usize>,
    /// When it was booked for, and how long it really takes.
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

/// One use that ended.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinishedStep {
    pub(super) stage: u32,
    pub(super) share: ShareId,
    pub(super) used: ResourceUse,
    pub(super) from: Timestamp,
    /// Whether the batch is out.
    pub(super) last: bool,
}

/// The cluster as it is.
#[derive(Debug)]
pub(super) struct Executor {
    servers: Vec<u32>,
    batch: BTreeMap<BookingId, BatchRun>,
    /// By resource (shares, then up- and downlinks): what waits, in the order in which it is booked.
    waiting: Vec<Vec<(BookingId, usize)>>,
    busy: Vec<bool>,
    noise: f64,
    random: Pcg64Mcg,
    /// Batches that may be able to go on.
    runnable: BTreeSet<BookingId>,
}

impl Executor {
    pub(super) fn new(cluster: &ClusterSpec, noise: f64, seed: u64) -> Self {
        let resources = cluster.shares.len() + 2 * cluster.servers.len();
        Self {
            servers: cluster.shares.iter().map(|share| share.server.0).collect(),
            batch: BTreeMap::new(),
            waiting: vec![Vec::new(); resources],
            busy: vec![false; resources],
            noise,
            random: Pcg64Mcg::seed_from_u64(seed),
            runnable: BTreeSet::new(),
        }
    }

    /// A batch was booked. With reports of uses the order is that of the present bookings, without them that of the first.
    pub(super) fn start(&mut self, id: BookingId, path: &[PathStage], reservations: Option<&Reservations>) {
        let steps = self.steps(path);
        for (index, step) in steps.iter().enumerate() {
            for &resource in &step.resources {
                let booked =
                    |&(other, place): &(BookingId, usize)| self.booked_start(other, place, reservations);
                let place = self.waiting[resource].partition_point(|entry| booked(entry) < (step.booked, id));
                self.waiting[resource].insert(place, (id, index));
            }
        }
        let batch = BatchRun {
            steps,
            next: 0,
            running: false,
        };
        self.batch.insert(id, batch);
        self.runnable.insert(id);
    }

    fn booked_start(
        &self,
        id: BookingId,
        place: usize,
        reservations: Option<&Reservations>,
    ) -> (Timestamp, BookingId) {
        let Some(batch) = self.batch.get(&id) else {
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

    fn steps(&mut self, path: &[PathStage]) -> Vec<Step> {
        let shares = self.servers.len();
        let mut steps = Vec::with_capacity(2 * path.len());
        let mut sender = 0_usize;
        for (stage, leg) in (0..).zip(path) {
            let server = self.servers[leg.share.index()] as usize;
            let links = vec![shares + 2 * sender, shares + 2 * server + 1];
            let transfer = leg.transfer.map(|span| (ResourceUse::Transfer, span, links));
            let run = (ResourceUse::Run, leg.run, vec![leg.share.index()]);
            for (used, span, resources) in transfer.into_iter().chain([run]) {
                let takes = self.actual_span(span.length());
                steps.push(Step {
                    stage,
                    share: leg.share,
                    used,
                    resources,
                    booked: span.from,
                    takes,
                    began: Timestamp::ZERO,
                });
            }
            sender = server;
        }
        steps
    }

    fn actual_span(&mut self, profiled: Span) -> Span {
        if self.noise <= 0.0 {
            return profiled;
        }
        // Box and Muller; the mean stays what is profiled.
        let radius = (-2.0 * (1.0 - self.random.random::<f64>()).ln()).sqrt();
        let normal = radius * (std::f64::consts::TAU * self.random.random::<f64>()).cos();
        profiled.scale((self.noise * normal - self.noise * self.noise / 2.0).exp())
    }

    /// Lets begin what can; tells which batch will have ended its use when.
    pub(super) fn start_ready(&mut self, now: Timestamp) -> Vec<(Timestamp, BookingId)> {
        let mut started = Vec::new();
        for id in std::mem::take(&mut self.runnable) {
            let Some(batch) = self.batch.get_mut(&id).filter(|batch| !batch.running) else {
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

    /// Where a batch is: in which stage, and for what.
    pub(super) fn current_use(&self, id: BookingId) -> Option<(u32, ResourceUse)> {
        let batch = self.batch.get(&id)?;
        batch.steps.get(batch.next).map(|step| (step.stage, step.used))
    }

    /// A use ended.
    pub(super) fn on_step_end(&mut self, id: BookingId) -> Option<FinishedStep> {
        let batch = self.batch.get_mut(&id)?;
        let step = batch.steps.get(batch.next)?;
        for &resource in &step.resources {
            self.busy[resource] = false;
            self.runnable
                .extend(self.waiting[resource].first().map(|(other, _)| *other));
        }
        let last = batch.next + 1 == batch.steps.len();
        let ended = FinishedStep {
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
            self.batch.remove(&id);
        }
        Some(ended)
    }
}

impl FinishedStep {
    /// What is reported of it to the reservations.
    pub(super) fn to_event(self, booking: BookingId, to: Timestamp) -> ReserveEvent {
        ReserveEvent::Used {
            booking,
            stage: self.stage,
            used: self.used,
            from: self.from,
            to,
        }
    }
}
