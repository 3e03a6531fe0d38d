//! The report of a run, as `run`, `replay` and `simulate` write it, and the statistics it is made from.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use weir_types::{DropReason, ModuleId, Span, StreamId};

use crate::accounting::efficiency::EfficiencyReport;
use crate::accounting::ledger::{Counts, Ledger, RemovedStreams};
use crate::accounting::residency::ResidencyReport;
use crate::generate::{InstanceStats, SequenceReport, SequenceStats};
use crate::measure::histogram::{Histogram, Quantiles};
use crate::module::BatchSlice;
use crate::reservations::ReserveReport;
use crate::slots::QueuesReport;
use crate::strategy::{Policy, summary};
use crate::streams::decode_load::DecodingReport;
use crate::streams::health::StreamHealth;

/// What was run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct RunInfo {
    /// Name of the graph.
    pub graph: String,
    /// Name of the drop rule.
    pub policy: String,
    /// Name of the preset that the policy departs from least: the drop rule, or `pard-paper`.
    #[serde(default)]
    pub preset: String,
    /// What departs from the preset, as lines of `[policy]`, such as `stagger = false`.
    #[serde(default)]
    pub departures: Vec<String>,
    /// Seed of all random draws.
    pub seed: u64,
    /// Duration of the run in seconds.
    pub duration_s: f64,
}

impl RunInfo {
    /// What is known before the run: its graph, what departs in its policy from which preset, and its seed.
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

    /// The preset with what departs from it, in one line: `weir`, or `weir (stagger = false)`.
    #[must_use]
    pub fn policy_summary(&self) -> String {
        // Reports of before have no preset.
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
    /// Its own latency objective in milliseconds, by which its requests are late; `None`: the graph's.
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
    /// Why the stream broke off, if it did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Health of the stream; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub health: Option<StreamHealth>,
}

/// Results of one module.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ModuleReport {
    /// Batches that ran.
    pub batches: u64,
    /// Items in them.
    pub items: u64,
    /// Mean items per batch.
    pub mean_batch: f64,
    /// Device time in seconds.
    pub busy_s: f64,
    /// Device time in seconds spent on requests that were not delivered.
    pub wasted_s: f64,
    /// Requests dropped by the module.
    pub dropped: u64,
    /// Queueing delay of requests in milliseconds.
    pub queue_ms: Quantiles,
    /// Batch wait in milliseconds: from joining a batch to its start.
    pub batch_wait_ms: Quantiles,
    /// Batch duration on its slot in milliseconds.
    pub exec_ms: Quantiles,
    /// Number of changes of the mailbox priority.
    pub priority_switches: u64,
    /// Batches that failed.
    #[serde(default)]
    pub failed: u64,
    /// Warnings about the outputs of its model.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Requests that went on without what it would have found (`on_drop = "degrade"`).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub degraded: u64,
    /// What became of its items, where it is a stage of a cascade.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stage: Option<StageCounts>,
    /// By instance, where its model generates; `batches` are steps then, and `items` their tokens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instances: Vec<InstanceStats>,
    /// What became of its sequences, where its model generates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequences: Option<SequenceReport>,
    /// By slot, where its model is on several devices.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub slots: Vec<SlotCounts>,
}

/// What ran on one slot of a module.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SlotCounts {
    /// The device that it is on.
    pub device: String,
    /// Batches, or steps.
    pub batches: u64,
    /// Items in them, or tokens.
    pub items: u64,
    /// Time that they took, in seconds.
    pub busy_s: f64,
}

/// What became of the items that came to a stage of a cascade; together they are all that came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct StageCounts {
    /// Answered, and not certain enough: given to the next stage.
    pub handed_on: u64,
    /// Answered, and certain enough, or by the last stage.
    pub accepted: u64,
    /// Not come to in time: delivered with the answer of the stage before.
    pub accepted_late: u64,
    /// Lost with a batch, with the answer of the stage before.
    pub failed: u64,
}

impl StageCounts {
    /// Adds `other` to it.
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
    /// Number of dropped requests.
    pub count: u64,
}

