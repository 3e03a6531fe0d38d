//! The loop: what happens at one instant is told to the reservations together, and what they want is done.

use std::collections::{BTreeMap, VecDeque};
use std::slice::Iter;

use weir_policy::reservations::{
    BookingId, PathRequest, PathStage, Reservations, ReserveEffect, ReserveEvent, ResourceUse,
};
use weir_types::ShareId;
use weir_types::{ModuleId, Timestamp};

use super::real::Real;
use super::spec::{PooledRun, PooledSpec, PooledTally, UsedSpan};
use crate::agenda::Agenda;

#[derive(Debug, Clone, Copy)]
enum Happens {
    Arrived { stream: usize },
    Ended { booking: BookingId },
    Woken,
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
    real: Real,
    agenda: Agenda<Happens>,
    queues: Vec<VecDeque<Timestamp>>,
    batches: BTreeMap<BookingId, Batch>,
    /// Device part of each share.
    parts: Vec<f64>,
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
            real: Real::new(&spec.reserve.cluster, spec.noise, spec.seed),
            agenda: Agenda::default(),
            queues: vec![VecDeque::new(); streams],
            batches: BTreeMap::new(),
            parts: shares.iter().map(|share| part(share.device)).collect(),
            events: Vec::new(),
            run: PooledRun {
                streams: vec![PooledTally::default(); streams],
                ..PooledRun::default()
            },
            spec,
            arrivals: arrivals.iter().map(|all| all.iter()).collect(),
        }
    }

    pub(super) fn run(mut self) -> PooledRun {
        for stream in 0..self.spec.streams.len() {
            self.expect(stream);
        }
        let mut effects = Vec::new();
        while let Some(now) = self.agenda.next_at() {
            while self.agenda.next_at() == Some(now) {
                let Some((_, what)) = self.agenda.next() else {
                    break;
                };
                self.happen(what, now);
            }
            loop {
                let events = std::mem::take(&mut self.events);
                self.reservations.step(events, now, &mut effects);
                for effect in effects.drain(..) {
                    self.act(effect, now);
                }
                if self.events.is_empty() {
                    break;
                }
            }
            for (at, booking) in self.real.go_on(now) {
                debug_assert!(
                    self.as_booked(booking, now),
                    "{booking:?} begins at another time than is booked"
                );
                self.agenda.note(at, Happens::Ended { booking });
            }
        }
        self.run.probes = self.reservations.probes();
        self.run
    }

    /// Whether what begins now is booked for now, where reports come in.
    fn as_booked(&self, booking: BookingId, now: Timestamp) -> bool {
        let booked = || {
            let legs = self.reservations.booked(booking)?;
            let (stage, used) = self.real.at(booking)?;
            let leg = legs.get(stage as usize)?;
            let span = if used == ResourceUse::Run {
                Some(leg.run)
            } else {
                leg.transfer
            };
            Some(span?.from == now)
        };
        !self.spec.reserve.feedback || booked() == Some(true)
    }

    /// Notes the next arrival of a stream.
    fn expect(&mut self, stream: usize) {
        if let Some(&at) = self.arrivals.get_mut(stream).and_then(Iterator::next) {
            self.agenda.note(at, Happens::Arrived { stream });
        }
    }

    fn happen(&mut self, what: Happens, now: Timestamp) {
        match what {
            Happens::Arrived { stream } => {
                self.run.streams[stream].arrived += 1;
                self.queues[stream].push_back(now);
                self.ask(stream);
                self.expect(stream);
            }
            Happens::Woken => self.events.push(ReserveEvent::Tick),
            Happens::Ended { booking } => self.ended(booking, now),
        }
    }

    fn ask(&mut self, stream: usize) {
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

    fn act(&mut self, effect: ReserveEffect, now: Timestamp) {
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
                self.set_out(booking, batch, &path);
                self.ask(stream);
            }
            ReserveEffect::NoPath { module, .. } => {
                let Some(stream) = self.stream_of(module) else {
                    return;
                };
                if self.queues[stream].pop_front().is_some() {
                    self.run.streams[stream].dropped += 1;
                }
                self.ask(stream);
            }
            ReserveEffect::Lost { booking, .. } => {
                if let Some(batch) = self.batches.remove(&booking) {
                    self.run.streams[batch.stream].dropped += batch.sent.len() as u64;
                }
            }
            ReserveEffect::SetTimer { at } => self.agenda.note(at.max(now), Happens::Woken),
        }
    }

    /// A batch sets out: where everything goes as booked, its end is known.
    fn set_out(&mut self, booking: BookingId, batch: Batch, path: &[PathStage]) {
        if self.spec.noise > 0.0 || self.spec.reserve.feedback {
            let told = self.spec.reserve.feedback.then_some(&self.reservations);
            self.real.book(booking, path, told);
            self.batches.insert(booking, batch);
            return;
        }
        let size = batch.sent.len();
        for (stage, leg) in (0..).zip(path) {
            if let Some(transfer) = leg.transfer {
                let over = (stage, leg.share, ResourceUse::Transfer);
                self.account(booking, size, over, (transfer.from, transfer.to));
            }
            let over = (stage, leg.share, ResourceUse::Run);
            self.account(booking, size, over, (leg.run.from, leg.run.to));
        }
        self.out(&batch, batch.finish);
    }

    fn ended(&mut self, booking: BookingId, now: Timestamp) {
        let Some(ended) = self.real.ended(booking) else {
            return;
        };
        if self.spec.reserve.feedback {
            self.events.push(ended.told(booking, now));
        }
        let size = self.batches.get(&booking).map_or(0, |batch| batch.sent.len());
        self.account(
            booking,
            size,
            (ended.stage, ended.share, ended.used),
            (ended.from, now),
        );
        if ended.last {
            self.events.push(ReserveEvent::Finished { booking });
            if let Some(batch) = self.batches.remove(&booking) {
                self.out(&batch, now);
            }
        }
    }

    /// Counts one use.
    fn account(
        &mut self,
        booking: BookingId,
        size: usize,
        (stage, share, used): (u32, ShareId, ResourceUse),
        (from, to): (Timestamp, Timestamp),
    ) {
        if used == ResourceUse::Run {
            let class = &self.spec.reserve.cluster.shares[share.index()].class;
            let busy = (to - from).as_secs_f64() * self.parts[share.index()];
            match self.run.busy_s.get_mut(class) {
                Some(total) => *total += busy,
                None => _ = self.run.busy_s.insert(class.clone(), busy),
            }
        }
        if self.spec.trace {
            self.run.uses.push(UsedSpan {
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
    fn out(&mut self, batch: &Batch, at: Timestamp) {
        let slo = self.spec.streams[batch.stream].slo;
        let tally = &mut self.run.streams[batch.stream];
        let in_time = batch.sent.iter().filter(|&&sent| at <= sent + slo).count();
        tally.delivered += in_time as u64;
        tally.late += (batch.sent.len() - in_time) as u64;
        self.run.ended = self.run.ended.max(at);
        let behind = (at - batch.finish).as_secs_f64();
        self.run.behind_s.0 += behind;
        self.run.behind_s.1 = self.run.behind_s.1.max(behind);
    }
}
