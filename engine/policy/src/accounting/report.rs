//! The report of a run, as `run`, `replay` and `simulate` write it, and the statistics it is made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, ModuleId, Span, StreamId};

use crate::accounting::efficiency::EfficiencyReport;
use crate::accounting::is_zero;
use crate::accounting::ledger::{Counts, Ledger, RemovedStreams};
use crate::accounting::processor::ProcessorReport;
use crate::accounting::residency::ResidencyReport;
use crate::accounting::transform_report::TransformReport;
use crate::generate::{InstanceStats, SequenceReport, SequenceStats};
use crate::measure::histogram::{Histogram, Quantiles};
use crate::module::BatchSlice;
use crate::reservations::ReserveReport;
use crate::slots::QueuesReport;
use crate::strategy::{Policy, summary};
use crate::streams::decode_load::DecodingReport;
use crate::streams::health::StreamHealth;
use crate::supply::pool::WorkersReport;

/// Identification of a run: its graph, policy and seed.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the graph.
    pub graph: String,
    /// Name of the drop rule.
    pub policy: String,
    /// Name of the preset that the policy differs from least: the drop rule, or `pard-paper`.
    #[serde(default)]
    pub preset: String,
    /// Differences from the preset, as lines of `[policy]`, such as `stagger = false`.
    #[serde(default)]
    pub departures: Vec<String>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Duration of the run in seconds.
    pub duration_s: f64,
}

impl RunInfo {
    /// Information that is known before the run; the duration is filled in at its end.
    #[must_use]
    pub fn new(graph: &str, policy: &Policy, seed: u64) -> Self {
        Self {
            graph: graph.to_owned(),
            policy: policy.drop.name().to_owned(),
            preset: policy.preset_name().to_owned(),
            departures: policy.departures(),
            seed,
            duration_s: 0.0,
        }
    }

    /// The preset and the differences from it, in one line: `weir`, or `weir (stagger = false)`.
    #[must_use]
    pub fn policy_summary(&self) -> String {
        // Older reports have no preset.
        let preset = if self.preset.is_empty() {
            &self.policy
        } else {
            &self.preset
        };
        summary(preset, &self.departures)
    }
}

/// Results of one stream.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct StreamReport {
    /// The stream's own latency objective in milliseconds; `None`: the graph's. Later deliveries count as
    /// late.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slo_ms: Option<f64>,
    /// Requests by outcome.
    pub requests: Counts,
    /// Delivered requests a second.
    pub goodput_rps: f64,
    /// `(dropped + late) / arrived`.
    pub drop_rate: f64,
    /// Latency of delivered and late requests, in milliseconds.
    pub latency_ms: Quantiles,
    /// Damaged packets that the source skipped.
    #[serde(default)]
    pub damaged: u64,
    /// Error that ended the stream, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Health of the stream; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<StreamHealth>,
}

/// Results of one module.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModuleReport {
    /// Number of batches that ran.
    pub batches: u64,
    /// Number of items in them.
    pub items: u64,
    /// Mean items per batch.
    pub mean_batch: f64,
    /// Device time in seconds.
    pub busy_s: f64,
    /// Device time in seconds spent on requests that were not delivered.
    pub wasted_s: f64,
    /// Number of requests that the module dropped.
    pub dropped: u64,
    /// Queueing delay of requests in milliseconds.
    pub queue_ms: Quantiles,
    /// Batch wait in milliseconds: from joining a batch to its start.
    pub batch_wait_ms: Quantiles,
    /// Batch duration on its slot in milliseconds.
    pub exec_ms: Quantiles,
    /// Number of changes of the mailbox priority.
    pub priority_switches: u64,
    /// Number of batches that failed.
    #[serde(default)]
    pub failed: u64,
    /// Reason of the last batch that failed, shortened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<String>,
    /// Warnings about the outputs of the module's model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Number of requests that continued without the module's results (`on_drop = "degrade"`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub degraded: u64,
    /// Outcomes of the module's items, if it is a stage of a cascade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageCounts>,
    /// Counters by instance of a generative model; `batches` are then steps, and `items` their tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceStats>,
    /// Statistics of sequences of a generative model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<SequenceReport>,
    /// Counters by slot, if the model is on several devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotCounts>,
    /// Workers that were opened and closed, if their number follows the load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workers: Option<WorkersReport>,
}