/// The report of a run.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Report {
    /// What was run.
    pub run: RunInfo,
    /// All requests.
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
    /// Streams that were removed while the run went on; they are not among `streams`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub removed_streams: Option<RemovedStreams>,
    /// Results by name of the module.
    pub modules: BTreeMap<String, ModuleReport>,
    /// Drops by module and reason.
    pub drops: Vec<DropCount>,
    /// Deliveries by sink: written, skipped because it was slow, or lost to an error.
    #[serde(default)]
    pub sinks: BTreeMap<String, SinkReport>,
    /// Share of right answers, 0 to 1, that is expected among those delivered in time; of simulated runs where it is declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy: Option<f64>,
    /// `accuracy` times `goodput_rps`: right answers in time a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub right_rps: Option<f64>,
    /// Gears, where cascades are shifted by a plan.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gears: Option<GearReport>,
    /// Openings and closings of models, where the memory of a device is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub residency: Option<ResidencyReport>,
    /// Planning of the order of work, where `queues` of the policy is set and the memory of a device is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queues: Option<QueuesReport>,
    /// Reservations of partitioned models, if there are any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reservations: Option<ReserveReport>,
    /// Processor cores that decoding needs, if it saturates the machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decoding: Option<DecodingReport>,
    /// How well the processor was used; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub efficiency: Option<EfficiencyReport>,
    /// Processor time of its threads; live runs only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor: Option<ProcessorReport>,
    /// Time of the control thread, and of deliveries beside it, by kind of event; live runs only.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub control: BTreeMap<String, ControlReport>,
    /// Why the event log of the run is incomplete, if so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recording_error: Option<String>,
    /// How often each [invariant](weir_types::invariant) was broken, by name of its kind; any is a defect of the engine.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub invariants: BTreeMap<String, u64>,
}

/// Which gears were in force.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct GearReport {
    /// Number of the plan that was in force last.
    pub plan: u64,
    /// How often another gear came into force.
    pub shifts: u64,
    /// How long each gear of that plan was in force, the lowest load first; where each stream has a gear, of all streams together.
    pub seconds_by_gear: Vec<f64>,
    /// Mean over the time of what the plan expects of its gears, 0 to 1; `None` where it does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub accuracy_expected: Option<f64>,
}

/// Processor seconds of the threads of a live run, by what they do; also of those that have ended.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ProcessorReport {
    /// Reading and decoding sources.
    pub decoding_s: f64,
    /// Running batches, and preparing their inputs.
    pub workers_s: f64,
    /// The thread that carries control, with all decisions.
    pub control_s: f64,
    /// The thread that follows tracks and gives results to sinks.
    #[serde(default)]
    pub delivery_s: f64,
    /// Writing sinks that encode no video.
    pub sinks_s: f64,
    /// Drawing and encoding video, and writing it.
    pub encoding_s: f64,
    /// All other threads of the process, such as those of libraries.
    pub other_s: f64,
}

/// Events of one kind on the control thread of a live run, or deliveries beside it.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ControlReport {
    /// Number of events.
    pub events: u64,
    /// Time of all of them in seconds, by the clock.
    pub total_s: f64,
    /// Time of an event in milliseconds.
    pub took_ms: Quantiles,
}

impl ProcessorReport {
    /// Their sum.
    #[must_use]
    pub fn total_s(&self) -> f64 {
        let kinds = [
            self.decoding_s,
            self.workers_s,
            self.control_s,
            self.delivery_s,
            self.sinks_s,
            self.encoding_s,
            self.other_s,
        ];
        kinds.iter().sum()
    }
}

