//! A stream of a graph: a camera or a recording, with its settings.

use std::path::Path;

use weir_analytics::Privacy;
use weir_analytics::transforms::{ObjectFilter, Schedule, TimeZone};
use weir_flow::{Connection, VideoDecoder};
use weir_policy::StreamShare;
use weir_types::Span;

use crate::gate_node::GateNode;

/// Behaviour of a source when the graph is overloaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum SourceMode {
    /// Frames that would be late are dropped.
    #[default]
    Live,
    /// Backpressure: the source waits, and nothing is dropped.
    Lossless,
}

impl SourceMode {
    /// The mode of a source at `uri` where its graph sets none: a folder of images, or an image, is an archive, of which
    /// every frame is processed; anything else is treated as a camera.
    #[must_use]
    pub fn default_for(uri: &str) -> Self {
        if uri.contains("://") {
            return Self::Live;
        }
        let path = Path::new(uri.strip_prefix("file:").unwrap_or(uri));
        if path.is_dir() || weir_flow::is_image(path) {
            Self::Lossless
        } else {
            Self::Live
        }
    }
}

/// Share of a live source that is decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Decoding {
    /// Under overload, only frames that can be used are decoded; the others are dropped before decoding.
    #[default]
    AsNeeded,
    /// Every frame is decoded, even if it is dropped afterwards.
    All,
}

/// A stream: a camera or a recording, with its settings.
#[derive(Debug, Clone, PartialEq)]
pub struct SourceNode {
    /// Name, unique among sources, modules and sinks.
    pub name: String,
    /// File (made absolute), URL, device, folder, or `emulated:...`.
    pub uri: String,
    /// The address of a smaller stream of the same pictures that its frames come from; `None`: they come from `uri`.
    pub detect_uri: Option<String>,
    /// Behaviour under overload: dropping frames or backpressure.
    pub mode: SourceMode,
    /// Whether the graph sets the mode; else it is [`SourceMode::default_for`] the address that frames come from.
    pub mode_given: bool,
    /// Frames a second of a source that does not carry its rate; `None` where not given.
    pub fps: Option<f64>,
    /// Frames a second of media time that are sampled, evenly; `None`: all.
    pub sample: Option<f64>,
    /// Share of its frames that is decoded under overload, if the source is live.
    pub decoding: Decoding,
    /// Device that decodes it. A GPU decodes what its hardware supports; the CPU decodes the rest.
    pub decoder: VideoDecoder,
    /// Its gate; `None`: every frame is looked at.
    pub gate: Option<GateNode>,
    /// Times at which its gate applies; at other times every frame is looked at. `None`: always.
    pub gate_schedule: Option<Schedule>,
    /// Times at which its frames are analysed; at other times they count as still. `None`: always.
    pub active: Option<Schedule>,
    /// Whether it restarts at its end.
    pub repeat: bool,
    /// Its own latency objective; `None`: the graph's.
    pub slo: Option<Span>,
    /// Weight and reserved rate under overload.
    pub share: StreamShare,
    /// Transport and FFmpeg options of its connection.
    pub connection: Connection,
    /// Objects in its picture that count.
    pub objects: ObjectFilter,
    /// Objects and regions that its pictures hide; `None`: those of `[defaults]` of the graph.
    pub privacy: Option<Privacy>,
    /// Its time zone; `None`: that of the graph.
    pub timezone: Option<TimeZone>,
    /// Names of the groups of cameras that it belongs to.
    pub groups: Vec<String>,
    /// Whether a recording is played at the pace of the run; else as fast as it is processed.
    pub paced: bool,
    /// The fraction of a recording (0 to 1) that it is joined at, as a camera is; 0: it begins at its start. Not a key: copies of
    /// one recording have it.
    pub joined_at: f64,
}

impl SourceNode {
    /// A stream of which no more is given.
    #[must_use]
    pub fn new(name: impl Into<String>, uri: impl Into<String>) -> Self {
        let uri = uri.into();
        Self {
            name: name.into(),
            mode: SourceMode::default_for(&uri),
            mode_given: false,
            uri,
            detect_uri: None,
            fps: None,
            sample: None,
            decoding: Decoding::default(),
            decoder: VideoDecoder::Cpu,
            gate: None,
            gate_schedule: None,
            active: None,
            repeat: false,
            slo: None,
            share: StreamShare::default(),
            connection: Connection::default(),
            objects: ObjectFilter::default(),
            privacy: None,
            timezone: None,
            groups: Vec::new(),
            paced: true,
            joined_at: 0.0,
        }
    }

    /// The source with its schedules in its own time zone, else in `zone`, that of its graph.
    pub(crate) fn in_zone(mut self, zone: Option<&TimeZone>) -> Self {
        if let Some(zone) = self.timezone.as_ref().or(zone) {
            self.gate_schedule = self.gate_schedule.map(|schedule| schedule.in_zone(zone));
            self.active = self.active.map(|schedule| schedule.in_zone(zone));
        }
        self
    }

    /// The address that its frames come from.
    #[must_use]
    pub fn frames_uri(&self) -> &str {
        self.detect_uri.as_deref().unwrap_or(&self.uri)
    }

    /// All addresses that it is contacted at: its own, and that of the device service of its camera.
    pub fn contacted(&self) -> impl Iterator<Item = &str> {
        let service = self.connection.onvif.as_ref();
        self.uris().chain(service.map(|service| service.address.as_str()))
    }

    /// All its addresses; only [`SourceNode::frames_uri`] is opened for frames.
    pub fn uris(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.uri.as_str()).chain(self.detect_uri.as_deref())
    }
}
