//! The reactive baseline in virtual time: every pool batches for itself; what leaves a stage goes at once to the share of
//! the next pool for which the fewest items are bound, over links that carry one transfer after the other.

use std::collections::{BTreeMap, VecDeque};
use std::slice::Iter;

use weir_policy::reservations::{Reaction, react, stage_deadlines};
use weir_types::{PipelineSpec, ShareId};
use weir_types::{Span, Timestamp};

use super::spec::{PooledRun, PooledSpec, PooledTally};
use crate::agenda::Agenda;

#[derive(Debug)]
enum Happens {
    Arrived { stream: usize },
    Ran { place: Place, items: Vec<Timestamp> },
    Received { place: Place, items: Vec<Timestamp> },
}

/// A share of a pool.
#[derive(Debug, Clone, Copy)]
struct Place {
    stream: usize,
    pipeline: usize,
    stage: usize,
    share: ShareId,
}

pub(super) struct World<'a> {
    spec: &'a PooledSpec,
    /// What is still to arrive on each stream.
    arrivals: Vec<Iter<'a, Timestamp>>,
    agenda: Agenda<Happens>,
    /// By pipeline: when items must be out of each stage, and items that it was given.
    parts: Vec<Vec<Span>>,
    given: Vec<u64>,
    /// What waits: for the first stage by pipeline, for later ones by share.
    first: Vec<VecDeque<Timestamp>>,
    queues: Vec<VecDeque<Timestamp>>,
    /// Items on their way to each share or waiting there.
    bound: Vec<usize>,
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
            agenda: Agenda::default(),
            parts: cluster.pipelines.iter().map(parts_of).collect(),
            given: vec![0; cluster.pipelines.len()],
            first: vec![VecDeque::new(); cluster.pipelines.len()],
            queues: vec![VecDeque::new(); shares],
            bound: vec![0; shares],
            busy: vec![false; shares],
            links: vec![[Timestamp::ZERO; 2]; cluster.servers.len()],
            devices,
            run: PooledRun {
                streams: vec![PooledTally::default(); spec.streams.len()],
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
        while let Some((now, what)) = self.agenda.next() {
            match what {
                Happens::Arrived { stream } => self.arrive(stream, now),
                Happens::Ran { place, items } => {
                    self.busy[place.share.index()] = false;
                    self.pass_on(place, items, now);
                    self.begin(place, now);
                }
                Happens::Received { place, items } => {
                    self.queues[place.share.index()].extend(items);
                    self.begin(place, now);
                }
            }
        }
        self.run
    }

    /// Notes the next arrival of a stream.
    fn expect(&mut self, stream: usize) {
        if let Some(&at) = self.arrivals.get_mut(stream).and_then(Iterator::next) {
            self.agenda.note(at, Happens::Arrived { stream });
        }
    }

    /// Gives an item to the pipeline that has had the least for what it can run.
    fn arrive(&mut self, stream: usize, now: Timestamp) {
        self.run.streams[stream].arrived += 1;
        self.expect(stream);
        let module = self.spec.streams[stream].module;
        let pipelines = &self.spec.reserve.cluster.pipelines;
        let load = |at: usize| (self.given[at] + 1) as f64 / throughput(&pipelines[at]).max(1e-9);
        let least = (0..pipelines.len())
            .filter(|&at| pipelines[at].module == module)
            .min_by(|&one, &other| load(one).total_cmp(&load(other)));
        let Some(pipeline) = least else {
            self.run.streams[stream].dropped += 1;
            return;
        };
        self.given[pipeline] += 1;
        self.first[pipeline].push_back(now);
        let pool = pipelines[pipeline]
            .stages
            .first()
            .map_or(&[][..], |stage| &stage.shares);
        if let Some(&share) = pool.iter().find(|share| !self.busy[share.index()]) {
            let stage = 0;
            self.begin(
                Place {
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
    fn begin(&mut self, place: Place, now: Timestamp) {
        let spec = self.spec;
        let share = place.share.index();
        if self.busy[share] {
            return;
        }
        let known = &spec.reserve.cluster.pipelines[place.pipeline];
        let stage = &known.stages[place.stage];
        let part = self.parts[place.pipeline][place.stage];
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
                    self.bound[share] = self.bound[share].saturating_sub(usize::from(place.stage > 0));
                    self.run.streams[place.stream].dropped += 1;
                }
                Reaction::Run { size } => {
                    let items: Vec<Timestamp> = queue.drain(..size as usize).collect();
                    if place.stage > 0 {
                        self.bound[share] = self.bound[share].saturating_sub(items.len());
                    }
                    let takes = stage.profile.duration(size);
                    let at = &spec.reserve.cluster.shares[share];
                    let device = f64::from(self.devices.get(&at.device).copied().unwrap_or(1));
                    *self.run.busy_s.entry(at.class.clone()).or_default() += takes.as_secs_f64() / device;
                    self.busy[share] = true;
                    self.run.streams[place.stream].batches += 1;
                    self.agenda.note(now + takes, Happens::Ran { place, items });
                    return;
                }
            }
        }
    }

    /// What leaves a stage goes on to the next, or out.
    fn pass_on(&mut self, from: Place, items: Vec<Timestamp>, now: Timestamp) {
        let cluster = &self.spec.reserve.cluster;
        let Some(next) = cluster.pipelines[from.pipeline].stages.get(from.stage + 1) else {
            let slo = self.spec.streams[from.stream].slo;
            let in_time = items.iter().filter(|&&sent| now <= sent + slo).count();
            let tally = &mut self.run.streams[from.stream];
            tally.delivered += in_time as u64;
            tally.late += (items.len() - in_time) as u64;
            self.run.ended = self.run.ended.max(now);
            return;
        };
        let least = next.shares.iter().min_by_key(|share| self.bound[share.index()]);
        let Some(&share) = least else {
            self.run.streams[from.stream].dropped += items.len() as u64;
            return;
        };
        self.bound[share.index()] += items.len();
        let place = Place {
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
        self.agenda.note(at, Happens::Received { place, items });
    }
}

/// Items a second: the least of the stages.
fn throughput(pipeline: &PipelineSpec) -> f64 {
    let stages = pipeline.stages.iter();
    stages
        .map(|stage| stage.profile.throughput(pipeline.batch) * stage.shares.len() as f64)
        .fold(f64::INFINITY, f64::min)
}
