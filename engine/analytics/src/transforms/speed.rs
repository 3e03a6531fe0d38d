//! Speeds on the ground, from four points of the picture whose places on the ground are known.
//!
//! Anchors within the quadrilateral are mapped to the ground by the homography of its corners. A speed is the slope of a
//! straight line fitted to the positions of a window by least squares, so frames may be missing; that of the whole passage
//! is fitted to all of them. A box is off by so many pixels wherever it is, and far away these are metres: each position counts
//! by the inverse of the square of the metres that a pixel upwards or downwards is there (weighted least squares). Boxes
//! whose anchor the edge of the frame displaces are left out.

use std::collections::{BTreeMap, VecDeque};

use weir_flow::Phase;

use super::episodes::{Change, Delays, Episodes, Observed};
use super::finding::{Drawing, Finding, number, outline};
use super::geometry::{Anchor, Homography, Polygon, Position};
use super::subject::{Subject, View};
use crate::track::FrameTime;

/// Positions of one track in a window: a second at 60 frames a second.
const MAX_SAMPLES: usize = 64;

/// The least time and number of positions that a speed is fitted to.
const MIN_SPAN_MS: f64 = 250.0;
const MIN_SAMPLES: u32 = 3;

const KMH: f64 = 3.6;

/// A position on the ground, with its weight in a fit.
#[derive(Debug, Clone, Copy)]
struct Place {
    at: Position,
    weight: f64,
}

impl Place {
    /// Returns the position on the ground of a point of the picture; `None` beyond the horizon.
    fn of(point: Position, ground: &Homography) -> Option<Self> {
        let at = ground.apply(point)?;
        let below = Position {
            y: point.y + 1.0,
            ..point
        };
        let below = ground.apply(below)?;
        let pixel_m = (below.x - at.x).hypot(below.y - at.y);
        let weight = pixel_m.powi(2).recip();
        weight.is_finite().then_some(Self { at, weight })
    }
}

/// Weighted sums of a fit of positions over time, times from the first on.
#[derive(Debug, Clone, Copy, Default)]
struct Fit {
    samples: u32,
    n: f64,
    t: f64,
    tt: f64,
    x: f64,
    tx: f64,
    y: f64,
    ty: f64,
}

impl Fit {
    fn add(&mut self, t: f64, Place { at, weight }: Place) {
        self.samples += 1;
        self.n += weight;
        self.t += weight * t;
        self.tt += weight * t * t;
        self.x += weight * at.x;
        self.tx += weight * t * at.x;
        self.y += weight * at.y;
        self.ty += weight * t * at.y;
    }

    /// Speed in units of distance a unit of time.
    fn speed(&self) -> Option<f64> {
        let spread = self.n * self.tt - self.t * self.t;
        if self.samples < MIN_SAMPLES || spread <= 0.0 {
            return None;
        }
        let vx = (self.n * self.tx - self.t * self.x) / spread;
        let vy = (self.n * self.ty - self.t * self.y) / spread;
        Some(vx.hypot(vy))
    }
}

#[derive(Debug, Default)]
struct Passage {
    /// Media times in seconds and places in metres.
    window: VecDeque<(f64, Place)>,
    begin_s: f64,
    whole: Fit,
    now_kmh: Option<f64>,
    top_kmh: f64,
}

impl Passage {
    fn add(&mut self, at: FrameTime, place: Place, window_ms: f64) {
        let t = at.pts_ms / 1e3;
        if self.whole.samples == 0 {
            self.begin_s = t;
        }
        self.whole.add(t - self.begin_s, place);
        self.window.push_back((t, place));
        while self.window.len() > MAX_SAMPLES
            || self
                .window
                .front()
                .is_some_and(|(first, _)| (t - first) * 1e3 > window_ms)
        {
            self.window.pop_front();
        }
        let Some((first, _)) = self.window.front().copied() else {
            return;
        };
        if (t - first) * 1e3 < MIN_SPAN_MS {
            return;
        }
        let mut fit = Fit::default();
        for (time, place) in &self.window {
            fit.add(time - first, *place);
        }
        if let Some(speed) = fit.speed() {
            self.now_kmh = Some(speed * KMH);
            self.top_kmh = self.top_kmh.max(speed * KMH);
        }
    }
}

pub(crate) struct Speed {
    anchor: Anchor,
    ground: [Position; 4],
    window_ms: f64,
    above_kmh: f64,
    passages: BTreeMap<u64, Passage>,
    incidents: Episodes<u64>,
}

impl Speed {
    pub(crate) fn new(
        anchor: Anchor,
        ground: [Position; 4],
        window_ms: f64,
        above_kmh: f64,
        every_ms: f64,
    ) -> Self {
        Self {
            anchor,
            ground,
            window_ms,
            above_kmh,
            passages: BTreeMap::new(),
            incidents: Episodes::new(Delays {
                after_ms: 0.0,
                pending_ms: 0.0,
                end_after_ms: 0.0,
                every_ms,
            }),
        }
    }

    pub(crate) fn on_subject(&mut self, subject: &Subject, quadrilateral: &Polygon) -> Option<Finding> {
        let at = self.anchor.of(&subject.rect);
        let corners: [Position; 4] = quadrilateral.0.as_slice().try_into().ok()?;
        let is_inside = quadrilateral.contains(at);
        if is_inside && !subject.is_displaced(self.anchor) {
            let place = Place::of(at, &Homography::new(corners, self.ground)?)?;
            let passage = self.passages.entry(subject.track).or_default();
            passage.add(subject.at, place, self.window_ms);
        }
        let passage = self.passages.get(&subject.track)?;
        let is_open = self.incidents.is_open(subject.track);
        let is_fast = passage.now_kmh.is_some_and(|speed| speed >= self.above_kmh);
        let change = self.incidents.on_observed(
            subject.track,
            Observed {
                holds: is_inside && (is_fast || is_open),
                is_clear: true,
                changed: subject.at,
                now: subject.at,
            },
        );
        let finding = change.map(|change| finding(subject, change, passage));
        if !is_inside {
            self.passages.remove(&subject.track);
        }
        finding
    }

    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        let passage = self.passages.remove(&subject.track)?;
        let change = self.incidents.close(subject.track, subject.at)?;
        Some(finding(subject, change, &passage))
    }

    /// The quadrilateral, and speeds beside the boxes.
    pub(crate) fn drawing(&self, quadrilateral: &Polygon, view: &View<'_>) -> Drawing {
        let speed = |subject: &Subject| {
            let speed = self.passages.get(&subject.track)?.now_kmh?;
            Some((subject.track, format!("{speed:.0} km/h").into()))
        };
        Drawing {
            points: outline(quadrilateral),
            is_closed: true,
            text: String::new(),
            tags: view.seen().filter_map(speed).collect(),
        }
    }
}

fn finding(subject: &Subject, change: Change, passage: &Passage) -> Finding {
    let whole = passage.whole.speed().map(|speed| speed * KMH);
    let now = passage.now_kmh.unwrap_or_default();
    // Of a passage that is over, the whole of it counts.
    let speed = match change.phase {
        Phase::Ended => whole.unwrap_or(now),
        Phase::Began | Phase::Updated => now,
    };
    Finding {
        number: change.number,
        phase: change.phase,
        track: Some(subject.track),
        began: change.began,
        at: change.at,
        values: vec![
            ("speed_kmh", number(speed, 1)),
            ("top_kmh", number(passage.top_kmh, 1)),
        ],
        ghost: None,
    }
}
