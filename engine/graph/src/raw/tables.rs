//! Single tables as they are in the text, each value with its position where a later check may complain of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

use weir_analytics::transforms::{ObjectFilter, Schedule, TimeZone, TransformSpec};
use weir_config::{Field, Spanned};
use weir_flow::Settings;
use weir_policy::gears::Settle;
use weir_policy::{AutoscaleRule, StreamShare};
use weir_types::Span;

use super::ends::RawEnds;
use super::privacy::RawPrivacy;
use crate::device::PrepareMode;
use crate::gate_node::GateNode;
use crate::gpu_settings::GpuSettings;
use crate::graph::{Escalate, GENERATE, LengthPredictor, ModelOrigin, OnDrop, OnLate, WhenSlow};
use crate::queue_node::QueueNode;
use crate::source_node::{Decoding, SourceMode};

pub(crate) struct RawSource {
    pub(crate) name: Spanned<String>,
    pub(crate) uri: Option<String>,
    pub(crate) detect_uri: Option<String>,
    /// Source or template whose inputs it shares; a star: those of all sources.
    pub(crate) like: Option<Spanned<String>>,
    /// Mode as given in the text; `None`: the default for its address.
    pub(crate) mode: Option<SourceMode>,
    pub(crate) fps: Option<f64>,
    pub(crate) sample: Option<f64>,
    pub(crate) decoding: Decoding,
    pub(crate) decoder: weir_flow::VideoDecoder,
    pub(crate) gate: Option<GateNode>,
    /// Times at which the gate applies; `None`: always.
    pub(crate) gate_schedule: Option<Schedule>,
    /// Times at which its frames are analysed; `None`: always.
    pub(crate) active: Option<Schedule>,
    pub(crate) repeat: bool,
    pub(crate) slo: Option<Spanned<Span>>,
    pub(crate) share: StreamShare,
    /// Position of the key `reserve`.
    pub(crate) reserve_at: Option<usize>,
    pub(crate) connection: weir_flow::Connection,
    pub(crate) objects: ObjectFilter,
    /// Classes that `objects` names, with their positions.
    pub(crate) object_classes: BTreeMap<String, usize>,
    /// Privacy, if it has keys of it.
    pub(crate) privacy: Option<RawPrivacy>,
    pub(crate) timezone: Option<TimeZone>,
    pub(crate) groups: Vec<String>,
    /// Whether it stands for streams that are added while the graph runs.
    pub(crate) is_template: bool,
    /// Queue whose jobs bring the streams of this source, if it is a queued source.
    pub(crate) queue: Option<QueueNode>,
}

impl RawSource {
    pub(super) fn template(name: Spanned<String>) -> Self {
        Self {
            name,
            uri: None,
            detect_uri: None,
            like: None,
            mode: None,
            fps: None,
            sample: None,
            decoding: Decoding::default(),
            decoder: weir_flow::VideoDecoder::Cpu,
            gate: None,
            gate_schedule: None,
            active: None,
            repeat: false,
            slo: None,
            share: StreamShare::default(),
            reserve_at: None,
            connection: weir_flow::Connection::default(),
            objects: ObjectFilter::default(),
            object_classes: BTreeMap::new(),
            privacy: None,
            timezone: None,
            groups: Vec::new(),
            is_template: true,
            queue: None,
        }
    }
}

pub(crate) struct RawDevice {
    pub(crate) name: Spanned<String>,
    pub(crate) slots: Option<u32>,
    pub(crate) prepare: Option<PrepareMode>,
    pub(crate) prepare_threads: Option<u32>,
    /// Bytes that its models may take together.
    pub(crate) memory: Option<Spanned<u64>>,
    pub(crate) host_memory: Option<u64>,
    /// Factor by which what runs on it is slowed down; at least 1.
    pub(crate) slowdown: f64,
}

/// The head by which a model's outputs are decoded.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum HeadName {
    /// The head is unknown: the model is emulated, or a problem was reported.
    Unknown,
    /// Its name in the catalog.
    Known(String),
}

