//! What is known over time: tracks of objects, and incidents that transforms find in them. Ids are unique within a stream,
//! also over restarts.

use std::sync::Arc;

use crate::geometry::{Point, Rect};
use crate::picture::Picture;
use crate::results::Attribute;

/// Where an object is in its track, and what is known of it by then.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrackState {
    /// `(seconds since 1970 at which the tracker began << 20) + number`: below 2^53, so exact in every JSON reader.
    pub id: u64,
    /// Media time since the track began, in milliseconds.
    pub age_ms: f64,
    /// Velocity of the box's centre, in source pixels a second.
    pub velocity: Point,
    /// The class that most of its objects had.
    pub class: Arc<str>,
    /// Attributes as they settled over the track, by name: its own, and those of objects found within it.
    pub attributes: Arc<[(Arc<str>, Attribute)]>,
}

impl TrackState {
    /// Bits of an id that are the number of the track; the seconds are above them.
    pub const NUMBER_BITS: u32 = 20;

    /// Its number among those of the stream since it began, from 0: short enough to be drawn.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.id & ((1 << Self::NUMBER_BITS) - 1)
    }
}

/// A track that ended: nothing of it was seen for the tracker's `lost_after`, or its stream ended.
#[derive(Debug, Clone, PartialEq)]
pub struct TrackEnd {
    /// [`TrackState::id`].
    pub id: u64,
    /// The class that most of its objects had.
    pub class: Arc<str>,
    /// When it was seen first, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// When it was seen last, in milliseconds since 1970 (UTC).
    pub last_seen_ms: u64,
    /// Media time of its first frame in milliseconds.
    pub began_pts_ms: f64,
    /// Media time of its last frame in milliseconds.
    pub last_pts_ms: f64,
    /// Attributes as they settled over the track, by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
}

/// How far an incident is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// It began.
    Began,
    /// It goes on, and something about it changed.
    Updated,
    /// It is over.
    Ended,
}

impl Phase {
    /// As event lines spell it.
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
    /// How far it is.
    pub phase: Phase,
    /// The track that it is about, if it is about one.
    pub track: Option<u64>,
    /// Class of that track.
    pub class: Option<Arc<str>>,
    /// Confidence, 0 to 1.
    pub score: f32,
    /// Box of the object now, in source pixels.
    pub rect: Option<Rect>,
    /// When it began, in milliseconds since 1970 (UTC).
    pub began_ms: u64,
    /// When it was so, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
    /// Media time at which it began, in milliseconds.
    pub began_pts_ms: f64,
    /// Media time at which it was so, in milliseconds.
    pub pts_ms: f64,
    /// Zones that the object is in now.
    pub zones: Vec<Arc<str>>,
    /// What the kind measures, by name; the unit is the end of the name (`dwell_s`).
    pub values: Vec<(&'static str, IncidentValue)>,
    /// Attributes as they settled over the track, by name.
    pub attributes: Vec<(Arc<str>, Attribute)>,
    /// The best picture of its object so far, where a transform takes pictures (`best-shot`).
    pub best: Option<Arc<BestShot>>,
}

/// A value that a kind of incident measures.
#[derive(Debug, Clone, PartialEq)]
pub enum IncidentValue {
    /// In the unit that its name ends with.
    Number(f64),
    /// A word, such as a direction.
    Text(Arc<str>),
}

/// The picture in which an object is seen best.
#[derive(Debug, Clone)]
pub struct BestShot {
    /// Its pixels, or the JPEG of them.
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
    /// A JPEG, at most 256 KiB. It is encoded when it is asked for first, which takes milliseconds of the thread that asks.
    #[must_use]
    pub fn jpeg(&self) -> &[u8] {
        self.picture.jpeg()
    }
}

/// The same object in the same frame.
impl PartialEq for BestShot {
    fn eq(&self, other: &Self) -> bool {
        (self.frame, self.rect, self.score) == (other.frame, other.rect, other.score)
            && self.pts_ms.total_cmp(&other.pts_ms).is_eq()
    }
}

/// What a transform shows on a picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Name of the transform in the graph.
    pub transform: Arc<str>,
    /// Type of the transform.
    pub kind: &'static str,
    /// Corners of a zone or ends of a line in source pixels; empty where it has none.
    pub points: Vec<Point>,
    /// Whether the last corner is joined with the first.
    pub is_closed: bool,
    /// What it counts, in words; may be empty.
    pub text: Arc<str>,
    /// Texts beside the boxes of tracks.
    pub tags: Vec<(u64, Arc<str>)>,
}
