//! What a graph says of a transform, checked: values without state.

use std::sync::Arc;

use jiff::tz::TimeZone;
use weir_flow::{Attribute, PictureLimits};

use super::geometry::{Anchor, Polygon, Position, Segment};
use super::schedule::Schedule;

/// What the coordinates of points are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Units {
    /// Parts of the frame's width and height, 0 to 1: they hold for every size of the picture.
    #[default]
    Parts,
    /// Source pixels.
    Pixels,
}

/// Points on the picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Outline {
    /// In their order.
    pub points: Vec<Position>,
    /// What their coordinates are.
    pub units: Units,
}

impl Outline {
    /// In source pixels of frames of that size.
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
    /// Which point of a box stands for its object.
    pub anchor: Anchor,
    /// Where it looks: a polygon, or a line's two points; `None`: the whole frame.
    pub outline: Option<Outline>,
    /// Media time from one update of an incident to the next, in milliseconds.
    pub every_ms: f64,
    /// What it finds.
    pub kind: TransformKind,
}

/// What a transform finds, with the parameters of its kind. Durations are in milliseconds of media time; `margin` and
/// `within` are in parts of an object's size, half the sum of its box's sides.
#[derive(Debug, Clone, PartialEq)]
pub enum TransformKind {
    /// Visits of a polygon.
    Zone {
        /// How far behind the border an object must be for the change to be certain at once.
        margin: f64,
        /// After how long it is certain without that.
        settle_ms: f64,
    },
    /// Crossings of a line.
    Line {
        /// How far behind the line an object must be for its crossing to count.
        margin: f64,
        /// For how long it must be there.
        settle_ms: f64,
        /// Names of the directions: from left to right as seen looking from the first point to the second, and back.
        directions: [Arc<str>; 2],
    },
    /// Speeds on the ground.
    Speed {
        /// Where the four points of the outline are on the ground, in metres.
        ground: [Position; 4],
        /// Over how long a speed is measured.
        window_ms: f64,
        /// Speeds from which on there is an incident, in km/h; 0: always.
        above_kmh: f64,
    },
    /// Objects that stand still.
    Stopped(Still),
    /// Objects that stand still for long, also where their track changes meanwhile.
    Parked {
        /// How long and how still.
        still: Still,
        /// For how long another track at the same place is the same object.
        rejoin_ms: f64,
    },
    /// Objects that move against the allowed direction.
    WrongWay {
        /// From where to where objects may move: two points.
        allowed: Outline,
        /// Angle from the opposite of the allowed direction, in degrees.
        tolerance_deg: f64,
        /// For how long.
        after_ms: f64,
    },
    /// Objects that are in a polygon for long, standing or walking.
    Loitering {
        /// From when on.
        after_ms: f64,
        /// For how long they may leave it meanwhile.
        leave_ms: f64,
    },
    /// Many objects at once.
    Crowd {
        /// From how many on.
        min: u32,
        /// For how long.
        after_ms: f64,
    },
    /// No object.
    Absence {
        /// For how long.
        after_ms: f64,
    },
    /// Tracks that pass a filter.
    Rule(RuleSpec),
    /// The picture in which each track is seen best.
    BestShot(BestShotSpec),
}

/// How long and how still an object stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Still {
    /// From when on there is an incident.
    pub after_ms: f64,
    /// How far it may move meanwhile.
    pub within: f64,
}

/// Which pictures are taken, and how many.
#[derive(Debug, Clone, PartialEq)]
pub struct BestShotSpec {
    /// Transforms whose incidents have the pictures of their tracks; empty: all.
    pub transforms: Vec<Arc<str>>,
    /// What is shown around the object, in parts of the sides of its box.
    pub margin: f32,
    /// Bounds of a picture.
    pub limits: PictureLimits,
    /// How many times better another picture must be to take the place of one, at least 1.
    pub min_gain: f64,
    /// Pictures that are taken of a stream within a second.
    pub per_second: f64,
    /// Tracks of a stream that have pictures at a time.
    pub keep: usize,
}

/// A filter over tracks: all of it must hold.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct RuleSpec {
    /// Least confidence.
    pub min_score: f32,
    /// Zones of the graph, in one of which it must be; empty: anywhere.
    pub zones: Vec<Arc<str>>,
    /// Times at which it may hold.
    pub schedule: Schedule,
    /// Attributes that it must have.
    pub attributes: Vec<(Arc<str>, Wanted)>,
    /// For how long the filter must hold.
    pub after_ms: f64,
    /// For how long it must not hold until the incident is over.
    pub end_after_ms: f64,
}

/// What an attribute must say.
#[derive(Debug, Clone, PartialEq)]
pub enum Wanted {
    /// One of these texts, classes or names; `unknown` is a match that is none.
    OneOf(Vec<Arc<str>>),
    /// A text, class or name that is none of these.
    NoneOf(Vec<Arc<str>>),
    /// A number from the first to the second.
    Between(f64, f64),
}

impl Wanted {
    /// Whether the attribute says so.
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
    /// As the key `type` spells it.
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
        }
    }

    /// Whether it follows objects over time, which needs a tracker.
    #[must_use]
    pub const fn needs_tracks(&self) -> bool {
        !matches!(self, Self::Crowd { .. } | Self::Absence { .. })
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
