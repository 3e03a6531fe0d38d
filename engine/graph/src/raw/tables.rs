//! Single tables as they are in the text, each value with its position where a later check may complain of it.

use std::collections::BTreeMap;

use weir_analytics::transforms::{ObjectFilter, TimeZone, TransformSpec};
use weir_config::{Field, Spanned};
use weir_policy::StreamShare;
use weir_policy::gears::Settle;
use weir_types::Span;

use crate::device::PrepareMode;
use crate::graph::{Decoding, Escalate, OnDrop, OnLate, SourceMode, WhenSlow};
use crate::motion_gate::MotionGateNode;
use crate::queue_node::QueueNode;

pub(crate) struct RawSource {
    pub(crate) name: Spanned<String>,
    pub(crate) uri: Option<String>,
    pub(crate) detect_uri: Option<String>,
    /// As given in the text.
    pub(crate) mode: Option<SourceMode>,
    pub(crate) fps: Option<f64>,
    pub(crate) sample: Option<f64>,
    pub(crate) decoding: Decoding,
    pub(crate) decoder: weir_flow::DeviceKind,
    pub(crate) gate: Option<MotionGateNode>,
    pub(crate) repeat: bool,
    pub(crate) slo: Option<Spanned<Span>>,
    pub(crate) share: StreamShare,
    /// Position of the key `reserve`.
    pub(crate) reserve_at: Option<usize>,
    pub(crate) connection: weir_flow::Connection,
    pub(crate) objects: ObjectFilter,
    /// Classes that `objects` names, with their positions.
    pub(crate) object_classes: BTreeMap<String, usize>,
    pub(crate) timezone: Option<TimeZone>,
    /// Whether it stands for streams that are added while the graph runs.
    pub(crate) is_template: bool,
    /// Where its streams come from the jobs of a queue.
    pub(crate) queue: Option<QueueNode>,
}

impl RawSource {
    pub(super) fn template(name: Spanned<String>) -> Self {
        Self {
            name,
            uri: None,
            detect_uri: None,
            mode: None,
            fps: None,
            sample: None,
            decoding: Decoding::default(),
            decoder: weir_flow::DeviceKind::Cpu,
            gate: None,
            repeat: false,
            slo: None,
            share: StreamShare::default(),
            reserve_at: None,
            connection: weir_flow::Connection::default(),
            objects: ObjectFilter::default(),
            object_classes: BTreeMap::new(),
            timezone: None,
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

#[derive(Clone)]
pub(crate) struct RawModule {
    pub(crate) name: Spanned<String>,
    /// Its name in the catalog, where it is there.
    pub(crate) operator: Field<String>,
    pub(crate) model: Field<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) regions: Field<Vec<Spanned<String>>>,
    pub(crate) weight: f64,
    /// Position of the key `labels`.
    pub(crate) labels_at: Option<usize>,
    /// Where it says what its items are, whether or not the word is known.
    pub(crate) items_at: Option<usize>,
    /// Where it runs for a track now and then.
    pub(crate) per_track: Option<RawPerTrack>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    /// Where it is a stage of a cascade; its stages follow each other.
    pub(crate) stage: Option<RawStage>,
    /// `None` where it does not say: then as the modules before it.
    pub(crate) on_drop: Option<OnDrop>,
    pub(crate) settings: weir_flow::Settings,
}

/// A tracker.
pub(crate) struct RawTracker {
    pub(crate) name: Spanned<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    pub(crate) settings: weir_flow::Settings,
}

/// A transform.
pub(crate) struct RawTransform {
    pub(crate) name: Spanned<String>,
    pub(crate) inputs: Field<Vec<Spanned<String>>>,
    pub(crate) streams: Field<Vec<Spanned<String>>>,
    /// Where the values of its keys are.
    pub(crate) positions: BTreeMap<&'static str, usize>,
    /// Its type, where it is known.
    pub(crate) kind: Option<&'static str>,
    /// Where all of its keys are sound.
    pub(crate) spec: Option<TransformSpec>,
}

/// What a table of `[modules]` is.
pub(crate) enum RawModuleTable {
    /// A module, or a stage of one.
    Module(Box<RawModule>),
    /// A tracker, which is no module to the policy.
    Tracker(RawTracker),
}

/// How often a module runs for one track.
#[derive(Clone)]
pub(crate) struct RawPerTrack {
    pub(crate) at: usize,
    pub(crate) every: Span,
    /// `None`: it goes on.
    pub(crate) until: Option<f32>,
    pub(crate) once: bool,
}

/// What a module is in a cascade.
#[derive(Clone)]
pub(crate) struct RawStage {
    /// Name of the module in the text.
    pub(crate) cascade: String,
    /// From 0.
    pub(crate) index: u32,
    /// Stages of the cascade.
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

    /// Whether requests without the time for it go on without.
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
    pub(crate) settings: weir_flow::Settings,
}
