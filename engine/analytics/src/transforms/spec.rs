//! Checked settings of a transform, as a graph gives them: values without state.

use std::sync::Arc;

use jiff::tz::TimeZone;
use weir_flow::{Attribute, CameraTopic, PictureLimits, Settings};

use super::geometry::{Anchor, Polygon, Position, Segment};
use super::schedule::Schedule;

/// Unit of the coordinates of points.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Units {
    /// Parts of the frame's width and height, 0 to 1: they hold for every size of the picture.
    #[default]
    Parts,
    /// Pixels of the source's frames, from their upper left corner.
    Pixels,
}

/// Points on the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// Points in the order of the text.
    pub points: Vec<Position>,
    /// Unit of their coordinates.
    pub units: Units,
}

impl Outline {
    /// Returns the points in source pixels of frames of that size.
    #[must_use]
    pub fn in_pixels(&self, width: f64, height: f64) -> Vec<Position> {
        let scale = match self.units {
            Units::Parts => (width, height),
            Units::Pixels => (1.0, 1.0),
        };
        let points = self.points.iter();
        points
            .map(|point| Position::new(point.x * scale.0, point.y * scale.1))
            .collect()
    }

    /// The first point in pixels that lies outside frames of that size.
    #[must_use]
    pub fn point_outside(&self, width: u32, height: u32) -> Option<Position> {
        let (width, height) = (f64::from(width), f64::from(height));
        let is_outside = |point: &&Position| point.x > width || point.y > height;
        let mut points = self.points.iter();
        points
            .find(is_outside)
            .copied()
            .filter(|_| self.units == Units::Pixels)
    }

    pub(crate) fn polygon(&self, width: f64, height: f64) -> Polygon {
        Polygon(self.in_pixels(width, height))
    }

    /// The segment from its first point to its second.
    pub(crate) fn segment(&self, width: f64, height: f64) -> Segment {
        let points = self.in_pixels(width, height);
        let point = |index: usize| points.get(index).copied().unwrap_or_default();
        Segment {
            from: point(0),
            to: point(1),
        }
    }
}

/// A transform of a graph.
#[derive(Debug, Clone, PartialEq)]
pub struct TransformSpec {
    /// Classes of the objects that it takes; empty: all.
    pub classes: Vec<Arc<str>>,
    /// Point of a box that stands for its object.
    pub anchor: Anchor,
    /// Polygon, or the two points of a line, on the picture; `None`: the whole frame.
    pub outline: Option<Outline>,
    /// Interval between two updates of an incident, in milliseconds of media time.
    pub every_ms: f64,
    /// Kind of the transform, with its parameters.
    pub kind: TransformKind,
}

/// Kind of a transform, with its parameters. Durations are in milliseconds of media time; `margin` and
/// `within` are in parts of an object's size, half the sum of its box's sides.
#[derive(Debug, Clone, PartialEq)]
pub enum TransformKind {
    /// Visits of a polygon.
    Zone {
        /// Distance from the border beyond which a change of sides counts at once.
        margin: f64,
        /// Time after which a change counts nearer to the border.
        settle_ms: f64,
    },
    /// Crossings of a line.
    Line {
        /// Distance behind the line that an object must have for its crossing to count.
        margin: f64,
        /// Time for which it must keep that distance.
        settle_ms: f64,
        /// Names of the directions: from left to right, seen from the first point towards the second, and
        /// back.
        directions: [Arc<str>; 2],
    },
    /// Speeds on the ground.
    Speed {
        /// Positions on the ground of the four points of the outline, in metres.
        ground: [Position; 4],
        /// Time over which a speed is measured.
        window_ms: f64,
        /// Least speed of an incident, in km/h; 0: every speed.
        above_kmh: f64,
    },
    /// Objects that stand still.
    Stopped(Still),
    /// Objects that stand still for long, also where their track changes meanwhile.
    Parked {
        /// Time and distance by which an object stands still.
        still: Still,
        /// Time for which another track that begins at the same place is the same object.
        rejoin_ms: f64,
    },
    /// Objects that move against the allowed direction.
    WrongWay {
        /// Allowed direction, from the first of two points to the second.
        allowed: Outline,
        /// Largest angle, in degrees, from the opposite of the allowed direction.
        tolerance_deg: f64,
        /// Time over which the way of an object is measured.
        after_ms: f64,
    },
    /// Objects that are in a polygon for long, standing or walking.
    Loitering {
        /// Time in the polygon after which an incident begins.
        after_ms: f64,
        /// Time for which objects may leave the polygon meanwhile.
        leave_ms: f64,
    },
    /// Many objects at once.
    Crowd {
        /// Least number of objects.
        min: u32,
        /// Time for which at least so many objects must be there.
        after_ms: f64,
    },
    /// A polygon without objects.
    Absence {
        /// Time for which no object must be there.
        after_ms: f64,
    },
    /// Tracks that pass a filter.
    Rule(RuleSpec),
    /// The picture in which each track is seen best.
    BestShot(BestShotSpec),
    /// Events that the camera reports.
    CameraEvent(CameraEventSpec),
    /// Incidents and attributes that a program of the user gives, with its keys. Nothing of it is computed here.
    Python(Arc<Settings>),
}