/// Work done on one slot of a module.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlotCounts {
    /// Device of the slot.
    pub device: String,
    /// Number of batches, or of steps of a generative model.
    pub batches: u64,
    /// Number of items in them, or of tokens.
    pub items: u64,
    /// Device time in seconds.
    pub busy_s: f64,
}

/// Items of a stage of a cascade by outcome; the sum is the number of items that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageCounts {
    /// Answered without enough certainty: passed to the next stage.
    pub handed_on: u64,
    /// Answered with enough certainty, or by the last stage.
    pub accepted: u64,
    /// Not answered in time: delivered with the answer of the stage before.
    pub accepted_late: u64,
    /// Lost with a failed batch: delivered with the answer of the stage before.
    pub failed: u64,
}

impl StageCounts {
    /// Adds the counts of `other`.
    pub fn add(&mut self, other: &Self) {
        self.handed_on += other.handed_on;
        self.accepted += other.accepted;
        self.accepted_late += other.accepted_late;
        self.failed += other.failed;
    }
}

/// Drops of one module for one reason.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DropCount {
    /// Name of the module, or `source`.
    pub module: String,
    /// Reason of the drops.
    pub reason: DropReason,
    /// Number of requests dropped.
    pub count: u64,
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// Graph, policy and seed of the run.
    pub run: RunInfo,
    /// Outcomes of all requests.
    pub requests: Counts,
    /// Delivered requests a second.
    pub goodput_rps: f64,
    /// `(dropped + late) / arrived`.
    pub drop_rate: f64,
    /// Device time spent on requests that were not delivered over all device time.
    pub invalid_rate: f64,
    /// Latency of delivered and late requests, in milliseconds.
    pub latency_ms: Quantiles,
    /// Results by name of the stream.
    pub streams: BTreeMap<String, StreamReport>,
    /// Streams that were removed while the run continued; they are not among `streams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_streams: Option<RemovedStreams>,
    /// Results by name of the module.
    pub modules: BTreeMap<String, ModuleReport>,
    /// Drops by module and reason.
    pub drops: Vec<DropCount>,
    /// Deliveries by sink: written, skipped because it was slow, or lost to an error.
    #[serde(default)]
    pub sinks: BTreeMap<String, SinkReport>,
    /// Deliveries by transform that a program of the user computes: answered, or passed unchanged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub transforms: BTreeMap<String, TransformReport>,
    /// Fraction of right answers expected among results delivered in time, 0 to 1. Only simulated runs that
    /// declare accuracies have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// `accuracy` times `goodput_rps`: right answers in time a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_rps: Option<f64>,
    /// Use of gears, if a plan shifts cascades.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gears: Option<GearReport>,
    /// Openings and closings of models, if a device has limited memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<ResidencyReport>,
    /// Planning of the order of work, if the policy has `queues` and a device has limited memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<QueuesReport>,
    /// Reservations of partitioned models, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<ReserveReport>,
    /// Processor cores that decoding needs, if it saturates the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoding: Option<DecodingReport>,
    /// Use of the processor, of live runs whose models all run on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<EfficiencyReport>,
    /// Processor time of the run's threads; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorReport>,
    /// Time of the control thread, and of deliveries beside it, by kind of event; live runs only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub control: BTreeMap<String, ControlReport>,
    /// Reason for which the event log of the run is incomplete, if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording_error: Option<String>,
    /// Number of violations of each [invariant](weir_types::invariant), by the name of its kind; any
    /// violation is a defect of the engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invariants: BTreeMap<String, u64>,
}

/// Use of the gears of a plan.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GearReport {
    /// Number of the last plan in force.
    pub plan: u64,
    /// Number of changes to another gear.
    pub shifts: u64,
    /// Seconds for which each gear of that plan was in force, ascending by load; summed over streams if each
    /// stream has its own gear.
    pub seconds_by_gear: Vec<f64>,
    /// Time average of the accuracy that the plan expects of its gears, 0 to 1; `None` if the plan gives
    /// none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_expected: Option<f64>,
}

