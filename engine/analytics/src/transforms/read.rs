//! Reads a transform from the keys of a table, and checks their values together.

use std::sync::Arc;

use jiff::tz::TimeZone;
pub use weir_flow::KeyFault as Fault;
use weir_flow::{CameraTopic, PYTHON_FUNCTION, PictureLimits, Settings, Value};

use super::geometry::{Anchor, Homography, PolygonFault, Position, check_polygon};
use super::schedule::{Schedule, ScheduleKeys, parse_offset};
use super::spec::{
    BestShotSpec, CameraEventSpec, Outline, RuleSpec, Still, TransformKind, TransformSpec, Units, Wanted,
};

/// Smallest area of a polygon, and length of a line, in parts of the frame.
const MIN_AREA: f64 = 1e-4;
const MIN_LENGTH: f64 = 1e-3;
/// The same in pixels.
const MIN_AREA_PX: f64 = 16.0;
const MIN_LENGTH_PX: f64 = 2.0;

/// Bytes of a picture.
const MIN_JPEG_BYTES: f64 = 4096.0;
const MAX_JPEG_BYTES: f64 = 262_144.0;

/// Corners of a polygon: each costs a step for each object.
const MAX_POINTS: usize = 256;

/// Reads a transform of type `kind` from its keys, whose values have the kinds of [`super::TRANSFORM_TYPES`].
///
/// # Errors
/// All [`Fault`]s.
pub fn read_transform(kind: &str, settings: &Settings) -> Result<TransformSpec, Vec<Fault>> {
    let mut reader = Reader {
        settings,
        units: match settings.text("units") {
            Some("pixels") => Units::Pixels,
            _ => Units::Parts,
        },
        faults: Vec::new(),
    };
    let needs_points = matches!(kind, "zone" | "line" | "speed" | "loitering");
    let outline = reader.outline("points", kind, needs_points);
    let kind = reader.kind(kind, outline.as_ref());
    if !reader.faults.is_empty() {
        return Err(reader.faults);
    }
    let classes = settings.texts("classes").unwrap_or_default().iter();
    Ok(TransformSpec {
        classes: classes.map(|class| Arc::from(class.as_str())).collect(),
        anchor: match settings.text("anchor") {
            Some("center") => Anchor::Center,
            _ => Anchor::Bottom,
        },
        outline,
        every_ms: reader.ms("every", 5.0),
        kind,
    })
}

/// Corners of a polygon on the picture, in parts of its width and height, as a key has them.
///
/// # Errors
/// All [`Fault`]s of the polygon.
pub fn read_polygon(key: &'static str, points: Vec<[f64; 2]>) -> Result<Outline, Vec<Fault>> {
    let settings = Settings([(key.to_owned(), Value::Points(points))].into());
    let mut reader = Reader {
        settings: &settings,
        units: Units::Parts,
        faults: Vec::new(),
    };
    reader.outline(key, "zone", true).ok_or(reader.faults)
}

