//! Ground truth of a street: crossings of the lines with their times, visits of the zone, and speeds.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, BufWriter};
use std::path::Path;
use std::sync::Arc;

use rand::RngExt;
use rand_pcg::Pcg64;
use weir_analytics::FrameTime;
use weir_analytics::transforms::{
    Anchor, Outline, Position, StreamTransform, TransformKind, TransformSpec, Units,
};
use weir_flow::{Rect, StreamNames};
use weir_truth::{Clip, FrameTruth, Truth};
use weir_videos::SIZE;
use weir_videos::geometry::{Vec2, vec2};
use weir_videos::street::Street;

use crate::Outcome;
use crate::run::{Frame, Seen, Shaken, Span, found, run_identities};

/// Half the width of the street; boundary of the cycle lane of leaving traffic, which the cars there hide
/// from the camera; near and far end of the zone in the oncoming half. All in metres.
const WIDTH: f32 = 4.8;
const CYCLES: f32 = 3.35;
const NEAR: f32 = 12.5;
const FAR: f32 = 21.0;

/// Distances of the lines ahead of the camera, in metres: one across the half of the oncoming traffic, one
/// across the lane of the traffic that leaves. Each is placed where its own traffic is seen best: oncoming
/// vehicles hide those behind them, and leaving vehicles enter the picture late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) coming: f32,
    pub(crate) leaving: f32,
    /// Start and end of the stretch on which speeds are measured, in metres ahead of the camera.
    pub(crate) stretch: [f32; 2],
}

impl Lines {
    fn of(self, direction: &str) -> f32 {
        if direction == COMING {
            self.coming
        } else {
            self.leaving
        }
    }

    /// Ends of a line on the ground.
    fn ends(self, direction: &str) -> [[f32; 2]; 2] {
        let ahead = self.of(direction);
        let across = if direction == COMING {
            [-WIDTH, 0.0]
        } else {
            [0.0, CYCLES]
        };
        across.map(|x| [x, ahead])
    }
}

const COMING: &str = "coming";
const LEAVING: &str = "leaving";
/// Classes that are counted, and classes with which a detector may confuse them.
const COUNTED: [&str; 4] = ["car", "van", "bus", "bicycle"];
/// Classes whose lowest front point is on the ground. The front of a bus is above it, and therefore seems
/// farther away.
const MEASURED: [&str; 3] = ["car", "van", "bicycle"];
const FOLLOWED: [&str; 5] = ["car", "van", "bus", "bicycle", "person"];

/// Crossing of a line by an object.
#[derive(Debug, Clone)]
pub(crate) struct Crossing {
    pub(crate) id: u64,
    pub(crate) direction: &'static str,
    pub(crate) pts_ms: f64,
    /// True if the object is visible in fewer than two frames of the second before the crossing, or of the
    /// second after it.
    pub(crate) is_hidden: bool,
}

pub(crate) struct Known {
    pub(crate) frames: Vec<FrameTruth>,
    pub(crate) transforms: Vec<StreamTransform>,
    pub(crate) crossings: Vec<Crossing>,
    /// Visits of the zone; the flag is true if the object is visible within 0.2 s of begin and end.
    pub(crate) visits: Vec<(Span, bool)>,
    /// Passages that are visible at begin and end, with the speed in km/h.
    pub(crate) speeds: Vec<(Span, f64)>,
}

impl Known {
    pub(crate) fn new(
        street: &Street,
        lines: Lines,
        (seconds, fps): (f64, f64),
        cache: Option<&Path>,
    ) -> Outcome<Self> {
        let truth = |frame: u64| {
            let at = frame as f64 / fps;
            let mut objects = street.truth(at as f32).objects;
            objects.retain(|it| FOLLOWED.contains(&it.class.as_str()));
            FrameTruth {
                frame,
                pts_ms: at * 1e3,
                objects,
            }
        };
        let frames = || (0..(seconds * fps) as u64).map(truth).collect();
        let frames: Vec<FrameTruth> = cached(cache, fps, frames)?;
        let transforms = transforms(street, lines)?;
        // The anchor of the whole box, hidden or not, in every frame.
        let by_identity = found(&run_identities(frames.iter().map(whole), &transforms));
        let ways = ways(street, &frames);
        let sights = Sights::new(&frames);
        let mut crossings = crossings(&ways, lines, &by_identity.crossings);
        for it in &mut crossings {
            let seen = |from: f64, to: f64| sights.count(it.id, it.pts_ms + from, it.pts_ms + to);
            it.is_hidden = seen(-1000.0, 0.0) < 2 || seen(0.0, 1000.0) < 2;
        }
        let is_in_sight = |span: &Span| {
            let seen = |at: f64| sights.count(span.track, at - 200.0, at + 200.0) > 0;
            seen(span.begin) && seen(span.end)
        };
        let visits = by_identity.visits.into_iter();
        let visits = visits.map(|visit| (visit, is_in_sight(&visit)));
        let speeds = by_identity.speeds.into_iter();
        let speeds = speeds.filter(|(span, _)| is_in_sight(span));
        let speeds = speeds.filter_map(|(span, _)| Some((span, speed(ways.get(&span.track)?, &span)?)));
        Ok(Self {
            crossings,
            visits: visits.collect(),
            speeds: speeds.collect(),
            transforms,
            frames,
        })
    }

