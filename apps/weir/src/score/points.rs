//! Key points: PCK@0.2, the part of visible points that are within a fifth of the torso of where they should be.

use serde::Serialize;
use weir_truth::{TruthAttribute, TruthPoint};

use super::attributes::{Claim, Coverage};
use super::event::AttributeValue;
use super::share::share;

/// Largest error of a right point, in torso lengths.
const NEAR: f64 = 0.2;

/// The torso's diagonals, by index in COCO's order: left shoulder to right hip, right shoulder to left hip.
const TORSO: [(usize, usize); 2] = [(5, 12), (6, 11)];

/// Accuracy of key points (PCK).
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct PointsReading {
    /// Persons with key points.
    #[serde(flatten)]
    pub(crate) asked: Coverage,
    /// Visible points in the ground truth.
    pub(crate) points: u64,
    /// Visible points of persons who were found.
    pub(crate) points_of_found: u64,
    /// Points with an error of at most [`NEAR`] torso lengths.
    pub(crate) right: u64,
    /// `right / points_of_found`.
    pub(crate) pck_of_found: Option<f64>,
    /// `right / points`.
    pub(crate) pck_of_all: Option<f64>,
}

impl PointsReading {
    pub(super) fn new(claims: &[Claim<'_>]) -> Self {
        let mut asked = Coverage::default();
        let (mut points, mut points_of_found, mut right) = (0, 0, 0);
        for claim in claims {
            let TruthAttribute::Points(truth) = claim.truth else {
                continue;
            };
            let said = match claim.said {
                Some(AttributeValue::Points(said)) => Some(said.as_slice()),
                _ => None,
            };
            asked.add(claim.found, said.is_some());
            let visible = truth.iter().filter(|point| point.visible).count() as u64;
            points += visible;
            points_of_found += if claim.found { visible } else { 0 };
            right += near(truth, said.unwrap_or_default(), NEAR * scale(claim, truth));
        }
        Self {
            asked,
            points,
            points_of_found,
            right,
            pck_of_found: share(right, points_of_found),
            pck_of_all: share(right, points),
        }
    }
}

/// Number of visible points that are at most `radius` pixels from their true position.
fn near(truth: &[TruthPoint], said: &[[f64; 2]], radius: f64) -> u64 {
    let both = truth.iter().zip(said).filter(|(truth, _)| truth.visible);
    both.filter(|(truth, said)| distance(position(truth), **said) <= radius)
        .count() as u64
}

/// The torso, or half of the box's height where not all of it is in the frame.
fn scale(claim: &Claim<'_>, truth: &[TruthPoint]) -> f64 {
    let [_, top, _, bottom] = claim.object.r#box.map(f64::from);
    let inside = |point: &TruthPoint| {
        (0.0..=claim.size.0 as f32).contains(&point.x) && (0.0..=claim.size.1 as f32).contains(&point.y)
    };
    let point = |index: usize| truth.get(index).filter(|point| inside(point)).map(position);
    let diagonal = |(shoulder, hip)| Some(distance(point(shoulder)?, point(hip)?));
    let [one, other] = TORSO.map(diagonal);
    let torso = one.zip(other).map(|(one, other)| one.max(other));
    torso.unwrap_or((bottom - top) / 2.0)
}

fn position(point: &TruthPoint) -> [f64; 2] {
    [f64::from(point.x), f64::from(point.y)]
}

fn distance(a: [f64; 2], b: [f64; 2]) -> f64 {
    (a[0] - b[0]).hypot(a[1] - b[1])
}
