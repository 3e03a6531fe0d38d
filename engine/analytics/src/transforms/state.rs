//! The state of one transform of one stream, of any kind.

use std::sync::Arc;

use weir_flow::{BestShot, CameraEvent, Rect};

use super::best_shot::BestShots;
use super::camera_event::CameraIncidents;
use super::camera_states::CameraStates;
use super::finding::{Drawing, Finding};
use super::geometry::{Polygon, Position, Segment};
use super::line::Line;
use super::loitering::Loitering;
use super::occupancy::Occupancy;
use super::rule::Rule;
use super::spec::{Outline, TransformKind, TransformSpec, Units};
use super::speed::Speed;
use super::still::StandingStill;
use super::subject::{Subject, View};
use super::wrong_way::WrongWay;
use super::zone::Zone;
use crate::track::FrameTime;

/// Its geometry in pixels of the frames as they are now.
#[derive(Debug, Clone, PartialEq)]
struct Place {
    width: f64,
    height: f64,
    /// Polygon as it is drawn.
    area: Polygon,
    /// Polygon in which anchors are, also those on the edge of the frame.
    reach: Polygon,
    segment: Segment,
}

impl Place {
    /// Returns the area and the line of a transform in frames of that size. Without an outline, the area is
    /// the whole frame.
    fn new(spec: &TransformSpec, width: f64, height: f64) -> Self {
        let frame = || {
            // Anchors lie on the edge, and boxes may reach over it.
            let (x, y) = (width, height);
            let corners = [(-x, -y), (2.0 * x, -y), (2.0 * x, 2.0 * y), (-x, 2.0 * y)];
            Polygon(corners.map(|(x, y)| Position::new(x, y)).to_vec())
        };
        let segment = |outline: &Outline| outline.segment(width, height);
        let line = match &spec.kind {
            TransformKind::WrongWay { allowed, .. } => Some(allowed),
            _ => spec.outline.as_ref(),
        };
        let area = spec
            .outline
            .as_ref()
            .map_or_else(frame, |outline| outline.polygon(width, height));
        Self {
            width,
            height,
            reach: area.beyond_frame(width, height),
            area,
            segment: segment(line.unwrap_or(&NOWHERE)),
        }
    }
}

const NOWHERE: Outline = Outline {
    points: Vec::new(),
    units: Units::Pixels,
};

enum Machine {
    Zone(Zone),
    Line(Line),
    Speed(Speed),
    Still(StandingStill),
    WrongWay(WrongWay),
    Loitering(Loitering),
    Occupancy(Occupancy),
    Rule(Rule),
    BestShots(Box<BestShots>),
    CameraEvents(CameraIncidents),
    /// A program of the user, which sees deliveries.
    Outside,
}

/// A transform at work.
pub(crate) struct TransformState {
    machine: Machine,
    place: Option<Place>,
    has_outline: bool,
}

impl TransformState {
    pub(crate) fn new(spec: &TransformSpec) -> Self {
        let (anchor, every_ms) = (spec.anchor, spec.every_ms);
        let machine = match &spec.kind {
            TransformKind::Zone { margin, settle_ms } => {
                Machine::Zone(Zone::new(anchor, *margin, *settle_ms, every_ms))
            }
            TransformKind::Line {
                margin,
                settle_ms,
                directions,
            } => Machine::Line(Line::new(anchor, *margin, *settle_ms, directions.clone())),
            TransformKind::Speed {
                ground,
                window_ms,
                above_kmh,
            } => Machine::Speed(Speed::new(anchor, *ground, *window_ms, *above_kmh, every_ms)),
            TransformKind::Stopped(still) => {
                Machine::Still(StandingStill::new(anchor, *still, 0.0, every_ms))
            }
            TransformKind::Parked { still, rejoin_ms } => {
                Machine::Still(StandingStill::new(anchor, *still, *rejoin_ms, every_ms))
            }
            TransformKind::WrongWay {
                tolerance_deg,
                after_ms,
                ..
            } => Machine::WrongWay(WrongWay::new(anchor, *tolerance_deg, *after_ms, every_ms)),
            TransformKind::Loitering { after_ms, leave_ms } => {
                Machine::Loitering(Loitering::new(anchor, *after_ms, *leave_ms, every_ms))
            }
            TransformKind::Crowd { min, after_ms } => {
                Machine::Occupancy(Occupancy::crowd(anchor, *min, *after_ms, every_ms))
            }
            TransformKind::Absence { after_ms } => {
                Machine::Occupancy(Occupancy::absence(anchor, *after_ms, every_ms))
            }
            TransformKind::Rule(rule) => Machine::Rule(Rule::new(rule.clone(), every_ms)),
            TransformKind::BestShot(best) => {
                Machine::BestShots(Box::new(BestShots::new(best.clone(), every_ms)))
            }
            TransformKind::CameraEvent(events) => {
                Machine::CameraEvents(CameraIncidents::new(events.clone(), every_ms))
            }
            TransformKind::Python(_) => Machine::Outside,
        };
        Self {
            machine,
            place: None,
            has_outline: spec.outline.is_some(),
        }
    }

