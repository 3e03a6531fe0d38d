//! Figures over thresholds: precision and recall of a class over the score from which on a detection is an event; known faces
//! and strangers over the cosine from which on a face is the nearest of the gallery.

use std::collections::BTreeMap;

use serde::Serialize;
use weir_truth::TruthAttribute;

use super::attributes::{Claim, claims};
use super::detection::{self, ScoredOutcome};
use super::event::AttributeValue;
use super::matching::pair;
use super::{Observed, Scope};

/// Points of a curve that are kept: it is drawn, and read by people.
const MAX_POINTS: usize = 200;
/// Strangers of whom one may be given a name.
const STRANGERS_PER_NAME: f64 = 20.0;

/// A class over its threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ClassCurve {
    /// Things to find.
    pub(crate) truths: u64,
    /// By ascending threshold.
    pub(crate) points: Vec<ClassPoint>,
    /// The point of the best F1.
    pub(crate) best: Option<ClassPoint>,
    /// At the threshold that the run had.
    pub(crate) operating: Option<ClassPoint>,
}

/// A class at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct ClassPoint {
    /// The least score of an event.
    pub(crate) threshold: f64,
    /// Right detections of all.
    pub(crate) precision: f64,
    /// Things that were found, of all.
    pub(crate) recall: f64,
    /// The harmonic mean of both.
    pub(crate) f1: f64,
}

/// A name of a gallery over its threshold.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct MatchCurve {
    /// Objects of a known name, of which something was said.
    pub(crate) known: u64,
    /// Objects of no name, of which something was said.
    pub(crate) strangers: u64,
    /// By ascending threshold.
    pub(crate) points: Vec<MatchPoint>,
    /// The lowest threshold at which at most one stranger in twenty is named.
    pub(crate) best: Option<MatchPoint>,
}

/// A gallery at one threshold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub(crate) struct MatchPoint {
    /// The least cosine of a match.
    pub(crate) threshold: f64,
    /// Known objects that are given their name, of all known ones.
    pub(crate) named: f64,
    /// Known objects that are given another's name, of all known ones.
    pub(crate) misnamed: f64,
    /// Strangers that are given a name, of all strangers.
    pub(crate) strangers_named: f64,
}

/// All curves of a run, over delivered frames.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub(crate) struct Curves {
    /// Precision and recall over the score threshold, by class.
    pub(crate) classes: BTreeMap<String, ClassCurve>,
    /// Shares of right and wrong names over the cosine threshold, by attribute.
    pub(crate) matches: BTreeMap<String, MatchCurve>,
}

/// The curves of the delivered of `frames`.
pub(super) fn curves<'a>(scope: &Scope<'a>, delivered: &[Observed<'a>]) -> Curves {
    let class = |name: &&str| {
        let truths = detection::truths(name, delivered);
        let curve = class_curve(truths, &detection::outcomes(name, delivered));
        ((*name).to_owned(), curve)
    };
    let pairs: Vec<Vec<Option<usize>>> = delivered.iter().map(pair).collect();
    let claims = claims(&scope.attributes, delivered, &pairs);
    let matches = claims.into_iter().filter_map(|(name, claims)| {
        let is_match = matches!(claims.first()?.truth, TruthAttribute::Match { .. });
        is_match.then(|| (name.to_owned(), match_curve(&claims)))
    });
    Curves {
        classes: scope.classes.iter().map(class).collect(),
        matches: matches.collect(),
    }
}

/// `outcomes` by descending score.
fn class_curve(truths: u64, outcomes: &[ScoredOutcome]) -> ClassCurve {
    let (mut points, mut right, mut operating) = (Vec::new(), 0_u64, None);
    for (index, outcome) in outcomes.iter().enumerate() {
        right += u64::from(outcome.right);
        // Detections of one score come in together.
        if outcomes
            .get(index + 1)
            .is_some_and(|next| next.score >= outcome.score)
        {
            continue;
        }
        let precision = right as f64 / (index + 1) as f64;
        let recall = if truths > 0 {
            right as f64 / truths as f64
        } else {
            0.0
        };
        let both = precision + recall;
        let point = ClassPoint {
            threshold: f64::from(outcome.score),
            precision,
            recall,
            f1: if both > 0.0 {
                2.0 * precision * recall / both
            } else {
                0.0
            },
        };
        if !outcome.candidate {
            operating = Some(point);
        }
        points.push(point);
    }
    points.reverse();
    let best = points.iter().copied().max_by(|a, b| a.f1.total_cmp(&b.f1));
    ClassCurve {
        truths,
        best: best.filter(|_| truths > 0),
        operating,
        points: thinned(points),
    }
}