/// One sink.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct SinkReport {
    /// Deliveries written.
    pub written: u64,
    /// Deliveries skipped because the sink was slow.
    pub skipped: u64,
    /// Deliveries lost to an error.
    pub lost: u64,
    /// Lines for drops and stream states that were skipped or lost.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub notices_lost: u64,
    /// Whether its reader closed the pipe, which ends the run without an error.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub closed: bool,
    /// What else it counted, such as clips or messages, by name.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<String, u64>,
    /// Why it can write nothing now, while it tries again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outage: Option<String>,
    /// Bytes that are free where it records.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub free_bytes: Option<u64>,
    /// The first error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl SinkReport {
    /// Adds what another sink of that name came to: one graph had it, and a later one has it again.
    pub fn merge(&mut self, other: Self) {
        self.written += other.written;
        self.skipped += other.skipped;
        self.lost += other.lost;
        self.notices_lost += other.notices_lost;
        self.closed |= other.closed;
        for (name, count) in other.counts {
            *self.counts.entry(name).or_default() += count;
        }
        self.outage = other.outage;
        self.free_bytes = other.free_bytes.or(self.free_bytes);
        self.error = self.error.take().or(other.error);
    }

    /// Why it does not write: an error that ended it, or an outage that may pass.
    #[must_use]
    pub fn trouble(&self) -> Option<&str> {
        self.error.as_deref().or(self.outage.as_deref())
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// What a module came to, as sums that only grow: the difference of two is what happened between them.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct ModuleTotals {
    /// Requests of which a first item was in a batch.
    pub requests: u64,
    /// Their items.
    pub items: u64,
    /// Batches that started.
    pub batches: u64,
    /// Batches that ended.
    pub ended: u64,
    /// Of the requests, from entering the mailbox to joining a batch, in seconds.
    pub queue_s: f64,
    /// Of the requests, from joining a batch to its start, in seconds.
    pub batch_wait_s: f64,
    /// Of the batches that ended, on their slots, in seconds.
    pub exec_s: f64,
}

/// Statistics of one module, counted by the driver that carries out its effects.
#[derive(Debug, Clone, Default)]
pub struct ModuleStats {
    batches: u64,
    items: u64,
    failed: u64,
    warnings: Vec<String>,
    priority_switches: u64,
    stage: Option<StageCounts>,
    degraded: u64,
    instances: Vec<InstanceStats>,
    sequences: Option<SequenceStats>,
    slots: Vec<SlotCounts>,
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

    /// A step of a model that generates ran, with so many tokens.
    pub fn on_step(&mut self, tokens: u32) {
        self.batches += 1;
        self.items += u64::from(tokens);
    }

    /// A batch ended after `took`.
    pub fn on_batch_done(&mut self, took: Span, failed: bool) {
        self.exec.observe(took);
        self.failed += u64::from(failed);
    }

    /// What became of items of a stage.
    pub fn on_stage(&mut self, counts: StageCounts) {
        self.stage.get_or_insert_default().add(&counts);
    }

    /// A request went on without what the module would have found.
    pub fn on_degraded(&mut self) {
        self.degraded += 1;
    }

    /// Adds what another module of that name counted.
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
        if let Some(sequences) = &other.sequences {
            self.sequences.get_or_insert_default().merge(sequences);
        }
        self.warnings.extend_from_slice(&other.warnings);
        self.priority_switches += other.priority_switches;
        self.queue.merge(&other.queue);
        self.wait.merge(&other.wait);
        self.exec.merge(&other.exec);
    }

    /// Adds a warning about the outputs of the model.
    pub fn add_warning(&mut self, warning: String) {
        self.warnings.push(warning);
    }

    /// Its slots are counted apart, on these devices.
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

    /// What its instances did so far.
    pub fn set_instances(&mut self, instances: Vec<InstanceStats>) {
        self.instances = instances;
    }

    /// What became of its sequences so far.
    pub fn set_sequences(&mut self, sequences: Option<&SequenceStats>) {
        self.sequences = sequences.cloned();
    }

    /// Sets the number of priority changes so far.
    pub fn set_priority_switches(&mut self, switches: u64) {
        self.priority_switches = switches;
    }

    /// The sums until now.
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
            warnings: self.warnings.clone(),
            stage: self.stage,
            degraded: self.degraded,
            instances: self.instances.clone(),
            sequences: self.sequences.as_ref().map(SequenceStats::report),
            slots: self.slots.clone(),
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

    /// Removes a stream that has no request in flight, from here and from the ledger; gives its report over the `seconds`
    /// that it was there. `None`, and nothing is changed, while a request of it is in flight.
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

    /// As [`RunStats::report`], of these streams: their numbers and names.
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
            recording_error: None,
            invariants: BTreeMap::new(),
            run,
        }
    }
}
