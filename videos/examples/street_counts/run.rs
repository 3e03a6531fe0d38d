//! Boxes through tracker and transforms, as the engine runs them.

use std::sync::Arc;

use weir_analytics::transforms::{SceneFrame, SceneObject, StreamTransform, StreamTransforms};
use weir_analytics::{
    AnalyticsPlan, FrameTime, Parts, StreamAnalytics, TrackIds, TrackerPlan, TrackerSettings,
    close_transforms, run_transforms,
};
use weir_flow::{
    Image, Incident, IncidentValue, ModuleOutput, Object, Phase, Points, Rect, RequestResults, StreamNames,
};
use weir_videos::SIZE;

/// Class, score and box.
pub(crate) type Seen = (Arc<str>, f32, Rect);

/// Boxes of one frame.
pub(crate) struct Frame {
    pub(crate) at: FrameTime,
    pub(crate) boxes: Vec<Seen>,
    /// Boxes below the detection threshold, which only trackers use.
    pub(crate) candidates: Vec<Seen>,
}

/// Disturbance of the true boxes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shaken {
    /// Fraction of boxes that are missing, 0 to 1.
    pub(crate) missing: f32,
    /// Maximum error of a side, as a fraction of the box's size.
    pub(crate) by: f32,
}

impl Shaken {
    /// Disturbance of a fair detector.
    pub(crate) const DETECTOR: Self = Self {
        missing: 0.05,
        by: 0.02,
    };
}

/// Events of the transforms over a clip, in milliseconds and km/h.
#[derive(Default)]
pub(crate) struct Found {
    /// Direction, track and time of each crossing.
    pub(crate) crossings: Vec<(String, u64, f64)>,
    /// Visits of the zone with begin and end.
    pub(crate) visits: Vec<Span>,
    /// Passages of the stretch with their speeds.
    pub(crate) speeds: Vec<(Span, f64)>,
}

/// A track from one time to another.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span {
    pub(crate) track: u64,
    pub(crate) begin: f64,
    pub(crate) end: f64,
}

impl Span {
    pub(crate) fn length(&self) -> f64 {
        self.end - self.begin
    }

    pub(crate) fn overlap(&self, other: &Self) -> f64 {
        (self.end.min(other.end) - self.begin.max(other.begin)).max(0.0)
    }

    /// Sum of the differences of begin and end, in milliseconds.
    pub(crate) fn apart(&self, other: &Self) -> f64 {
        (self.begin - other.begin).abs() + (self.end - other.end).abs()
    }
}

/// Runs the transforms on boxes whose tracks are known.
pub(crate) fn run_identities(
    frames: impl Iterator<Item = (FrameTime, Vec<(u64, Seen)>)>,
    transforms: &[StreamTransform],
) -> Vec<Incident> {
    let mut running = StreamTransforms::new("street".into(), transforms.to_vec(), 0);
    let mut incidents = Vec::new();
    for (at, seen) in frames {
        let objects = seen.iter().map(|(track, (class, score, rect))| SceneObject {
            module: 0,
            track: Some((0, *track)),
            first: None,
            class,
            score: *score,
            rect: *rect,
            is_stationary: false,
            attributes: &[],
        });
        incidents.extend(running.on_frame(&SceneFrame {
            width: SIZE.0,
            height: SIZE.1,
            at,
            objects: &objects.collect::<Vec<_>>(),
            ended: &[],
            pixels: None,
        }));
    }
    incidents.extend(running.close(&[]));
    incidents
}

/// Boxes that a tracker follows.
pub(crate) fn run<'a>(
    frames: impl Iterator<Item = &'a Frame>,
    transforms: &[StreamTransform],
    lost_after_ms: f64,
) -> Vec<Incident> {
    let mut running = StreamTransforms::new("street".into(), transforms.to_vec(), 0);
    let plan = AnalyticsPlan {
        trackers: vec![TrackerPlan {
            modules: [0].into(),
            appearance: None,
            classes: Vec::new(),
            settings: TrackerSettings {
                lost_after_ms,
                remember_ms: lost_after_ms,
                ..TrackerSettings::default()
            },
            parts: Parts::default(),
            confirmed: Vec::new(),
            streams: StreamNames::default(),
        }],
        ..AnalyticsPlan::default()
    };
    let (mut analytics, mut ids) = (
        StreamAnalytics::new(&Arc::new(plan), "street"),
        TrackIds::default(),
    );
    let mut incidents = Vec::new();
    let pixel = Image::from_rgb(2, 2, vec![0; 12]);
    for (index, seen) in (0..).zip(frames) {
        let object = |(class, score, rect): &Seen, candidate| Object {
            class: Arc::clone(class),
            score: *score,
            rect: *rect,
            parent: None,
            points: Points::None,
            candidate,
        };
        let candidates = seen.candidates.iter().map(|seen| object(seen, true));
        let boxes = seen.boxes.iter().map(|seen| object(seen, false));
        let output = ModuleOutput {
            objects: boxes.chain(candidates).collect(),
            attributes: Vec::new(),
        };
        let mut results = RequestResults::default();
        results.add(0, output);
        let frame = weir_flow::Frame::new(index, seen.at.pts_ms, pixel.clone());
        let mut found = analytics.on_frame(&frame, seen.at.time_ms, &results, &mut ids);
        run_transforms(&mut running, SIZE, seen.at, None, &results, &mut found);
        incidents.append(&mut found.incidents);
    }
    let mut closed = analytics.close();
    close_transforms(&mut running, &mut closed);
    incidents.append(&mut closed.incidents);
    incidents
}

pub(crate) fn found(incidents: &[Incident]) -> Found {
    let mut found = Found::default();
    for incident in incidents.iter().filter(|it| it.phase == Phase::Ended) {
        let track = incident.track.unwrap_or_default();
        let span = Span {
            track,
            begin: incident.began_pts_ms,
            end: incident.pts_ms,
        };
        let value = |name: &str| incident.values.iter().find(|(known, _)| *known == name);
        match (incident.kind, value("direction"), value("speed_kmh")) {
            ("line", Some((_, IncidentValue::Text(direction))), _) => {
                found
                    .crossings
                    .push((direction.to_string(), track, incident.pts_ms));
            }
            ("zone", ..) => found.visits.push(span),
            (_, _, Some((_, IncidentValue::Number(speed)))) => {
                found.speeds.push((span, *speed));
            }
            _ => {}
        }
    }
    found
}