fn match_curve(claims: &[Claim<'_>]) -> MatchCurve {
    // What was said of each: the cosine, and of known ones whether the name is theirs.
    let (mut known, mut strangers): (Vec<(f64, bool)>, Vec<f64>) = (Vec::new(), Vec::new());
    for claim in claims {
        let (TruthAttribute::Match { r#match: truth }, Some(AttributeValue::Match { name, cosine })) =
            (claim.truth, claim.said)
        else {
            continue;
        };
        let cosine = cosine.unwrap_or(-1.0);
        match truth {
            Some(truth) => known.push((cosine, name.as_ref() == Some(truth))),
            None => strangers.push(cosine),
        }
    }
    let of = |count: usize, all: usize| if all > 0 { count as f64 / all as f64 } else { 0.0 };
    let mut thresholds: Vec<f64> = known
        .iter()
        .map(|(cosine, _)| *cosine)
        .chain(strangers.iter().copied())
        .collect();
    thresholds.sort_by(f64::total_cmp);
    thresholds.dedup();
    let point = |threshold: f64| {
        let reach = || known.iter().filter(|(cosine, _)| *cosine >= threshold);
        MatchPoint {
            threshold,
            named: of(reach().filter(|(_, right)| *right).count(), known.len()),
            misnamed: of(reach().filter(|(_, right)| !*right).count(), known.len()),
            strangers_named: of(
                strangers.iter().filter(|cosine| **cosine >= threshold).count(),
                strangers.len(),
            ),
        }
    };
    let points: Vec<MatchPoint> = thinned(thresholds).into_iter().map(point).collect();
    let best = points
        .iter()
        .copied()
        .find(|point| point.strangers_named * STRANGERS_PER_NAME <= 1.0);
    MatchCurve {
        known: known.len() as u64,
        strangers: strangers.len() as u64,
        points,
        best,
    }
}

/// Evenly chosen ones, with the first and the last.
fn thinned<T: Copy>(points: Vec<T>) -> Vec<T> {
    if points.len() <= MAX_POINTS {
        return points;
    }
    let last = points.len() - 1;
    let place = |number: usize| points[number * last / (MAX_POINTS - 1)];
    (0..MAX_POINTS).map(place).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(score: f32, right: bool) -> ScoredOutcome {
        ScoredOutcome {
            score,
            right,
            candidate: score < 0.5,
        }
    }

    #[test]
    fn the_best_threshold_is_where_precision_and_recall_balance() {
        let outcomes = [
            outcome(0.9, true),
            outcome(0.8, true),
            outcome(0.5, false),
            outcome(0.4, true),
            outcome(0.2, false),
            outcome(0.2, false),
        ];
        let curve = class_curve(3, &outcomes);
        let thresholds: Vec<f64> = curve.points.iter().map(|point| point.threshold).collect();
        assert_eq!(thresholds.len(), 5, "equal scores are one point");
        assert!(thresholds.is_sorted());
        let best = curve.best.expect("there are things");
        assert!(
            (best.threshold - 0.4).abs() < 1e-6 && (best.f1 - 6.0 / 7.0).abs() < 1e-12,
            "{best:?}"
        );
        let operating = curve.operating.expect("there are events");
        assert!((operating.threshold - 0.5).abs() < 1e-6, "{operating:?}");
        assert!((operating.recall - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn nothing_to_find_has_no_best() {
        assert_eq!(class_curve(0, &[outcome(0.9, false)]).best, None);
        assert_eq!(class_curve(2, &[]).best, None);
    }

    #[test]
    fn many_points_are_thinned_to_the_ends() {
        let few = thinned((0..10_000).collect());
        assert_eq!((few.len(), few[0], few[MAX_POINTS - 1]), (MAX_POINTS, 0, 9_999));
    }
}
