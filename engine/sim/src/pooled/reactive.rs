//! The reactive baseline in virtual time: every pool batches for itself; what leaves a stage goes at once to the share of
//! the next pool for which the fewest items are bound, over links that carry one transfer after the other.

use std::collections::{BTreeMap, VecDeque};
use std::slice::Iter;

use weir_policy::reservations::{Reaction, react, stage_deadlines};
use weir_types::{PipelineSpec, ShareId};
use weir_types::{Span, Timestamp};

use super::spec::{PooledRun, PooledSpec, PooledStats};
use crate::event_queue::EventQueue;

#[derive(Debug)]
enum Event {
    Arrived {
        stream: usize,
    },
    SimulationResult {
        place: SharePlace,
        items: Vec<Timestamp>,
    },
    Received {
        place: SharePlace,
        items: Vec<Timestamp>,
    },
}

/// A share of a pool.
#[derive(Debug, Clone, Copy)]
struct SharePlace {
    stream: usize,
    pipeline: usize,
    stage: usize,
    share: ShareId,
}

pub(super) struct World<'a> {
    spec: &'a PooledSpec,
    /// What is still to arrive on each stream.
    arrivals: Vec<Iter<'a, Timestamp>>,
    event_queue: EventQueue<Event>,
    /// By pipeline: when items must be out of each stage, and items that it was given.
    stage_deadlines_of: Vec<Vec<Span>>,
    assigned_items: Vec<u64>,
    /// What waits: for the first stage by pipeline, for later ones by share.
    first: Vec<VecDeque<Timestamp>>,
    queues: Vec<VecDeque<Timestamp>>,
    /// Items on their way to each share or waiting there.
    assigned_to_share: Vec<usize>,
    busy: Vec<bool>,
    /// When each server's uplink and downlink are free.
    links: Vec<[Timestamp; 2]>,
    devices: BTreeMap<u32, u32>,
    run: PooledRun,
}