pub(crate) struct RawModel {
    pub(crate) name: Spanned<String>,
    pub(crate) origin: Option<ModelOrigin>,
    pub(crate) head: HeadName,
    /// Classes of its objects; `None` where they are unknown.
    pub(crate) classes: Option<Vec<String>>,
    pub(crate) device: Field<String>,
    /// Placements of a model on several devices, with their profiles; empty if it is on one device.
    pub(crate) ends: RawEnds,
    pub(crate) batch: Vec<u32>,
    /// Number of its workers; of those that follow the load the largest.
    pub(crate) workers: Option<Spanned<u32>>,
    /// Rule of the number of its workers, if that follows the load.
    pub(crate) scaling: Option<Spanned<AutoscaleRule>>,
    /// Number of concurrent requests to all model servers of the model, if it is on servers.
    pub(crate) server_slots: Option<u32>,
    pub(crate) profile: Vec<(u32, Span)>,
    pub(crate) preparation: Vec<(u32, Span)>,
    pub(crate) fail_every: Option<u32>,
    /// Bytes that one session takes.
    pub(crate) memory: Option<Spanned<u64>>,
    pub(crate) open_cold: Option<Span>,
    pub(crate) open_warm: Option<Span>,
    pub(crate) gpu: GpuSettings,
    /// The plan by which it is partitioned over workers.
    pub(crate) plan: Option<Spanned<PathBuf>>,
    /// Predictor of the lengths of its texts, if the model generates.
    pub(crate) predictor: Option<LengthPredictor>,
    /// Whether the table of the model has a key for the predictor, valid or not.
    pub(crate) names_predictor: bool,
    pub(crate) settings: Settings,
}

impl RawModel {
    /// Whether it generates token by token.
    pub(crate) fn generates(&self) -> bool {
        matches!(&self.head, HeadName::Known(head) if head == GENERATE)
    }
}

#[derive(Clone)]
pub(crate) struct RawModule {
    pub(crate) name: Spanned<String>,
    /// Name of the operator, if the catalog has it.
    pub(crate) operator: Field<String>,
    pub(crate) model: Field<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) regions: Field<Vec<Spanned<String>>>,
    pub(crate) weight: f64,
    /// Position of the key `labels`.
    pub(crate) labels_at: Option<usize>,
    /// Position of the key that sets its items, whether its value is valid or not.
    pub(crate) items_at: Option<usize>,
    /// Position of the key `tiles`, whether its value is valid or not.
    pub(crate) tiles_at: Option<usize>,
    /// Schedule per track; `None`: it runs for each object.
    pub(crate) per_track: Option<RawPerTrack>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    /// Position in a cascade, if it is a stage. The stages of a cascade follow each other in the list of
    /// modules.
    pub(crate) stage: Option<RawStage>,
    /// Action for requests that it cannot serve; `None`: the action of the modules before it.
    pub(crate) on_drop: Option<OnDrop>,
    pub(crate) settings: Settings,
}

/// Table of a tracker: a table of `[modules]` with the operator `track`.
pub(crate) struct RawTracker {
    pub(crate) name: Spanned<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    pub(crate) settings: Settings,
}

/// Table of a transform, one of `[transforms]`.
pub(crate) struct RawTransform {
    pub(crate) name: Spanned<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    /// Positions in the text of the values of its keys, by key.
    pub(crate) positions: BTreeMap<&'static str, usize>,
    /// Type of the transform; `None` if it is absent or unknown, which is reported.
    pub(crate) kind: Option<&'static str>,
    /// Type and settings; `None` if a key is invalid, which is reported.
    pub(crate) spec: Option<TransformSpec>,
}

/// Kinds of tables of `[modules]`.
pub(crate) enum RawModuleTable {
    /// A module, or a stage of one.
    Module(Box<RawModule>),
    /// A tracker, which is no module to the policy.
    Tracker(RawTracker),
    /// The model that stands for an operator in Python.
    Model(Box<RawModel>),
}

/// Schedule of a module that runs for a track now and then.
#[derive(Clone)]
pub(crate) struct RawPerTrack {
    pub(crate) at: usize,
    pub(crate) every: Span,
    /// Certainty at which the module stops running for a track; `None`: it never stops.
    pub(crate) until: Option<f32>,
    pub(crate) once: bool,
}

/// Position of a module in a cascade.
#[derive(Clone)]
pub(crate) struct RawStage {
    /// Name of the cascade: that of the module in the text.
    pub(crate) cascade: String,
    /// Index of the stage, from 0.
    pub(crate) index: u32,
    /// Number of stages of the cascade.
    pub(crate) count: u32,
    pub(crate) certainty: Spanned<f32>,
    pub(crate) settle: Settle,
    pub(crate) on_late: OnLate,
    pub(crate) escalate: Spanned<Escalate>,
}

impl RawStage {
    pub(crate) fn is_last(&self) -> bool {
        self.index + 1 == self.count
    }

    /// Returns whether a request that would miss its deadline here continues with the answers that it has.
    pub(crate) fn is_optional(&self) -> bool {
        self.index > 0 && self.on_late == OnLate::Accept
    }
}

pub(crate) struct RawSink {
    pub(crate) name: Spanned<String>,
    pub(crate) kind: Field<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    pub(crate) when_slow: WhenSlow,
    /// Its output file, with the position of the key.
    pub(crate) path: Option<Spanned<String>>,
    /// Whether its type has the key `frames`, which is not given: the inputs decide.
    pub(crate) chooses_frames: bool,
    pub(crate) settings: Settings,
    /// False if a value of its settings was reported.
    pub(crate) is_whole: bool,
}
