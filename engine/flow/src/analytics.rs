//! Results over time: tracks of objects, and incidents that transforms derive from them. Ids are unique
//! within a stream, also across restarts.

use std::sync::Arc;

use crate::geometry::{Point, Rect};
use crate::picture::Picture;
use crate::results::Attribute;

/// State of an object's track at one frame.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrackState {
    /// `(seconds since 1970 at which the tracker began << 20) + number`. Below 2^53, so every JSON reader
    /// represents it exactly.
    pub id: u64,
    /// Media time since the track began, in milliseconds.
    pub age_ms: f64,
    /// Media time since the object came to stand where it is, in milliseconds; `None` unless it is stationary.
    pub stationary_ms: Option<f64>,
    /// Velocity of the box's centre, in source pixels per second.
    pub velocity: Point,
    /// Most frequent class of the track's objects.
    pub class: Arc<str>,
    /// Attributes aggregated over the track, by name: its own, and those of objects found within it.
    pub attributes: Arc<[(Arc<str>, Attribute)]>,
}

impl TrackState {
    /// Bits of an id that are the number of the track; the seconds are above them.
    pub const NUMBER_BITS: u32 = 20;

    /// Number of the track within its stream since the start, from 0: short enough for a label.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.id & ((1 << Self::NUMBER_BITS) - 1)
    }
}

/// Track that ended: its object was not seen for the tracker's `lost_after`, or its stream ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackEnd {
    /// [`TrackState::id`].
    pub id: u64,
    /// The class that most of its objects had.
    pub class: Arc<str>,
    /// Time of the first detection, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// Time of the last detection, in milliseconds since 1970 (UTC).
    pub last_seen_ms: u64,
    /// Media time of its first frame in milliseconds.
    pub began_pts_ms: f64,
    /// Media time of its last frame in milliseconds.
    pub last_pts_ms: f64,
    /// Attributes as they settled over the track, by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

/// Phase of an incident in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// The incident began with this event.
    Began,
    /// The incident continues, and one of its values changed.
    Updated,
    /// The incident ended with this event.
    Ended,
}

impl Phase {
    /// Name of the phase in event lines.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Began => "began",
            Self::Updated => "updated",
            Self::Ended => "ended",
        }
    }
}

/// Something that happened and that a transform found: it begins, is updated and ends. What has no duration, such as the
/// crossing of a line, is one [`Phase::Ended`].
#[derive(Debug, Clone, PartialEq)]
pub struct Incident {
    /// `<stream>/<transform>/<number>`, the number as of tracks: unique over restarts.
    pub id: Arc<str>,
    /// Name of the transform in the graph.
    pub transform: Arc<str>,
    /// Type of the transform.
    pub kind: &'static str,
    /// Phase of the incident.
    pub phase: Phase,
    /// Track that it concerns; `None` if it concerns no single track.
    pub track: Option<u64>,
    /// Class of that track.
    pub class: Option<Arc<str>>,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Box of the object now, in source pixels.
    pub rect: Option<Rect>,
    /// Time at which it began, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// Time of this event, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Media time at which it began, in milliseconds.
    pub began_pts_ms: f64,
    /// Media time at which it was so, in milliseconds.
    pub pts_ms: f64,
    /// Zones that the object is in now.
    pub zones: Vec<Arc<str>>,
    /// Values that the transform measures, by name; the end of the name is the unit (`dwell_s`).
    pub values: Vec<(&'static str, IncidentValue)>,
    /// Attributes aggregated over the track, by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
    /// Best picture of its object so far, for transforms that take pictures (`best-shot`).
    pub best: Option<Arc<BestShot>>,
}

/// Words of a model about the picture of an incident. They come some time after the incident.
#[derive(Debug, Clone, PartialEq)]
pub struct Description {
    /// Name of the stream.
    pub stream: Arc<str>,
    /// Event of the incident whose picture the model saw.
    pub incident: Arc<Incident>,
    /// True if it holds for all incidents of the track.
    pub of_track: bool,
    /// Name of the model at its server.
    pub model: Arc<str>,
    /// Words of the model in one line.
    pub text: Arc<str>,
    /// Answers by name, if the model was asked for several.
    pub fields: Vec<(Arc<str>, IncidentValue)>,
    /// Arrival of the answer, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Tokens of the request, with those of the picture.
    pub tokens_in: u64,
    /// Tokens of the answer.
    pub tokens_out: u64,
}

/// A value that a kind of incident measures.
#[derive(Debug, Clone, PartialEq)]
pub enum IncidentValue {
    /// Number in the unit given by the end of its name.
    Number(f64),
    /// A word, such as a direction.
    Text(Arc<str>),
}

/// The picture in which an object is seen best.
#[derive(Debug, Clone)]
pub struct BestShot {
    /// Pixels of the object, or their JPEG.
    pub picture: Arc<dyn Picture>,
    /// Box of the object in source pixels.
    pub rect: Rect,
    /// Confidence of the object, 0 to 1.
    pub score: f32,
    /// [`Frame::index`](crate::Frame::index).
    pub frame: u64,
    /// [`Frame::pts_ms`](crate::Frame::pts_ms).
    pub pts_ms: f64,
}

impl BestShot {
    /// JPEG of at most 256 KiB. The first call encodes it, which takes milliseconds on the calling thread.
    #[must_use]
    pub fn jpeg(&self) -> &[u8] {
        self.picture.jpeg()
    }
}

/// Compares the object and the frame, not the pixels.
impl PartialEq for BestShot {
    fn eq(&self, other: &Self) -> bool {
        (self.frame, self.rect, self.score) == (other.frame, other.rect, other.score)
            && self.pts_ms.total_cmp(&other.pts_ms).is_eq()
    }
}

/// Shapes and texts that a transform draws on a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Name of the transform in the graph.
    pub transform: Arc<str>,
    /// Type of the transform.
    pub kind: &'static str,
    /// Corners of a zone or ends of a line in source pixels; empty if the transform has no shape.
    pub points: Vec<Point>,
    /// True if the last corner is connected to the first.
    pub is_closed: bool,
    /// Counts and states as text; may be empty.
    pub text: Arc<str>,
    /// Texts beside the boxes of tracks.
    pub tags: Vec<(u64, Arc<str>)>,
}

impl Overlay {
    /// Kind of the masks of a camera, which are no transforms.
    pub const MASK: &'static str = "mask";
}