/// Choice of the events of a camera.
#[derive(Debug, Clone, PartialEq)]
pub struct CameraEventSpec {
    /// Topics that count.
    pub topics: Vec<CameraTopic>,
    /// Part of the camera that they must be of, such as `Rule=Yard` or `Yard`; `None`: any.
    pub from: Option<Arc<str>>,
}

/// Time and distance by which an object stands still.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Still {
    /// Time after which an incident begins.
    pub after_ms: f64,
    /// Distance that the object may move meanwhile, in parts of its size.
    pub within: f64,
}

/// Choice and number of pictures of tracks.
#[derive(Debug, Clone, PartialEq)]
pub struct BestShotSpec {
    /// Transforms whose incidents have the pictures of their tracks; empty: all.
    pub transforms: Vec<Arc<str>>,
    /// Margin around the object, in parts of the sides of its box.
    pub margin: f32,
    /// Bounds of a picture.
    pub limits: PictureLimits,
    /// Factor, at least 1, by which a new picture must be better to replace the old one.
    pub min_gain: f64,
    /// Maximum number of pictures that are taken of a stream within a second.
    pub per_second: f64,
    /// Maximum number of tracks of a stream that have pictures at a time.
    pub keep: usize,
    /// True if no pictures are taken of stationary objects.
    pub skips_stationary: bool,
}

/// A filter over tracks; all of its conditions must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuleSpec {
    /// Least confidence of the object, 0 to 1.
    pub min_score: f32,
    /// Zones of the graph, of which the object must be in one; empty: anywhere.
    pub zones: Vec<Arc<str>>,
    /// Times at which it may hold.
    pub schedule: Schedule,
    /// Attributes that it must have.
    pub attributes: Vec<(Arc<str>, Wanted)>,
    /// True if the object must not be stationary.
    pub skips_stationary: bool,
    /// Time for which the filter must hold before an incident begins.
    pub after_ms: f64,
    /// Time for which the filter must not hold before the incident ends.
    pub end_after_ms: f64,
}

/// Condition on the value of an attribute.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// The value is one of these texts, classes or names; `unknown` stands for a match without a name.
    OneOf(Vec<Arc<str>>),
    /// The value is a text, class or name that is none of these.
    NoneOf(Vec<Arc<str>>),
    /// The value is a number from the first to the second.
    Between(f64, f64),
}