struct Reader<'a> {
    settings: &'a Settings,
    units: Units,
    faults: Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&mut self, key: &'static str, message: impl Into<String>, hint: &str) {
        self.faults.push(Fault {
            key,
            message: message.into(),
            hint: (!hint.is_empty()).then(|| hint.to_owned()),
        });
    }

    /// A duration, in milliseconds.
    fn ms(&self, key: &str, default_s: f64) -> f64 {
        self.settings.number(key, default_s) * 1e3
    }

    /// The points of a key, where it has any.
    fn points(&self, key: &str) -> Option<Vec<Position>> {
        let points = self.settings.points(key)?.iter();
        Some(points.map(|[x, y]| Position::new(*x, *y)).collect())
    }

    /// Points on the picture, which lie within it. The first corner of a polygon may be repeated as its last, as programs for drawing
    /// do, and corners may stand twice in a row.
    fn outline(&mut self, key: &'static str, kind: &str, is_required: bool) -> Option<Outline> {
        let is_segment = key == "direction" || kind == "line";
        let points = self.points(key).map(|mut points| {
            if !is_segment {
                points.dedup();
                if points.len() > 1 && points.first() == points.last() {
                    points.pop();
                }
            }
            points
        });
        let Some(points) = points else {
            if is_required {
                let hint =
                    "points = [[0.1, 0.5], [0.9, 0.5]]: `weir zones CLIP` draws a grid to take them from";
                self.fault(key, format!("it has no `{key}`"), hint);
            }
            return None;
        };
        if points.len() > MAX_POINTS {
            self.fault(
                key,
                format!("`{key}` has {} points; {MAX_POINTS} are the most", points.len()),
                "",
            );
            return None;
        }
        let is_within = |point: &&Position| match self.units {
            Units::Parts => (0.0..=1.0).contains(&point.x) && (0.0..=1.0).contains(&point.y),
            Units::Pixels => point.x >= 0.0 && point.y >= 0.0,
        };
        if let Some(Position { x, y }) = points.iter().find(|point| !is_within(point)) {
            let message = format!("`{key}`: [{x}, {y}] lies outside the frame");
            let hint = match self.units {
                Units::Parts => "coordinates are parts of the frame, 0 to 1; for pixels: units = \"pixels\"",
                Units::Pixels => "pixels count from 0 at the left and at the top",
            };
            self.fault(key, message, hint);
            return None;
        }
        let outline = Outline {
            points,
            units: self.units,
        };
        let is_sound = if is_segment {
            self.check_ends(key, &outline.points)
        } else {
            self.check_corners(key, &outline.points)
        };
        is_sound.then_some(outline)
    }

    /// Two points that are not the same.
    fn check_ends(&mut self, key: &'static str, points: &[Position]) -> bool {
        let [from, to] = points else {
            let message = format!("`{key}` has {} points, and must have two", points.len());
            self.fault(
                key,
                message,
                "from one end to the other: [[0.1, 0.5], [0.9, 0.5]]",
            );
            return false;
        };
        let min = match self.units {
            Units::Parts => MIN_LENGTH,
            Units::Pixels => MIN_LENGTH_PX,
        };
        let is_long = from.distance(*to) >= min;
        if !is_long {
            self.fault(
                key,
                format!("`{key}` has no length"),
                "its two points must differ",
            );
        }
        is_long
    }

    fn check_corners(&mut self, key: &'static str, points: &[Position]) -> bool {
        let min = match self.units {
            Units::Parts => MIN_AREA,
            Units::Pixels => MIN_AREA_PX,
        };
        let (message, hint) = match check_polygon(points, min) {
            Ok(()) => return true,
            Err(PolygonFault::TooFew) => (
                format!(
                    "`{key}` has {} points, and a polygon at least three",
                    points.len()
                ),
                "its corners, in their order",
            ),
            Err(PolygonFault::Flat) => (
                format!("`{key}`: the polygon has next to no area"),
                "its corners, in their order",
            ),
            Err(PolygonFault::Crosses(one, other)) => (
                format!(
                    "`{key}`: the polygon crosses itself, where the edge from point {} meets that from point {}",
                    one + 1,
                    other + 1
                ),
                "name its corners in their order around it",
            ),
        };
        self.fault(key, message, hint);
        false
    }

    fn still(&self, after_s: f64) -> Still {
        Still {
            after_ms: self.ms("after", after_s),
            within: self.settings.number("within", 0.2),
        }
    }

    fn kind(&mut self, kind: &str, outline: Option<&Outline>) -> TransformKind {
        let settings = self.settings;
        let margin = settings.number("margin", 0.1);
        match kind {
            "line" => TransformKind::Line {
                margin,
                settle_ms: self.ms("settle", 1.0),
                directions: self.directions(),
            },
            "speed" => self.speed(outline),
            "stopped" => TransformKind::Stopped(self.still(3.0)),
            "parked" => TransformKind::Parked {
                still: self.still(60.0),
                rejoin_ms: self.ms("rejoin", 10.0),
            },
            "wrong-way" => TransformKind::WrongWay {
                allowed: self.outline("direction", kind, true).unwrap_or(Outline {
                    points: Vec::new(),
                    units: self.units,
                }),
                tolerance_deg: settings.number("tolerance_deg", 60.0),
                after_ms: self.ms("after", 1.0),
            },
            "loitering" => TransformKind::Loitering {
                after_ms: self.ms("after", 30.0),
                leave_ms: self.ms("leave", 5.0),
            },
            "crowd" => TransformKind::Crowd {
                min: settings.number("min", 5.0) as u32,
                after_ms: self.ms("after", 2.0),
            },
            "absence" => TransformKind::Absence {
                after_ms: self.ms("after", 30.0),
            },
            "rule" => TransformKind::Rule(self.rule()),
            "best-shot" => TransformKind::BestShot(self.best_shot()),
            "camera-event" => TransformKind::CameraEvent(self.camera_event()),
            PYTHON_FUNCTION => TransformKind::Python(Arc::new(settings.clone())),
            _ => TransformKind::Zone {
                margin,
                settle_ms: self.ms("settle", 2.0),
            },
        }
    }

    fn directions(&mut self) -> [Arc<str>; 2] {
        match self.settings.texts("directions") {
            None => ["in".into(), "out".into()],
            Some([one, other]) if one != other && !one.is_empty() && !other.is_empty() => {
                [one.as_str().into(), other.as_str().into()]
            }
            Some(_) => {
                let hint = "directions = [\"northbound\", \"southbound\"]";
                self.fault("directions", "`directions` must be two different names", hint);
                ["in".into(), "out".into()]
            }
        }
    }

    fn speed(&mut self, outline: Option<&Outline>) -> TransformKind {
        let hint = "ground = [[0, 20], [7, 20], [7, 0], [0, 0]]: metres, in the order of `points`";
        let ground: Option<[Position; 4]> = self.points("ground").and_then(|points| points.try_into().ok());
        if ground.is_none() {
            self.fault("ground", "`ground` must have four places in metres", hint);
        }
        let points = outline.map(|outline| <[Position; 4]>::try_from(outline.points.as_slice()));
        if matches!(points, Some(Err(_))) {
            self.fault("points", "`points` of a speed must be four", "");
        }
        if let (Some(ground), Some(Ok(points))) = (ground, points) {
            let is_seen = check_polygon(&ground, 0.01).is_ok() && Homography::new(points, ground).is_some();
            if !is_seen {
                self.fault("ground", "no camera sees `ground` as `points`", hint);
            }
        }
        TransformKind::Speed {
            ground: ground.unwrap_or_default(),
            window_ms: self.ms("window", 1.0),
            above_kmh: self.settings.number("above_kmh", 0.0),
        }
    }

    fn camera_event(&mut self) -> CameraEventSpec {
        let hint = "events = [\"motion\"], \"line\", \"tamper\", \"input\", or a topic such as \"tns1:Device/Trigger/DigitalInput\"";
        let events = self.settings.texts("events").unwrap_or_default();
        if events.is_empty() {
            self.fault("events", "it has no `events`", hint);
        }
        let mut topics = Vec::new();
        for text in events {
            match CameraTopic::parse(text) {
                Some(topic) => topics.push(topic),
                None => self.fault(
                    "events",
                    format!("`events`: \"{text}\" is no event of a camera"),
                    hint,
                ),
            }
        }
        let from = self.settings.text("from").filter(|from| !from.is_empty());
        CameraEventSpec {
            topics,
            from: from.map(Arc::from),
        }
    }

    fn best_shot(&mut self) -> BestShotSpec {
        let settings = self.settings;
        let max_bytes = settings.number("max_bytes", 65_536.0);
        if !(MIN_JPEG_BYTES..=MAX_JPEG_BYTES).contains(&max_bytes) {
            let message = "`max_bytes` is not from 4 KiB to 256 KiB";
            self.fault("max_bytes", message, "such as max_bytes = \"64KiB\"");
        }
        let transforms = settings.texts("transforms").unwrap_or_default().iter();
        BestShotSpec {
            transforms: transforms.map(|name| Arc::from(name.as_str())).collect(),
            margin: settings.number("margin", 0.15) as f32,
            limits: PictureLimits {
                max_side: settings.number("max_side", 480.0) as u32,
                max_bytes: max_bytes as u32,
            },
            min_gain: settings.number("min_gain", 1.15),
            per_second: settings.number("per_second", 10.0),
            keep: settings.number("keep", 32.0) as usize,
            skips_stationary: !settings.flag("stationary", true),
        }
    }

    /// Reads `utc_offset`, which may take the place of `timezone`.
    fn offset(&mut self) -> Option<TimeZone> {
        let text = self.settings.text("utc_offset")?;
        if self.settings.text(ScheduleKeys::PLAIN.timezone).is_some() {
            let hint = "`timezone` knows its offset, in summer and winter: leave out `utc_offset`";
            self.fault("utc_offset", "`utc_offset` is beside `timezone`", hint);
            return None;
        }
        let zone = parse_offset(text);
        if zone.is_none() {
            let hint = "such as \"+01:00\" or \"-05:30\"; `timezone` takes names of time zones";
            self.fault("utc_offset", "`utc_offset` is not an offset", hint);
        }
        zone
    }

    fn schedule(&mut self) -> Schedule {
        let mut schedule = ScheduleKeys::PLAIN.read(self.settings, &mut self.faults);
        schedule.zone = schedule.zone.or(self.offset());
        schedule
    }

    fn rule(&mut self) -> RuleSpec {
        let settings = self.settings;
        let zones = settings.texts("zones").unwrap_or_default().iter();
        let mut rule = RuleSpec {
            min_score: settings.number("min_score", 0.0) as f32,
            zones: zones.map(|zone| Arc::from(zone.as_str())).collect(),
            schedule: self.schedule(),
            attributes: Vec::new(),
            skips_stationary: !settings.flag("stationary", true),
            after_ms: self.ms("after", 0.0),
            end_after_ms: self.ms("end_after", 2.0),
        };
        for text in settings.texts("attributes").unwrap_or_default() {
            let Some((name, wanted)) = text
                .split_once('=')
                .filter(|(name, _)| !name.trim_end_matches('!').trim().is_empty())
            else {
                let message = format!("`attributes`: \"{text}\" names no value");
                self.fault(
                    "attributes",
                    message,
                    "such as \"identity=unknown\", \"plate=*\" or \"health=0..20\"",
                );
                continue;
            };
            let (name, wanted) = match name.strip_suffix('!') {
                Some(name) => (name.trim(), Wanted::NoneOf(vec![wanted.trim().into()])),
                None => (name.trim(), parse_wanted(wanted.trim())),
            };
            if let Wanted::Between(min, max) = wanted
                && min > max
            {
                self.fault(
                    "attributes",
                    format!("`attributes`: no number lies in \"{text}\""),
                    "",
                );
            }
            let is_alike = |known: &Wanted| std::mem::discriminant(known) == std::mem::discriminant(&wanted);
            let mut known = rule.attributes.iter_mut();
            let known = known.find(|(known, said)| **known == *name && is_alike(said));
            match (known, wanted) {
                (Some((_, Wanted::OneOf(words))), Wanted::OneOf(more))
                | (Some((_, Wanted::NoneOf(words))), Wanted::NoneOf(more)) => words.extend(more),
                (_, wanted) => rule.attributes.push((name.into(), wanted)),
            }
        }
        rule
    }
}