    /// Visible objects of each frame, optionally disturbed in the way a detector would.
    pub(crate) fn boxes(&self, shaken: Option<Shaken>, rng: &mut Pcg64) -> Vec<Frame> {
        let mut frames = Vec::new();
        for truth in &self.frames {
            let objects = truth.objects.iter();
            let objects = objects.filter(|it| !it.ignore);
            let mut boxes = Vec::new();
            for object in objects {
                let mut rect = rect(object.r#box);
                if let Some(Shaken { missing, by }) = shaken {
                    if rng.random_range(0.0..1.0) < missing {
                        continue;
                    }
                    let mut side = |at: f32, size: f32| at + rng.random_range(-1.0..=1.0) * by * size;
                    let (wide, high) = (rect.width(), rect.height());
                    rect = Rect::new(
                        side(rect.x0, wide),
                        side(rect.y0, high),
                        side(rect.x1, wide),
                        side(rect.y1, high),
                    );
                }
                boxes.push((object.class.as_str().into(), 0.9, rect));
            }
            frames.push(Frame {
                at: time(truth),
                boxes,
                candidates: Vec::new(),
            });
        }
        frames
    }

    /// Visibility of the object around its crossing, as text for the analysis of missed crossings.
    pub(crate) fn sight(&self, crossing: &Crossing) -> String {
        let mut words = Vec::new();
        for apart_ms in [
            -1500.0, -1000.0, -500.0, -200.0, 0.0, 200.0, 500.0, 1000.0, 1500.0,
        ] {
            let then = crossing.pts_ms + apart_ms;
            let nearest = |a: &&FrameTruth, b: &&FrameTruth| {
                (a.pts_ms - then).abs().total_cmp(&(b.pts_ms - then).abs())
            };
            let frame = self.frames.iter().min_by(nearest);
            let object = frame.and_then(|frame| frame.objects.iter().find(|it| it.id == crossing.id));
            words.push(object.map_or("-".to_owned(), |it| {
                let hidden = if it.ignore { "!" } else { "" };
                format!("{:.2}{hidden}", it.visible)
            }));
        }
        words.join(" ")
    }
}

/// Reads frames from the cache file, or computes them and writes the file.
fn cached(
    file: Option<&Path>,
    fps: f64,
    frames: impl FnOnce() -> Vec<FrameTruth>,
) -> Outcome<Vec<FrameTruth>> {
    let Some(path) = file else {
        return Ok(frames());
    };
    if path.exists() {
        return Ok(Truth::read(BufReader::new(File::open(path)?))?.frames);
    }
    let frames = frames();
    let clip = Clip {
        truth: 1,
        world: "street".to_owned(),
        seed: 0,
        width: SIZE.0,
        height: SIZE.1,
        fps: fps as f32,
        frames: frames.len() as u64,
    };
    let whole = Truth { clip, frames };
    whole.write(BufWriter::new(File::create(path)?))?;
    Ok(whole.frames)
}

fn transforms(street: &Street, lines: Lines) -> Outcome<Vec<StreamTransform>> {
    let outline = |ground: &[[f32; 2]]| -> Outcome<Outline> {
        let points = ground.iter().map(|[x, y]| street.seen(vec2(*x, *y)));
        let points: Option<Vec<_>> = points.collect();
        let points = points.ok_or("a place behind the camera")?.into_iter();
        Ok(Outline {
            points: points
                .map(|at| Position::new(f64::from(at.x), f64::from(at.y)))
                .collect(),
            units: Units::Pixels,
        })
    };
    let half = |[near, far]: [f32; 2]| [[-WIDTH, far], [0.0, far], [0.0, near], [-WIDTH, near]];
    let (road, stretch) = (half([NEAR, FAR]), half(lines.stretch));
    let transform = |name: &str, classes: &[&str], outline, kind| StreamTransform {
        streams: StreamNames::default(),
        name: name.into(),
        spec: TransformSpec {
            classes: classes.iter().map(|class| Arc::from(*class)).collect(),
            anchor: Anchor::Bottom,
            outline: Some(outline),
            every_ms: 1e9,
            kind,
        },
        modules: Default::default(),
        trackers: [0].into(),
    };
    let line = || TransformKind::Line {
        margin: 0.1,
        settle_ms: 1000.0,
        directions: [COMING.into(), LEAVING.into()],
    };
    let zone = TransformKind::Zone {
        margin: 0.1,
        settle_ms: 2000.0,
    };
    let speed = TransformKind::Speed {
        ground: stretch.map(|[x, y]| Position::new(f64::from(x), f64::from(y))),
        window_ms: 1000.0,
        above_kmh: 0.0,
    };
    Ok(vec![
        transform(COMING, &COUNTED, outline(&lines.ends(COMING))?, line()),
        transform(LEAVING, &COUNTED, outline(&lines.ends(LEAVING))?, line()),
        transform("zone", &COUNTED, outline(&road)?, zone),
        transform("speed", &MEASURED, outline(&stretch)?, speed),
    ])
}

/// Positions on the ground over time, by id.
type Ways = BTreeMap<u64, Vec<(f64, Vec2)>>;

fn ways(street: &Street, frames: &[FrameTruth]) -> Ways {
    let mut ways = Ways::new();
    for frame in frames {
        for (id, at) in street.places((frame.pts_ms / 1e3) as f32) {
            ways.entry(id).or_default().push((frame.pts_ms, at));
        }
    }
    ways
}

/// Crossings of the lines by the objects' middles on the ground. If the anchor in the picture crosses as
/// well, its time counts.
fn crossings(ways: &Ways, lines: Lines, in_picture: &[(String, u64, f64)]) -> Vec<Crossing> {
    let mut crossings = Vec::new();
    for (id, way) in ways {
        for pair in way.windows(2) {
            let ((before, from), (after, to)) = (pair[0], pair[1]);
            let direction = if to.y < from.y { COMING } else { LEAVING };
            let (line, [[left, _], [right, _]]) = (lines.of(direction), lines.ends(direction));
            if !(left..right).contains(&to.x) || (from.y < line) == (to.y < line) {
                continue;
            }
            let part = f64::from((line - from.y) / (to.y - from.y));
            let on_ground = before + (after - before) * part;
            let seen = in_picture
                .iter()
                .find(|(towards, of, _)| of == id && towards == direction);
            crossings.push(Crossing {
                id: *id,
                direction,
                pts_ms: seen.map_or(on_ground, |(_, _, at)| *at),
                is_hidden: false,
            });
        }
    }
    crossings
}

/// Speed in km/h over that time span, if it is constant.
fn speed(way: &[(f64, Vec2)], span: &Span) -> Option<f64> {
    let is_within = |(at, _): &&(f64, Vec2)| (span.begin..=span.end).contains(at);
    let on: Vec<_> = way.iter().filter(is_within).collect();
    let kmh =
        |pair: &[&(f64, Vec2)]| f64::from((pair[1].1 - pair[0].1).length()) / (pair[1].0 - pair[0].0) * 3.6e3;
    let speeds: Vec<f64> = on.windows(2).map(kmh).collect();
    let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
    let is_even = speeds.len() > 5 && speeds.iter().all(|speed| (speed - mean).abs() < 0.02 * mean);
    is_even.then_some(mean)
}

/// Times at which each object is visible.
struct Sights(BTreeMap<u64, Vec<f64>>);

impl Sights {
    fn new(frames: &[FrameTruth]) -> Self {
        let mut sights: BTreeMap<u64, Vec<f64>> = BTreeMap::new();
        for frame in frames {
            for object in frame.objects.iter().filter(|it| !it.ignore) {
                sights.entry(object.id).or_default().push(frame.pts_ms);
            }
        }
        Self(sights)
    }

    /// Number of frames in that time span in which the object is visible.
    fn count(&self, id: u64, from: f64, to: f64) -> usize {
        let times = self.0.get(&id).map(Vec::as_slice).unwrap_or_default();
        times.partition_point(|at| *at <= to) - times.partition_point(|at| *at < from)
    }
}

fn whole(truth: &FrameTruth) -> (FrameTime, Vec<(u64, Seen)>) {
    let objects = truth.objects.iter();
    let objects = objects.filter(|it| COUNTED.contains(&it.class.as_str()));
    let seen = objects.map(|it| (it.id, (it.class.as_str().into(), 1.0, rect(it.r#box))));
    (time(truth), seen.collect())
}

pub(crate) fn time(frame: &FrameTruth) -> FrameTime {
    FrameTime {
        pts_ms: frame.pts_ms,
        time_ms: frame.pts_ms as u64,
    }
}

fn rect([x0, y0, x1, y1]: [f32; 4]) -> Rect {
    Rect::new(x0, y0, x1, y1)
}
