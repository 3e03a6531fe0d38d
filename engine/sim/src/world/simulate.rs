//! Simulation of one run of a world.

use weir_control::QueueMachine;
use weir_policy::{Histogram, Report, RunInfo};
use weir_types::invariant::panicking;
use weir_types::{ModuleId, Span, StreamId, Timestamp};

use super::Shift;
use super::stages::Stages;
use super::{Arrival, World};
use crate::cluster_usage::ClusterUsage;
use crate::spec::WorldSpec;
use crate::timeline::Timeline;

/// Report and logs of a simulated run.
#[derive(Debug, Clone)]
pub struct SimulationResult {
    /// Report in the format of a live run.
    pub report: Report,
    /// Latencies of all requests that completed.
    pub latency: Histogram,
    /// Timeline of the run.
    pub timeline: Timeline,
    /// Sending times of all requests, ascending.
    pub arrivals: Vec<Timestamp>,
    /// Number of items of every request at every module, one row per request.
    pub items: Vec<u8>,
    /// Number of workers of each module over time: `(from, workers)`.
    pub workers: Vec<Vec<(Timestamp, u32)>>,
    /// Use of the shares and links of its cluster, if it has one.
    pub usage: Option<ClusterUsage>,
    /// Gear shifts, in order.
    pub shifts: Vec<Shift>,
    /// Number of simulated events: arrivals, transfers, batches, timers, ticks.
    pub events: u64,
    /// Number of facts that the state machines processed.
    pub policy_events: u64,
}

/// Runs a world over `arrivals` (ascending) until all that was sent has ended. `named` is what the report calls it;
/// `progress` gets the time now and then.
///
/// # Panics
/// Where an [invariant](weir_types::invariant) is broken, in every build: what a broken world comes to is no result.
pub fn simulate(
    spec: &WorldSpec,
    named: &str,
    arrivals: &mut dyn Iterator<Item = Timestamp>,
    progress: &mut dyn FnMut(Timestamp),
) -> SimulationResult {
    let mut arrivals = arrivals.map(|at| (at, None));
    panicking(|| simulate_world(spec, named, &mut arrivals, progress))
}

/// As [`simulate`], with the stream of each request given by number; [`simulate`] takes the streams in turn.
///
/// # Panics
/// As [`simulate`].
pub fn simulate_streams(
    spec: &WorldSpec,
    named: &str,
    arrivals: &mut dyn Iterator<Item = (Timestamp, StreamId)>,
    progress: &mut dyn FnMut(Timestamp),
) -> SimulationResult {
    let mut arrivals = arrivals.map(|(at, stream)| (at, Some(stream)));
    panicking(|| simulate_world(spec, named, &mut arrivals, progress))
}

fn simulate_world(
    spec: &WorldSpec,
    named: &str,
    arrivals: &mut dyn Iterator<Item = Arrival>,
    progress: &mut dyn FnMut(Timestamp),
) -> SimulationResult {
    let mut world = World::new(spec);
    world.run(arrivals, progress);
    let World {
        controller, mut site, ..
    } = world;
    let sent = site.requests.sent();
    let first = sent.first().copied().unwrap_or_default();
    // A rate is taken over the time of sending: what follows it is only the last requests coming out.
    let duration = sent.last().map_or(Span::ZERO, |last| last.since(first));
    let mut stats = controller.books().stats().clone();
    for (module, machine) in (0..).map(ModuleId).zip(controller.modules()) {
        stats.modules.insert(module, machine.stats());
    }
    let run = RunInfo {
        duration_s: duration.as_secs_f64(),
        ..RunInfo::new(named, &spec.policy, spec.seed)
    };
    let streams: Vec<String> = (0..spec.streams.max(1))
        .map(|stream| format!("stream-{stream}"))
        .collect();
    let modules: Vec<String> = spec.modules.iter().map(|module| module.name.clone()).collect();
    let mut report = stats.report(run, controller.books().ledger(), &streams, &modules);
    for (stream, name) in (0..).map(StreamId).zip(&streams) {
        if let Some(report) = report.streams.get_mut(name) {
            report.slo_ms = site.streams.own_slo(stream).map(Span::as_millis_f64);
        }
    }
    report.accuracy = site.stages.as_ref().and_then(Stages::accuracy);
    report.right_rps = report.accuracy.map(|accuracy| accuracy * report.goodput_rps);
    report.residency = site.residency.take();
    let planned = controller
        .slots()
        .and_then(|slots| slots.policy().queues_report());
    report.queues = planned.or_else(|| controller.queues().map(QueueMachine::report));
    report.gears = controller.gears().and_then(|gears| gears.tally().report());
    report.reservations = controller
        .reservations()
        .map(|machine| machine.accuracy().report());
    let usage = site.cluster.take().zip(controller.reservations());
    let (arrivals, items) = site.requests.into_parts();
    SimulationResult {
        report,
        latency: stats.latency().clone(),
        shifts: site.shifts,
        usage: usage.map(|(cluster, machine)| ClusterUsage {
            probes: machine.policy().reservations().probes(),
            ..cluster.usage
        }),
        arrivals,
        items,
        workers: site.pools.into_iter().map(|pool| pool.history).collect(),
        timeline: site.timeline,
        events: site.events,
        policy_events: controller.facts() + site.facts,
    }
}
