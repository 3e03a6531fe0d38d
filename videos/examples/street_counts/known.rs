//! What is known of a street: who crosses the line and when, who is in the zone for how long, who drives how fast.

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
use weir_flow::Rect;
use weir_truth::{Clip, FrameTruth, Truth};
use weir_videos::SIZE;
use weir_videos::geometry::{Vec2, vec2};
use weir_videos::street::Street;

use crate::Outcome;
use crate::run::{Frame, Seen, Shaken, found, run_identities};

/// Half the width of the street, where the cycle lane of those who leave begins, which their cars hide from the camera, and from
/// where to where the zone goes in the half of those who come, in metres.
const WIDTH: f32 = 4.8;
const CYCLES: f32 = 3.35;
const NEAR: f32 = 9.0;
const FAR: f32 = 17.0;

/// Where the lines are, in metres ahead of the camera: across the half of those who come, and the lane of those who leave. Each
/// is where its own are seen best: who comes hides who is behind, and who leaves is in the picture late.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Lines {
    pub(crate) coming: f32,
    pub(crate) leaving: f32,
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
/// What is counted, and what else a detector finds of their kind.
const COUNTED: [&str; 4] = ["car", "van", "bus", "bicycle"];
const FOLLOWED: [&str; 5] = ["car", "van", "bus", "bicycle", "person"];

/// Something that crosses the line.
#[derive(Debug, Clone)]
pub(crate) struct Crossing {
    pub(crate) id: u64,
    pub(crate) direction: &'static str,
    pub(crate) pts_ms: f64,
}

pub(crate) struct Known {
    pub(crate) frames: Vec<FrameTruth>,
    pub(crate) transforms: Vec<StreamTransform>,
    pub(crate) crossings: Vec<Crossing>,
    /// Begin and end.
    pub(crate) visits: Vec<(f64, f64)>,
    /// Begin, end and km/h.
    pub(crate) speeds: Vec<(f64, f64, f64)>,
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
        Ok(Self {
            crossings: crossings(&ways, lines, &by_identity.crossings),
            visits: by_identity.visits,
            speeds: ways.values().filter_map(|way| speed(way)).collect(),
            transforms,
            frames,
        })
    }

    /// What is to be found in each frame, perhaps as a detector finds it.
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
            });
        }
        frames
    }

    /// How well what crosses is to be seen around then, for those who look for what was missed.
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

/// What a file has, or what is made and written to it.
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
    let road = [[-WIDTH, FAR], [0.0, FAR], [0.0, NEAR], [-WIDTH, NEAR]];
    let transform = |name: &str, outline, kind| StreamTransform {
        name: name.into(),
        spec: TransformSpec {
            classes: COUNTED.map(Arc::from).to_vec(),
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
        directions: [COMING.into(), LEAVING.into()],
    };
    let zone = TransformKind::Zone {
        margin: 0.1,
        settle_ms: 2000.0,
    };
    let speed = TransformKind::Speed {
        ground: road.map(|[x, y]| Position::new(f64::from(x), f64::from(y))),
        window_ms: 1000.0,
        above_kmh: 0.0,
    };
    Ok(vec![
        transform(COMING, outline(&lines.ends(COMING))?, line()),
        transform(LEAVING, outline(&lines.ends(LEAVING))?, line()),
        transform("zone", outline(&road)?, zone),
        transform("speed", outline(&road)?, speed),
    ])
}

/// By id, where each is on the ground when.
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

/// All that pass the line on the ground with their middles; the time is that of their anchors in the picture where these cross.
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
            });
        }
    }
    crossings
}

/// A passage of the zone at one speed: begin, end, km/h.
fn speed(way: &[(f64, Vec2)]) -> Option<(f64, f64, f64)> {
    let is_on = |at: Vec2| (NEAR..FAR).contains(&at.y) && (-WIDTH..0.0).contains(&at.x);
    let on: Vec<_> = way.iter().filter(|(_, at)| is_on(*at)).collect();
    let kmh =
        |pair: &[&(f64, Vec2)]| f64::from((pair[1].1 - pair[0].1).length()) / (pair[1].0 - pair[0].0) * 3.6e3;
    let speeds: Vec<f64> = on.windows(2).map(kmh).collect();
    let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
    let is_even = speeds.len() > 5 && speeds.iter().all(|speed| (speed - mean).abs() < 0.02 * mean);
    is_even
        .then(|| Some((on.first()?.0, on.last()?.0, mean)))
        .flatten()
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
