//! Draws people into a frame from back to front and returns their ground truth.

use std::collections::BTreeMap;

use super::{GALLERY, SIZE};
use crate::canvas::Canvas;
use crate::geometry::{Bounds, Vec2, vec2};
use crate::person::{Expression, Figure, FigureSeen, Identity, direction, draw_figure};
use crate::seed::Part;
use weir_truth::{FrameTruth, TruthAttribute, TruthObject, TruthPoint};

/// Person in a frame, with the pose.
#[derive(Debug, Clone)]
pub(super) struct Person {
    /// Number of the person, constant throughout the clip, from 0.
    pub(super) id: u64,
    pub(super) who: Identity,
    pub(super) figure: Figure,
}

/// An expression counts from this strength on; weaker ones are neutral.
const MIN_STRENGTH: f32 = 0.45;
/// Faces whose shorter side is below this number of pixels are not scored.
const FACE_MIN: f32 = 14.0;
/// Nor are persons.
const PERSON_MIN: f32 = 12.0;
/// Nor what is hidden more than this leaves.
const VISIBLE_MIN: f32 = 0.4;
/// Bones that cover what is behind them, by key points.
const BONES: [(usize, usize); 8] = [
    (5, 7),
    (7, 9),
    (6, 8),
    (8, 10),
    (11, 13),
    (13, 15),
    (12, 14),
    (14, 16),
];

/// Draws `people`, the most distant (smallest) first, and returns their ground truth.
pub(super) fn draw(canvas: &mut Canvas, people: &[Person]) -> FrameTruth {
    let mut order: Vec<&Person> = people.iter().collect();
    order.sort_by(|a, b| a.figure.height.total_cmp(&b.figure.height).then(a.id.cmp(&b.id)));
    let seen: Vec<FigureSeen> = order
        .iter()
        .map(|person| draw_figure(canvas, &person.who, &person.figure))
        .collect();
    let mut objects = Vec::new();
    for (index, person) in order.iter().enumerate() {
        let nearer = Nearer {
            seen: &seen[index + 1..],
        };
        objects.extend(person_truth(person, &seen[index], &nearer));
    }
    objects.sort_by_key(|object| object.id);
    FrameTruth {
        objects,
        ..FrameTruth::default()
    }
}

/// People who stand in front of another one.
struct Nearer<'a> {
    seen: &'a [FigureSeen],
}

impl Nearer<'_> {
    fn cover(&self, at: Vec2) -> bool {
        self.seen.iter().any(|seen| covers(seen, at))
    }

    /// Fraction of a thing that stays visible. The thing consists of the points of `bounds` for which
    /// `inside` is true.
    fn leave(&self, bounds: &Bounds, inside: impl Fn(Vec2) -> bool) -> f32 {
        let steps = 16;
        let (mut all, mut left) = (0, 0);
        for row in 0..steps {
            for column in 0..steps {
                let share = |step: i32| (step as f32 + 0.5) / steps as f32;
                let at = vec2(
                    bounds.x0 + bounds.width() * share(column),
                    bounds.y0 + bounds.height() * share(row),
                );
                if inside(at) {
                    all += 1;
                    left += i32::from(!self.cover(at));
                }
            }
        }
        left as f32 / all.max(1) as f32
    }
}

/// True if a person's head, trunk or limbs cover a point.
fn covers(seen: &FigureSeen, at: Vec2) -> bool {
    let head = &seen.head;
    let size = head.height;
    let off = at - head.centre;
    if (off.x / (size * 0.42)).hypot(off.y / (size * 0.55)) < 1.0 {
        return true;
    }
    let point = |index: usize| seen.keypoints[index].0;
    let trunk = Bounds::about([5, 6, 11, 12].map(point));
    let wide = size * 0.24;
    let on_trunk = trunk.is_some_and(|trunk| {
        at.x > trunk.x0 - wide && at.x < trunk.x1 + wide && at.y > trunk.y0 - wide && at.y < trunk.y1 + wide
    });
    on_trunk
        || BONES.iter().any(|(from, to)| {
            let (from, to) = (point(*from), point(*to));
            let bone = to - from;
            let length = (bone.x * bone.x + bone.y * bone.y).max(1e-3);
            let along = ((at.x - from.x) * bone.x + (at.y - from.y) * bone.y) / length;
            (from + bone * along.clamp(0.0, 1.1) - at).length() < size * 0.2
        })
}