/// Time of one kind of event on the control thread of a live run, or of deliveries beside it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ControlReport {
    /// Number of events.
    pub events: u64,
    /// Elapsed time of all events, in seconds.
    pub total_s: f64,
    /// Elapsed time of an event, in milliseconds.
    pub took_ms: Quantiles,
}

/// Deliveries of one sink by outcome, and its errors.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SinkReport {
    /// Number of deliveries written.
    pub written: u64,
    /// Number of deliveries skipped because the sink was slow.
    pub skipped: u64,
    /// Number of deliveries lost to an error.
    pub lost: u64,
    /// Number of lines for drops and stream states that were skipped or lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notices_lost: u64,
    /// Whether the reader closed the pipe, which ends the run without an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// Further counters by name, such as clips or messages.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Number of packets that a sink which records did not record, by stream.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub packets_lost: BTreeMap<String, u64>,
    /// Reason for which the sink cannot write at the moment; it retries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<String>,
    /// Free bytes of the file system that the sink records to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// First error that occurred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SinkReport {
    /// Adds the report of another sink of that name, which an earlier or later graph had.
    pub fn merge(&mut self, other: Self) {
        self.written += other.written;
        self.skipped += other.skipped;
        self.lost += other.lost;
        self.notices_lost += other.notices_lost;
        self.closed |= other.closed;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        for (stream, count) in other.packets_lost {
            *self.packets_lost.entry(stream).or_default() += count;
        }
        self.outage = other.outage;
        self.free_bytes = other.free_bytes.or(self.free_bytes);
        self.error = self.error.take().or(other.error);
    }

    /// Reason for which the sink does not write: an error that ended it, or an outage that may pass.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.error.as_deref().or(self.outage.as_deref())
    }
}

/// Sums of a module since its start, which only grow: the difference of two describes the time between them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ModuleTotals {
    /// Number of requests whose first item was in a batch.
    pub requests: u64,
    /// Number of items in batches.
    pub items: u64,
    /// Number of batches that started.
    pub batches: u64,
    /// Number of batches that ended.
    pub ended: u64,
    /// Time of these requests from entering the mailbox to joining a batch, in seconds.
    pub queue_s: f64,
    /// Time of these requests from joining a batch to its start, in seconds.
    pub batch_wait_s: f64,
    /// Time of the ended batches on their slots, in seconds.
    pub exec_s: f64,
}

/// Characters of the reason of a failure in a report.
const MAX_FAILURE_CHARS: usize = 1_000;

/// Statistics of one module, counted by the driver that carries out its effects.
#[derive(Debug, Clone, Default)]
pub struct ModuleStats {
    batches: u64,
    items: u64,
    failed: u64,
    last_failure: Option<String>,
    warnings: Vec<String>,
    priority_switches: u64,
    stage: Option<StageCounts>,
    degraded: u64,
    instances: Vec<InstanceStats>,
    sequences: Option<SequenceStats>,
    slots: Vec<SlotCounts>,
    workers: Option<WorkersReport>,
    queue: Histogram,
    wait: Histogram,
    exec: Histogram,
}

impl ModuleStats {
    /// A batch started with these slices.
    pub fn on_run(&mut self, slices: &[BatchSlice]) {
        self.batches += 1;
        for slice in slices {
            self.items += u64::from(slice.count);
            if slice.first == 0 {
                self.queue.observe(slice.queued);
                self.wait.observe(slice.waited);
            }
        }
    }

    /// A step of a generative model ran with so many tokens.
    pub fn on_step(&mut self, tokens: u32) {
        self.batches += 1;
        self.items += u64::from(tokens);
    }

    /// A batch ended after `took`.
    pub fn on_batch_done(&mut self, took: Span, failed: bool) {
        self.exec.observe(took);
        self.failed += u64::from(failed);
    }

    /// Adds outcomes of items of a stage.
    pub fn on_stage(&mut self, counts: StageCounts) {
        self.stage.get_or_insert_default().add(&counts);
    }