impl<'a> World<'a> {
    pub(super) fn new(spec: &'a PooledSpec, arrivals: &'a [Vec<Timestamp>]) -> Self {
        let cluster = &spec.reserve.cluster;
        let bandwidth = cluster.servers.first().map_or(1, |server| server.bandwidth_bps);
        let parts_of = |pipeline: &PipelineSpec| {
            let stream = spec
                .streams
                .iter()
                .find(|stream| stream.module == pipeline.module);
            stage_deadlines(
                pipeline,
                stream.map_or(Span::ZERO, |stream| stream.slo),
                bandwidth,
            )
        };
        let mut devices: BTreeMap<u32, u32> = BTreeMap::new();
        for share in &cluster.shares {
            *devices.entry(share.device).or_default() += 1;
        }
        let shares = cluster.shares.len();
        Self {
            event_queue: EventQueue::default(),
            stage_deadlines_of: cluster.pipelines.iter().map(parts_of).collect(),
            assigned_items: vec![0; cluster.pipelines.len()],
            first: vec![VecDeque::new(); cluster.pipelines.len()],
            queues: vec![VecDeque::new(); shares],
            assigned_to_share: vec![0; shares],
            busy: vec![false; shares],
            links: vec![[Timestamp::ZERO; 2]; cluster.servers.len()],
            devices,
            run: PooledRun {
                streams: vec![PooledStats::default(); spec.streams.len()],
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
        while let Some((now, what)) = self.event_queue.pop() {
            match what {
                Event::Arrived { stream } => self.on_arrival(stream, now),
                Event::SimulationResult { place, items } => {
                    self.busy[place.share.index()] = false;
                    self.forward(place, items, now);
                    self.start_batch(place, now);
                }
                Event::Received { place, items } => {
                    self.queues[place.share.index()].extend(items);
                    self.start_batch(place, now);
                }
            }
        }
        self.run
    }

    /// Notes the next arrival of a stream.
    fn schedule_arrival(&mut self, stream: usize) {
        if let Some(&at) = self.arrivals.get_mut(stream).and_then(Iterator::next) {
            self.event_queue.push(at, Event::Arrived { stream });
        }
    }

    /// Gives an item to the pipeline that has had the least for what it can run.
    fn on_arrival(&mut self, stream: usize, now: Timestamp) {
        self.run.streams[stream].arrived += 1;
        self.schedule_arrival(stream);
        let module = self.spec.streams[stream].module;
        let pipelines = &self.spec.reserve.cluster.pipelines;
        let load = |at: usize| (self.assigned_items[at] + 1) as f64 / throughput(&pipelines[at]).max(1e-9);
        let least = (0..pipelines.len())
            .filter(|&at| pipelines[at].module == module)
            .min_by(|&one, &other| load(one).total_cmp(&load(other)));
        let Some(pipeline) = least else {
            self.run.streams[stream].dropped += 1;
            return;
        };
        self.assigned_items[pipeline] += 1;
        self.first[pipeline].push_back(now);
        let pool = pipelines[pipeline]
            .stages
            .first()
            .map_or(&[][..], |stage| &stage.shares);
        if let Some(&share) = pool.iter().find(|share| !self.busy[share.index()]) {
            let stage = 0;
            self.start_batch(
                SharePlace {
                    stream,
                    pipeline,
                    stage,
                    share,
                },
                now,
            );
        }
    }

    /// Lets a free share take what it can of what waits.
    fn start_batch(&mut self, place: SharePlace, now: Timestamp) {
        let spec = self.spec;
        let share = place.share.index();
        if self.busy[share] {
            return;
        }
        let known = &spec.reserve.cluster.pipelines[place.pipeline];
        let stage = &known.stages[place.stage];
        let part = self.stage_deadlines_of[place.pipeline][place.stage];
        let queue = if place.stage == 0 {
            &mut self.first[place.pipeline]
        } else {
            &mut self.queues[share]
        };
        while let Some(&head) = queue.front() {
            let waiting = u32::try_from(queue.len()).unwrap_or(u32::MAX);
            match react(stage, known.batch, waiting, head + part, now) {
                Reaction::Drop => {
                    queue.pop_front();
                    self.assigned_to_share[share] =
                        self.assigned_to_share[share].saturating_sub(usize::from(place.stage > 0));
                    self.run.streams[place.stream].dropped += 1;
                }
                Reaction::Run { size } => {
                    let items: Vec<Timestamp> = queue.drain(..size as usize).collect();
                    if place.stage > 0 {
                        self.assigned_to_share[share] =
                            self.assigned_to_share[share].saturating_sub(items.len());
                    }
                    let takes = stage.profile.duration(size);
                    let at = &spec.reserve.cluster.shares[share];
                    let device = f64::from(self.devices.get(&at.device).copied().unwrap_or(1));
                    *self.run.busy_s.entry(at.class.clone()).or_default() += takes.as_secs_f64() / device;
                    self.busy[share] = true;
                    self.run.streams[place.stream].batches += 1;
                    self.event_queue
                        .push(now + takes, Event::SimulationResult { place, items });
                    return;
                }
            }
        }
    }

    /// What leaves a stage goes on to the next, or out.
    fn forward(&mut self, from: SharePlace, items: Vec<Timestamp>, now: Timestamp) {
        let cluster = &self.spec.reserve.cluster;
        let Some(next) = cluster.pipelines[from.pipeline].stages.get(from.stage + 1) else {
            let slo = self.spec.streams[from.stream].slo;
            let in_time = items.iter().filter(|&&sent| now <= sent + slo).count();
            let stats = &mut self.run.streams[from.stream];
            stats.delivered += in_time as u64;
            stats.late += (items.len() - in_time) as u64;
            self.run.last_output = self.run.last_output.max(now);
            return;
        };
        let least = next
            .shares
            .iter()
            .min_by_key(|share| self.assigned_to_share[share.index()]);
        let Some(&share) = least else {
            self.run.streams[from.stream].dropped += items.len() as u64;
            return;
        };
        self.assigned_to_share[share.index()] += items.len();
        let place = SharePlace {
            stage: from.stage + 1,
            share,
            ..from
        };
        let sender = cluster.shares[from.share.index()].server.index();
        let receiver = cluster.shares[share.index()].server.index();
        let mut at = now;
        if sender != receiver && next.received_bytes > 0 {
            let speed = |server: usize| cluster.servers[server].bandwidth_bps;
            let bits = next.received_bytes as f64 * 8.0 * items.len() as f64;
            let length = Span::from_secs_f64(bits / speed(sender).min(speed(receiver)).max(1) as f64);
            at = at.max(self.links[sender][0]).max(self.links[receiver][1]) + length;
            self.links[sender][0] = at;
            self.links[receiver][1] = at;
        }
        self.event_queue.push(at, Event::Received { place, items });
    }
}

/// Items a second: the least of the stages.
fn throughput(pipeline: &PipelineSpec) -> f64 {
    let stages = pipeline.stages.iter();
    stages
        .map(|stage| stage.profile.throughput(pipeline.batch) * stage.shares.len() as f64)
        .fold(f64::INFINITY, f64::min)
}