    /// Takes in a frame. `takes` says which tracks are those of its inputs and classes; `boxes` are objects of these.
    pub(crate) fn on_frame(
        &mut self,
        spec: &TransformSpec,
        view: &View<'_>,
        takes: &dyn Fn(&Subject) -> bool,
        boxes: &[Rect],
        out: &mut Vec<Finding>,
    ) {
        let (width, height) = (view.width, view.height);
        let is_current =
            |place: &&Place| (place.width - width).abs() < 0.5 && (place.height - height).abs() < 0.5;
        if self.place.as_ref().filter(is_current).is_none() {
            self.place = Some(Place::new(spec, width, height));
        }
        let Some(place) = &self.place else { return };
        let subjects = view.seen().filter(|subject| takes(subject));
        match &mut self.machine {
            Machine::Zone(zone) => out.extend(subjects.filter_map(|it| zone.on_subject(it, &place.reach))),
            Machine::Line(line) => out.extend(subjects.filter_map(|it| line.on_subject(it, &place.segment))),
            Machine::Speed(speed) => out.extend(subjects.filter_map(|it| speed.on_subject(it, &place.area))),
            Machine::Still(still) => {
                out.extend(subjects.filter_map(|it| still.on_subject(it, &place.reach)));
                still.on_time(view.now, out);
            }
            Machine::WrongWay(way) => {
                out.extend(subjects.filter_map(|it| way.on_subject(it, &place.reach, &place.segment)));
            }
            Machine::Loitering(stay) => {
                out.extend(subjects.filter_map(|it| stay.on_subject(it, &place.reach)));
            }
            Machine::Occupancy(occupancy) => {
                out.extend(occupancy.on_frame(boxes.iter(), &place.reach, view.now));
            }
            Machine::Rule(rule) => out.extend(subjects.filter_map(|it| rule.on_subject(it))),
            Machine::BestShots(shots) => shots.on_frame(view, subjects, out),
            Machine::CameraEvents(events) => events.on_states(view.camera, view.now, out),
            Machine::Outside => {}
        }
    }

    /// The camera reported an event, after which these states hold; `None`: it is not heard any more.
    pub(crate) fn on_camera(
        &mut self,
        event: Option<&CameraEvent>,
        states: &CameraStates,
        at: FrameTime,
        out: &mut Vec<Finding>,
    ) {
        let Machine::CameraEvents(events) = &mut self.machine else {
            return;
        };
        match event {
            Some(event) if event.active.is_none() => events.on_moment(event, at, out),
            _ => events.on_states(states, at, out),
        }
    }

    /// Pictures have this many times the width and height that they had.
    pub(crate) fn on_resize(&mut self, x: f64, y: f64) {
        match &mut self.machine {
            Machine::Still(still) => still.on_resize(x, y),
            Machine::WrongWay(way) => way.on_resize(x, y),
            _ => {}
        }
    }

    /// A track ended.
    pub(crate) fn on_track_end(&mut self, subject: &Subject) -> Option<Finding> {
        match &mut self.machine {
            Machine::Zone(zone) => zone.on_track_end(subject),
            Machine::Line(line) => line.on_track_end(subject),
            Machine::Speed(speed) => speed.on_track_end(subject),
            Machine::Still(still) => still.on_track_end(subject),
            Machine::WrongWay(way) => way.on_track_end(subject),
            Machine::Loitering(stay) => stay.on_track_end(subject),
            Machine::Rule(rule) => rule.on_track_end(subject),
            Machine::BestShots(shots) => shots.on_track_end(subject),
            Machine::Occupancy(_) | Machine::CameraEvents(_) | Machine::Outside => None,
        }
    }

    /// Ends incidents that have no track, or that outlive it; all tracks have ended before.
    pub(crate) fn close(&mut self, out: &mut Vec<Finding>) {
        match &mut self.machine {
            Machine::Still(still) => still.close(out),
            Machine::Occupancy(occupancy) => out.extend(occupancy.close()),
            Machine::CameraEvents(events) => events.close(out),
            _ => {}
        }
    }

    /// Whether a track is in the zone that this is.
    pub(crate) fn is_zone_of(&self, track: u64) -> bool {
        matches!(&self.machine, Machine::Zone(zone) if zone.holds(track))
    }

    /// The best picture of a track, for incidents of the transform of that name, which may be this one.
    pub(crate) fn best_of(&self, track: u64, transform: &str, is_own: bool) -> Option<&Arc<BestShot>> {
        match &self.machine {
            Machine::BestShots(shots) => shots.best_of(track, transform, is_own),
            _ => None,
        }
    }

    /// Forgets all pictures.
    pub(crate) fn forget_pictures(&mut self) {
        if let Machine::BestShots(shots) = &mut self.machine {
            shots.forget();
        }
    }

    /// Returns the drawing for the latest frame; `None` before the first frame, and for kinds without a
    /// drawing.
    pub(crate) fn drawing(&self, name: &str, view: &View<'_>) -> Option<Drawing> {
        let place = self.place.as_ref()?;
        let area = self.has_outline.then_some(&place.area);
        let drawing = match &self.machine {
            Machine::Zone(zone) => zone.drawing(&place.area, view),
            Machine::Line(line) => line.drawing(&place.segment),
            Machine::Speed(speed) => speed.drawing(&place.area, view),
            Machine::Still(still) => still.drawing(area, view),
            Machine::WrongWay(way) => way.drawing(area, view),
            Machine::Loitering(stay) => stay.drawing(&place.area, view),
            Machine::Occupancy(occupancy) => occupancy.drawing(&place.area),
            Machine::Rule(rule) => rule.drawing(name, view),
            Machine::BestShots(_) | Machine::CameraEvents(_) | Machine::Outside => return None,
        };
        Some(drawing)
    }
}