    /// A request continued without the module's results.
    pub fn on_degraded(&mut self) {
        self.degraded += 1;
    }

    /// Adds the statistics of another module of that name.
    pub fn merge(&mut self, other: &Self) {
        if let Some(counts) = other.stage {
            self.on_stage(counts);
        }
        self.batches += other.batches;
        self.items += other.items;
        self.failed += other.failed;
        self.degraded += other.degraded;
        self.instances.extend_from_slice(&other.instances);
        self.slots.extend_from_slice(&other.slots);
        if let Some(workers) = &other.workers {
            self.workers.get_or_insert_default().merge(workers);
        }
        if let Some(sequences) = &other.sequences {
            self.sequences.get_or_insert_default().merge(sequences);
        }
        self.warnings.extend_from_slice(&other.warnings);
        if other.last_failure.is_some() {
            self.last_failure.clone_from(&other.last_failure);
        }
        self.priority_switches += other.priority_switches;
        self.queue.merge(&other.queue);
        self.wait.merge(&other.wait);
        self.exec.merge(&other.exec);
    }

    /// Stores the reason of a batch that failed.
    pub fn set_failure(&mut self, reason: &str) {
        self.last_failure = Some(reason.chars().take(MAX_FAILURE_CHARS).collect());
    }

    /// Adds a warning about the outputs of the model.
    pub fn add_warning(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Starts to count by slot, on these devices.
    pub fn set_devices(&mut self, devices: impl IntoIterator<Item = String>) {
        let slots = devices.into_iter().map(|device| SlotCounts {
            device,
            ..SlotCounts::default()
        });
        self.slots = slots.collect();
    }

    /// A batch of so many items, or a step of so many tokens, ended on the slot at `place`.
    pub fn on_slot_done(&mut self, place: usize, items: u64, took: Span) {
        if let Some(slot) = self.slots.get_mut(place) {
            slot.batches += 1;
            slot.items += items;
            slot.busy_s += took.as_secs_f64();
        }
    }

    /// Sets the instances' counters so far.
    pub fn set_instances(&mut self, instances: Vec<InstanceStats>) {
        self.instances = instances;
    }

    /// Sets the workers of a pool that follows the load, so far.
    pub fn set_workers(&mut self, workers: Option<WorkersReport>) {
        self.workers = workers;
    }

    /// Sets the sequences' statistics so far.
    pub fn set_sequences(&mut self, sequences: Option<&SequenceStats>) {
        self.sequences = sequences.cloned();
    }

    /// Sets the number of priority changes so far.
    pub fn set_priority_switches(&mut self, switches: u64) {
        self.priority_switches = switches;
    }

    /// Sums since the start.
    #[must_use]
    pub fn totals(&self) -> ModuleTotals {
        ModuleTotals {
            requests: self.queue.count(),
            items: self.items,
            batches: self.batches,
            ended: self.exec.count(),
            queue_s: self.queue.sum().as_secs_f64(),
            batch_wait_s: self.wait.sum().as_secs_f64(),
            exec_s: self.exec.sum().as_secs_f64(),
        }
    }

    fn report(&self, time: (Span, Span), dropped: u64) -> ModuleReport {
        ModuleReport {
            batches: self.batches,
            items: self.items,
            mean_batch: if self.batches == 0 {
                0.0
            } else {
                self.items as f64 / self.batches as f64
            },
            busy_s: time.0.as_secs_f64(),
            wasted_s: time.1.as_secs_f64(),
            dropped,
            queue_ms: self.queue.quantiles(),
            batch_wait_ms: self.wait.quantiles(),
            exec_ms: self.exec.quantiles(),
            priority_switches: self.priority_switches,
            failed: self.failed,
            last_failure: self.last_failure.clone(),
            warnings: self.warnings.clone(),
            stage: self.stage,
            degraded: self.degraded,
            instances: self.instances.clone(),
            sequences: self.sequences.as_ref().map(SequenceStats::report),
            slots: self.slots.clone(),
            workers: self.workers,
        }
    }
}

/// Statistics of a run: latencies and modules.
#[derive(Debug, Clone, Default)]
pub struct RunStats {
    latency: Histogram,
    streams: BTreeMap<StreamId, Histogram>,
    /// Statistics by module.
    pub modules: BTreeMap<ModuleId, ModuleStats>,
}

impl RunStats {
    /// A request completed, within its deadline or late.
    pub fn on_completed(&mut self, stream: StreamId, latency: Span) {
        self.latency.observe(latency);
        self.streams.entry(stream).or_default().observe(latency);
    }

