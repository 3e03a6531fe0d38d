//! The reactive baseline (PPipe 7.4) in virtual time: every pool batches for itself; what leaves a stage goes at once to the
//! share of the next pool for which the fewest items are bound, over links that carry one transfer after the other.

use std::collections::{BTreeMap, VecDeque};

use weir_policy::reservations::{Reaction, react, stage_deadlines};
use weir_sim::EventQueue;
use weir_types::{ClusterSpec, ModuleId, PipelineSpec, ShareId, Span, Timestamp};

use super::data_plane::ServedRun;

#[derive(Debug)]
enum Event {
    Arrived,
    BatchDone {
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
    pipeline: usize,
    stage: usize,
    share: ShareId,
}

/// Serves the items of one module until all are out or dropped.
pub(super) fn serve(cluster: &ClusterSpec, module: ModuleId, slo: Span, arrivals: &[Timestamp]) -> ServedRun {
    let mut world = World::new(cluster, module, slo);
    let mut arrivals = arrivals.iter().copied();
    let mut schedule_arrival = |events: &mut EventQueue<Event>| {
        if let Some(at) = arrivals.next() {
            events.push(at, Event::Arrived);
        }
    };
    schedule_arrival(&mut world.event_queue);
    while let Some((now, event)) = world.event_queue.pop() {
        match event {
            Event::Arrived => {
                schedule_arrival(&mut world.event_queue);
                world.on_arrival(now);
            }
            Event::BatchDone { place, items } => {
                world.busy[place.share.index()] = false;
                world.forward(place, items, now);
                world.start_batch(place, now);
            }
            Event::Received { place, items } => {
                world.queues[place.share.index()].extend(items);
                world.start_batch(place, now);
            }
        }
    }
    world.run
}

struct World<'a> {
    cluster: &'a ClusterSpec,
    module: ModuleId,
    slo: Span,
    event_queue: EventQueue<Event>,
    /// By pipeline: deadline of each stage relative to sending, and items assigned so far.
    stage_deadlines_of: Vec<Vec<Span>>,
    assigned_items: Vec<u64>,
    /// Queued items: for the first stage by pipeline, for later stages by share.
    first: Vec<VecDeque<Timestamp>>,
    queues: Vec<VecDeque<Timestamp>>,
    /// Number of items that are queued at each share or on their way to it.
    assigned_to_share: Vec<usize>,
    busy: Vec<bool>,
    /// Time at which each server's uplink and downlink become free.
    links: Vec<[Timestamp; 2]>,
    devices: BTreeMap<u32, u32>,
    run: ServedRun,
}

impl<'a> World<'a> {
    fn new(cluster: &'a ClusterSpec, module: ModuleId, slo: Span) -> Self {
        let bandwidth = cluster.servers.first().map_or(1, |server| server.bandwidth_bps);
        let mut devices: BTreeMap<u32, u32> = BTreeMap::new();
        for share in &cluster.shares {
            *devices.entry(share.device).or_default() += 1;
        }
        let shares = cluster.shares.len();
        Self {
            event_queue: EventQueue::default(),
            stage_deadlines_of: cluster
                .pipelines
                .iter()
                .map(|pipeline| stage_deadlines(pipeline, slo, bandwidth))
                .collect(),
            assigned_items: vec![0; cluster.pipelines.len()],
            first: vec![VecDeque::new(); cluster.pipelines.len()],
            queues: vec![VecDeque::new(); shares],
            assigned_to_share: vec![0; shares],
            busy: vec![false; shares],
            links: vec![[Timestamp::ZERO; 2]; cluster.servers.len()],
            devices,
            run: ServedRun::default(),
            cluster,
            module,
            slo,
        }
    }

    /// Assigns an item to the pipeline that has had the fewest items relative to its throughput.
    fn on_arrival(&mut self, now: Timestamp) {
        self.run.arrived += 1;
        let pipelines = &self.cluster.pipelines;
        let load = |at: usize| (self.assigned_items[at] + 1) as f64 / throughput(&pipelines[at]).max(1e-9);
        let least = (0..pipelines.len())
            .filter(|&at| pipelines[at].module == self.module)
            .min_by(|&one, &other| load(one).total_cmp(&load(other)));
        let Some(pipeline) = least else {
            self.run.dropped += 1;
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
        let share = place.share.index();
        if self.busy[share] {
            return;
        }
        let known = &self.cluster.pipelines[place.pipeline];
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
                    self.run.dropped += 1;
                }
                Reaction::Run { size } => {
                    let items: Vec<Timestamp> = queue.drain(..size as usize).collect();
                    if place.stage > 0 {
                        self.assigned_to_share[share] =
                            self.assigned_to_share[share].saturating_sub(items.len());
                    }
                    let takes = stage.profile.duration(size);
                    let at = &self.cluster.shares[share];
                    let device = f64::from(self.devices.get(&at.device).copied().unwrap_or(1));
                    *self.run.busy_s.entry(at.class.clone()).or_default() += takes.as_secs_f64() / device;
                    self.busy[share] = true;
                    self.event_queue
                        .push(now + takes, Event::BatchDone { place, items });
                    return;
                }
            }
        }
    }

    /// Sends the items that leave a stage to the next one, or counts them as delivered after the last.
    fn forward(&mut self, from: SharePlace, items: Vec<Timestamp>, now: Timestamp) {
        let cluster = self.cluster;
        let Some(next) = cluster.pipelines[from.pipeline].stages.get(from.stage + 1) else {
            let in_time = items.iter().filter(|&&sent| now <= sent + self.slo).count();
            self.run.late += (items.len() - in_time) as u64;
            self.run.last_output = self.run.last_output.max(now);
            return;
        };
        let least = next
            .shares
            .iter()
            .min_by_key(|share| self.assigned_to_share[share.index()]);
        let Some(&share) = least else {
            self.run.dropped += items.len() as u64;
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