fn parse_wanted(text: &str) -> Wanted {
    if text == "*" {
        return Wanted::NoneOf(Vec::new());
    }
    let range = text.split_once("..");
    let range = range.and_then(|(min, max)| Some((min.trim().parse().ok()?, max.trim().parse().ok()?)));
    match range {
        Some((min, max)) => Wanted::Between(min, max),
        None => Wanted::OneOf(vec![text.into()]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn polygons_may_be_closed_by_their_first_corner_and_have_corners_twice() {
        let right = [[0.1, 0.1], [0.9, 0.1], [0.9, 0.9], [0.1, 0.9]];
        let mut left = right;
        left.reverse();
        for corners in [right, left] {
            let expected = read_polygon("points", corners.to_vec()).expect("a polygon");
            let mut closed = corners.to_vec();
            closed.push(corners[0]);
            assert_eq!(read_polygon("points", closed.clone()).as_ref(), Ok(&expected));
            closed.insert(2, corners[1]);
            closed.push(corners[0]);
            assert_eq!(read_polygon("points", closed), Ok(expected));
        }
        let triangle = vec![[0.1, 0.1], [0.9, 0.1], [0.1, 0.1]];
        let faults = read_polygon("points", triangle).expect_err("two corners");
        assert!(faults[0].message.contains("has 2 points"), "{faults:?}");
        let ground = [[0.0, 20.0], [4.0, 20.0], [4.0, 0.0], [0.0, 0.0]];
        let mut closed = vec![[0.4, 0.3], [0.6, 0.3], [0.9, 0.9], [0.1, 0.9]];
        closed.push(closed[0]);
        let points = [("points", closed), ("ground", ground.to_vec())];
        let keys = points.map(|(key, points)| (key.to_owned(), Value::Points(points)));
        let speed = read_transform("speed", &Settings(keys.into())).expect("four corners");
        assert_eq!(speed.outline.map(|outline| outline.points.len()), Some(4));
    }
}