impl Wanted {
    /// Returns whether the attribute meets the condition.
    #[must_use]
    pub fn is_met_by(&self, attribute: &Attribute) -> bool {
        let is_listed = |said: &str| match self {
            Self::OneOf(words) => words.iter().any(|word| **word == *said),
            Self::NoneOf(words) => !said.is_empty() && words.iter().all(|word| **word != *said),
            Self::Between(..) => false,
        };
        match attribute {
            Attribute::Text { text, .. } => is_listed(text),
            Attribute::Class { class, .. } => is_listed(class),
            Attribute::Match { r#match, .. } => is_listed(r#match.as_deref().unwrap_or("unknown")),
            Attribute::Number { value } => match self {
                Self::Between(min, max) => (*min..=*max).contains(&f64::from(*value)),
                Self::OneOf(_) | Self::NoneOf(_) => false,
            },
            Attribute::Angles { .. }
            | Attribute::Direction { .. }
            | Attribute::Points(_)
            | Attribute::Iris { .. } => false,
        }
    }
}

impl TransformKind {
    /// Returns the value of the key `type`.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Zone { .. } => "zone",
            Self::Line { .. } => "line",
            Self::Speed { .. } => "speed",
            Self::Stopped(_) => "stopped",
            Self::Parked { .. } => "parked",
            Self::WrongWay { .. } => "wrong-way",
            Self::Loitering { .. } => "loitering",
            Self::Crowd { .. } => "crowd",
            Self::Absence { .. } => "absence",
            Self::Rule(_) => "rule",
            Self::BestShot(_) => "best-shot",
            Self::CameraEvent(_) => "camera-event",
            Self::Python(_) => "python",
        }
    }

    /// Whether it follows objects over time, which needs a tracker.
    #[must_use]
    pub const fn needs_tracks(&self) -> bool {
        !matches!(
            self,
            Self::Crowd { .. } | Self::Absence { .. } | Self::CameraEvent(_) | Self::Python(_)
        )
    }
}

impl TransformSpec {
    /// All its points on the picture.
    pub fn outlines(&self) -> impl Iterator<Item = &Outline> {
        let allowed = match &self.kind {
            TransformKind::WrongWay { allowed, .. } => Some(allowed),
            _ => None,
        };
        self.outline.iter().chain(allowed)
    }

    /// The edge of frames of that size on which the line of a transform lies, so that no anchor, which is within the frame, ever
    /// comes behind it.
    #[must_use]
    pub fn edge_of_line(&self, width: f64, height: f64) -> Option<&'static str> {
        /// Distance from the edge, in parts of the frame, within which a line lies on it.
        const ON_EDGE: f64 = 0.005;
        if !matches!(self.kind, TransformKind::Line { .. }) {
            return None;
        }
        let points = self.outline.as_ref()?.in_pixels(width, height);
        let lies_on = |distance: &dyn Fn(&Position) -> f64| points.iter().all(|at| distance(at) <= ON_EDGE);
        if lies_on(&|at| at.x / width) {
            Some("left")
        } else if lies_on(&|at| 1.0 - at.x / width) {
            Some("right")
        } else if lies_on(&|at| at.y / height) {
            Some("upper")
        } else if lies_on(&|at| 1.0 - at.y / height) {
            Some("lower")
        } else {
            None
        }
    }

    /// The transform, with its schedule in the time zone of a stream where it has none of its own.
    #[must_use]
    pub fn in_zone(mut self, zone: &TimeZone) -> Self {
        if let TransformKind::Rule(rule) = &mut self.kind {
            rule.schedule = std::mem::take(&mut rule.schedule).in_zone(zone);
        }
        self
    }

    /// Whether it takes objects of that class.
    #[must_use]
    pub fn takes(&self, class: &str) -> bool {
        self.classes.is_empty() || self.classes.iter().any(|taken| **taken == *class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_attribute_is_met_by_its_text_and_a_stranger_is_unknown() {
        let wanted = Wanted::OneOf(vec!["unknown".into(), "ada".into()]);
        let identity = |name: Option<&str>| Attribute::Match {
            r#match: name.map(Into::into),
            cosine: Some(0.3),
            vector: None,
        };
        assert!(wanted.is_met_by(&identity(None)) && wanted.is_met_by(&identity(Some("ada"))));
        assert!(!wanted.is_met_by(&identity(Some("bob"))));
        let known = Wanted::NoneOf(vec!["unknown".into()]);
        assert!(known.is_met_by(&identity(Some("bob"))) && !known.is_met_by(&identity(None)));
        let text = |text: &str| Attribute::Text {
            text: text.to_owned(),
            score: 0.9,
        };
        let any = Wanted::NoneOf(Vec::new());
        assert!(any.is_met_by(&text("WR 123")) && !any.is_met_by(&text("")));
        assert!(Wanted::Between(1.0, 2.0).is_met_by(&Attribute::Number { value: 2.0 }));
    }
}
