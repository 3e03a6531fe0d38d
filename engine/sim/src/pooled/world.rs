//! The loop: what happens at one instant is reported to the reservations together, and what they want is done.

use std::collections::{BTreeMap, VecDeque};
use std::slice::Iter;

use weir_policy::reservations::{
    BookingId, PathRequest, PathStage, Reservations, ReserveEffect, ReserveEvent, ResourceUse,
};
use weir_types::ShareId;
use weir_types::{ModuleId, Timestamp};

use super::executor::Executor;
use super::spec::{PooledRun, PooledSpec, PooledStats, ResourceUsage};
use crate::event_queue::EventQueue;

#[derive(Debug, Clone, Copy)]
enum Event {
    Arrived { stream: usize },
    StepDone { booking: BookingId },
    TimerFired,
}

/// Items of a batch that is on its way.
#[derive(Debug)]
struct Batch {
    stream: usize,
    sent: Vec<Timestamp>,
    finish: Timestamp,
}

pub(super) struct World<'a> {
    spec: &'a PooledSpec,
    /// What is still to arrive on each stream.
    arrivals: Vec<Iter<'a, Timestamp>>,
    reservations: Reservations,
    executor: Executor,
    event_queue: EventQueue<Event>,
    queues: Vec<VecDeque<Timestamp>>,
    batches: BTreeMap<BookingId, Batch>,
    /// Device part of each share.
    device_shares: Vec<f64>,
    events: Vec<ReserveEvent>,
    run: PooledRun,
}

impl<'a> World<'a> {
    pub(super) fn new(spec: &'a PooledSpec, arrivals: &'a [Vec<Timestamp>]) -> Self {
        let shares = &spec.reserve.cluster.shares;
        let mut on_device: BTreeMap<u32, u32> = BTreeMap::new();
        for share in shares {
            *on_device.entry(share.device).or_default() += 1;
        }
        let part = |device: u32| 1.0 / f64::from(on_device.get(&device).copied().unwrap_or(1));
        let streams = spec.streams.len();
        Self {
            reservations: Reservations::new(&spec.reserve),
            executor: Executor::new(&spec.reserve.cluster, spec.noise, spec.seed),
            event_queue: EventQueue::default(),
            queues: vec![VecDeque::new(); streams],
            batches: BTreeMap::new(),
            device_shares: shares.iter().map(|share| part(share.device)).collect(),
            events: Vec::new(),
            run: PooledRun {
                streams: vec![PooledStats::default(); streams],
                ..PooledRun::default()
            },
            spec,
            arrivals: arrivals.iter().map(|all| all.iter()).collect(),
        }
    }

    pub(super) fn run(mut self) -> PooledRun {
        for stream in 0..self.spec.streams.len() {
            self.schedule_arrival(stream);
        }
        let mut effects = Vec::new();
        while let Some(now) = self.event_queue.next_time() {
            while self.event_queue.next_time() == Some(now) {
                let Some((_, what)) = self.event_queue.pop() else {
                    break;
                };
                self.handle(what, now);
            }
            loop {
                let events = std::mem::take(&mut self.events);
                self.reservations.step(events, now, &mut effects);
                for effect in effects.drain(..) {
                    self.apply(effect, now);
                }
                if self.events.is_empty() {
                    break;
                }
            }
            for (at, booking) in self.executor.start_ready(now) {
                debug_assert!(
                    self.begins_as_booked(booking, now),
                    "{booking:?} begins at another time than is booked"
                );
                self.event_queue.push(at, Event::StepDone { booking });
            }
        }
        self.run.probes = self.reservations.probes();
        self.run
    }

    /// Whether what begins now is booked for now, where reports come in.
    fn begins_as_booked(&self, booking: BookingId, now: Timestamp) -> bool {
        let booked = || {
            let stages = self.reservations.booked(booking)?;
            let (stage, used) = self.executor.current_use(booking)?;
            let stage_path = stages.get(stage as usize)?;
            let span = if used == ResourceUse::Run {
                Some(stage_path.run)
            } else {
                stage_path.transfer
            };
            Some(span?.from == now)
        };
        !self.spec.reserve.feedback || booked() == Some(true)
    }

    /// Notes the next arrival of a stream.
    fn schedule_arrival(&mut self, stream: usize) {
        if let Some(&at) = self.arrivals.get_mut(stream).and_then(Iterator::next) {
            self.event_queue.push(at, Event::Arrived { stream });
        }
    }

    fn handle(&mut self, what: Event, now: Timestamp) {
        match what {
            Event::Arrived { stream } => {
                self.run.streams[stream].arrived += 1;
                self.queues[stream].push_back(now);
                self.request_path(stream);
                self.schedule_arrival(stream);
            }
            Event::TimerFired => self.events.push(ReserveEvent::Tick),
            Event::StepDone { booking } => self.on_step_end(booking, now),
        }
    }