/// Fraction of `bounds` that lies within the frame.
fn inside_frame(bounds: &Bounds) -> f32 {
    bounds.within(SIZE).area() / bounds.area().max(1.0)
}

fn person_truth(person: &Person, seen: &FigureSeen, nearer: &Nearer<'_>) -> Vec<TruthObject> {
    let bounds = seen.person.within(SIZE);
    if bounds.area() < 1.0 {
        return Vec::new();
    }
    let visible = nearer.leave(&bounds, |at| covers(seen, at));
    // People near the camera are usually cut off by the lower edge, so only the upper body counts, from the
    // crown to the chest.
    let shoulders = seen.keypoints[5].0.y.max(seen.keypoints[6].0.y);
    let upper = Bounds {
        y1: seen.person.y1.min(shoulders + person.figure.height * 0.14),
        ..seen.person
    };
    let small = bounds.width().min(bounds.height()) < PERSON_MIN;
    let id = person.id * 2;
    let mut objects = vec![TruthObject {
        id,
        class: "person".to_owned(),
        r#box: bounds.array(),
        visible,
        ignore: small || visible < VISIBLE_MIN || inside_frame(&upper) < 0.5,
        parent: None,
        attributes: BTreeMap::from([("keypoints".to_owned(), keypoints(seen, nearer))]),
    }];
    if let Some(face) = seen.face {
        objects.extend(face_truth(person, seen, &face, nearer));
    }
    objects
}

fn keypoints(seen: &FigureSeen, nearer: &Nearer<'_>) -> TruthAttribute {
    let (width, height) = (SIZE.0 as f32, SIZE.1 as f32);
    let points = seen.keypoints.iter().map(|(at, own)| TruthPoint {
        x: at.x,
        y: at.y,
        visible: *own && (0.0..width).contains(&at.x) && (0.0..height).contains(&at.y) && !nearer.cover(*at),
    });
    TruthAttribute::Points(points.collect())
}

fn face_truth(person: &Person, seen: &FigureSeen, face: &Bounds, nearer: &Nearer<'_>) -> Option<TruthObject> {
    let bounds = face.within(SIZE);
    if bounds.area() < 1.0 {
        return None;
    }
    let middle = vec2(face.x0.midpoint(face.x1), face.y0.midpoint(face.y1));
    let visible = nearer.leave(&bounds, |at| {
        let off = at - middle;
        (off.x / face.width()).hypot(off.y / face.height()) < 0.5
    });
    let small = bounds.width().min(bounds.height()) < FACE_MIN;
    let head = &seen.head;
    let angles = |(yaw, pitch): (f32, f32)| TruthAttribute::Angles { yaw, pitch };
    let expression = if head.strength < MIN_STRENGTH {
        Expression::Neutral
    } else {
        head.expression
    };
    let class = expression.name().to_owned();
    let known = person.who.part != Part::Clip || person.who.number < GALLERY;
    let attributes = [
        (
            "identity",
            TruthAttribute::Match {
                r#match: known.then(|| person.who.name()),
            },
        ),
        ("expression", TruthAttribute::Class { class }),
        ("gaze", angles(direction(head, head.eyes))),
        ("head_pose", angles(direction(head, (0.0, 0.0)))),
    ];
    Some(TruthObject {
        id: person.id * 2 + 1,
        class: "face".to_owned(),
        r#box: bounds.array(),
        visible,
        ignore: small || visible < VISIBLE_MIN || inside_frame(face) < 0.5,
        parent: Some(person.id * 2),
        attributes: attributes.map(|(name, value)| (name.to_owned(), value)).into(),
    })
}