    /// Removes a stream that has no request in flight, from here and from the ledger. Returns its report over
    /// the `seconds` that it existed. `None`, without any change, while a request of the stream is in flight.
    pub fn remove_stream(
        &mut self,
        ledger: &mut Ledger,
        stream: StreamId,
        seconds: f64,
    ) -> Option<StreamReport> {
        let report = self.stream_report(ledger, stream, seconds);
        ledger.remove_stream(stream)?;
        self.streams.remove(&stream);
        Some(report)
    }

    /// Latencies of all requests that completed.
    #[must_use]
    pub fn latency(&self) -> &Histogram {
        &self.latency
    }

    fn stream_report(&self, ledger: &Ledger, stream: StreamId, seconds: f64) -> StreamReport {
        let requests = ledger.stream(stream);
        StreamReport {
            slo_ms: None,
            requests,
            goodput_rps: requests.delivered as f64 / seconds.max(1e-9),
            drop_rate: requests.drop_rate(),
            latency_ms: self
                .streams
                .get(&stream)
                .map(Histogram::quantiles)
                .unwrap_or_default(),
            damaged: 0,
            error: None,
            health: None,
        }
    }

    /// The report of the run. `streams` and `modules` are names by id.
    #[must_use]
    pub fn report(&self, run: RunInfo, ledger: &Ledger, streams: &[String], modules: &[String]) -> Report {
        let streams: Vec<(StreamId, &str)> = (0..)
            .map(StreamId)
            .zip(streams.iter().map(String::as_str))
            .collect();
        self.report_of(run, ledger, &streams, modules)
    }

    /// As [`RunStats::report`], for streams given by id and name.
    #[must_use]
    pub fn report_of(
        &self,
        run: RunInfo,
        ledger: &Ledger,
        streams: &[(StreamId, &str)],
        modules: &[String],
    ) -> Report {
        let seconds = run.duration_s;
        let total = ledger.total();
        let removed = ledger.removed_streams();
        let module = |id: u32| {
            let id = ModuleId(id);
            let dropped = ledger
                .drops()
                .filter(|(at, ..)| *at == Some(id))
                .map(|(.., count)| count)
                .sum();
            let stats = self.modules.get(&id).cloned().unwrap_or_default();
            stats.report(ledger.device_time(id), dropped)
        };
        let place = |at: Option<ModuleId>| match at {
            Some(id) => modules
                .get(id.index())
                .cloned()
                .unwrap_or_else(|| format!("module {}", id.0)),
            None => "source".to_owned(),
        };
        Report {
            reservations: None,
            decoding: None,
            efficiency: None,
            processor: None,
            control: BTreeMap::new(),
            gears: None,
            residency: None,
            queues: None,
            accuracy: None,
            right_rps: None,
            requests: total,
            goodput_rps: total.delivered as f64 / seconds.max(1e-9),
            drop_rate: total.drop_rate(),
            invalid_rate: ledger.invalid_rate(),
            latency_ms: self.latency.quantiles(),
            streams: streams
                .iter()
                .map(|(id, name)| ((*name).to_owned(), self.stream_report(ledger, *id, seconds)))
                .collect(),
            removed_streams: (removed.streams > 0).then_some(removed),
            modules: (0..)
                .zip(modules)
                .map(|(id, name)| (name.clone(), module(id)))
                .collect(),
            drops: ledger
                .drops()
                .map(|(at, reason, count)| DropCount {
                    module: place(at),
                    reason,
                    count,
                })
                .collect(),
            sinks: BTreeMap::new(),
            transforms: BTreeMap::new(),
            recording_error: None,
            invariants: BTreeMap::new(),
            run,
        }
    }
}