    fn request_path(&mut self, stream: usize) {
        let (queue, known) = (&self.queues[stream], &self.spec.streams[stream]);
        if let Some(&sent) = queue.front() {
            let ask = PathRequest {
                deadline: sent + known.slo,
                since: sent,
                waiting: u32::try_from(queue.len()).unwrap_or(u32::MAX),
            };
            let module = known.module;
            self.events
                .push(ReserveEvent::PathRequested { module, request: ask });
        }
    }

    fn stream_of(&self, module: ModuleId) -> Option<usize> {
        self.spec
            .streams
            .iter()
            .position(|stream| stream.module == module)
    }

    fn apply(&mut self, effect: ReserveEffect, now: Timestamp) {
        match effect {
            ReserveEffect::Book {
                module,
                booking,
                size,
                path,
                finish,
                ..
            } => {
                let Some(stream) = self.stream_of(module) else {
                    return;
                };
                self.run.streams[stream].batches += 1;
                let taken = self.queues[stream].len().min(size as usize);
                let sent = self.queues[stream].drain(..taken).collect();
                let batch = Batch { stream, sent, finish };
                self.start_batch(booking, batch, &path);
                self.request_path(stream);
            }
            ReserveEffect::NoPath { module, .. } => {
                let Some(stream) = self.stream_of(module) else {
                    return;
                };
                if self.queues[stream].pop_front().is_some() {
                    self.run.streams[stream].dropped += 1;
                }
                self.request_path(stream);
            }
            ReserveEffect::Lost { booking, .. } => {
                if let Some(batch) = self.batches.remove(&booking) {
                    self.run.streams[batch.stream].dropped += batch.sent.len() as u64;
                }
            }
            ReserveEffect::SetTimer { at } => self.event_queue.push(at.max(now), Event::TimerFired),
        }
    }

    /// A batch sets out: where everything goes as booked, its end is known.
    fn start_batch(&mut self, booking: BookingId, batch: Batch, path: &[PathStage]) {
        if self.spec.noise > 0.0 || self.spec.reserve.feedback {
            let reservations = self.spec.reserve.feedback.then_some(&self.reservations);
            self.executor.start(booking, path, reservations);
            self.batches.insert(booking, batch);
            return;
        }
        let size = batch.sent.len();
        for (stage, stage_path) in (0..).zip(path) {
            if let Some(transfer) = stage_path.transfer {
                let over = (stage, stage_path.share, ResourceUse::Transfer);
                self.record_usage(booking, size, over, (transfer.from, transfer.to));
            }
            let over = (stage, stage_path.share, ResourceUse::Run);
            self.record_usage(booking, size, over, (stage_path.run.from, stage_path.run.to));
        }
        self.on_batch_done(&batch, batch.finish);
    }

    fn on_step_end(&mut self, booking: BookingId, now: Timestamp) {
        let Some(finished) = self.executor.on_step_end(booking) else {
            return;
        };
        if self.spec.reserve.feedback {
            self.events.push(finished.to_event(booking, now));
        }
        let size = self.batches.get(&booking).map_or(0, |batch| batch.sent.len());
        self.record_usage(
            booking,
            size,
            (finished.stage, finished.share, finished.used),
            (finished.from, now),
        );
        if finished.last {
            self.events.push(ReserveEvent::Finished { booking });
            if let Some(batch) = self.batches.remove(&booking) {
                self.on_batch_done(&batch, now);
            }
        }
    }

    /// Counts one use.
    fn record_usage(
        &mut self,
        booking: BookingId,
        size: usize,
        (stage, share, used): (u32, ShareId, ResourceUse),
        (from, to): (Timestamp, Timestamp),
    ) {
        if used == ResourceUse::Run {
            let class = &self.spec.reserve.cluster.shares[share.index()].class;
            let busy = (to - from).as_secs_f64() * self.device_shares[share.index()];
            match self.run.busy_s.get_mut(class) {
                Some(total) => *total += busy,
                None => _ = self.run.busy_s.insert(class.clone(), busy),
            }
        }
        if self.spec.trace {
            self.run.uses.push(ResourceUsage {
                booking,
                stage,
                share,
                used,
                size: u32::try_from(size).unwrap_or(u32::MAX),
                from,
                to,
            });
        }
    }

    /// A batch is out.
    fn on_batch_done(&mut self, batch: &Batch, at: Timestamp) {
        let slo = self.spec.streams[batch.stream].slo;
        let stats = &mut self.run.streams[batch.stream];
        let in_time = batch.sent.iter().filter(|&&sent| at <= sent + slo).count();
        stats.delivered += in_time as u64;
        stats.late += (batch.sent.len() - in_time) as u64;
        self.run.last_output = self.run.last_output.max(at);
        let behind = (at - batch.finish).as_secs_f64();
        self.run.lateness_s.0 += behind;
        self.run.lateness_s.1 = self.run.lateness_s.1.max(behind);
    }
}
