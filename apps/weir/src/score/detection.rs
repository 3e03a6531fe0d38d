//! Objects: average precision at an IoU of 0.5, and precision and recall of all that was given.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::Observed;
use super::matching::{Verdict, classify};
use super::share::{mean as mean_of, share};

/// Precision, recall and average precision of one class.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ClassFigures {
    /// Things to find, over all frames.
    pub(crate) truths: u64,
    /// Detections that are events, without those of ignored things. Candidates count for the average precision alone.
    pub(crate) detections: u64,
    /// Detections that are of a thing.
    pub(crate) right: u64,
    /// Area under the envelope of precision over recall; none where there is nothing to find.
    pub(crate) ap: Option<f64>,
    /// `right / detections`.
    pub(crate) precision: Option<f64>,
    /// `right / truths`.
    pub(crate) recall: Option<f64>,
}

/// The figures of every class.
pub(super) fn classes(names: &BTreeSet<&str>, frames: &[Observed<'_>]) -> BTreeMap<String, ClassFigures> {
    names
        .iter()
        .map(|name| ((*name).to_owned(), class(name, frames)))
        .collect()
}

/// Mean average precision of the classes that are there to be found.
pub(super) fn mean(classes: &BTreeMap<String, ClassFigures>) -> Option<f64> {
    let precisions: Vec<f64> = classes.values().filter_map(|class| class.ap).collect();
    mean_of(&precisions)
}

/// Detections of classes that are not `known`.
pub(super) fn unknown(known: &BTreeSet<&str>, frames: &[Observed<'_>]) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::new();
    let seen = frames.iter().filter_map(|frame| frame.seen).flatten();
    for seen in seen.filter(|seen| !seen.candidate) {
        if !known.contains(seen.class.as_str()) {
            *counts.entry(seen.class.clone()).or_default() += 1;
        }
    }
    counts
}

/// Outcome of a detection of a class.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ScoredOutcome {
    pub(super) score: f32,
    /// True if the detection is of an object that no detection of a higher score took.
    pub(super) right: bool,
    /// True if the detection is below its operating threshold, and so no event.
    pub(super) candidate: bool,
}

/// Things of a class that are to be found.
pub(super) fn truths(name: &str, frames: &[Observed<'_>]) -> u64 {
    let objects = frames.iter().flat_map(|frame| &frame.truth.objects);
    objects
        .filter(|truth| truth.class == name && !truth.ignore)
        .count() as u64
}

/// The outcomes of all detections of a class by descending score, without those of ignored things.
pub(super) fn outcomes(name: &str, frames: &[Observed<'_>]) -> Vec<ScoredOutcome> {
    let mut asked = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let seen = frame.seen.unwrap_or_default().iter();
        asked.extend(
            seen.filter(|seen| seen.class == name)
                .map(|seen| (index, frame, seen)),
        );
    }
    // Stable: equal scores stay in the order of frames and of findings.
    asked.sort_by(|a, b| b.2.score.total_cmp(&a.2.score));
    let mut taken: Vec<Vec<bool>> = frames
        .iter()
        .map(|frame| vec![false; frame.truth.objects.len()])
        .collect();
    let mut outcomes = Vec::new();
    for (index, frame, seen) in asked {
        let right = match classify(&frame.truth.objects, &taken[index], seen) {
            Verdict::Right(thing) => {
                taken[index][thing] = true;
                true
            }
            Verdict::Wrong => false,
            Verdict::LeftOut => continue,
        };
        outcomes.push(ScoredOutcome {
            score: seen.score,
            right,
            candidate: seen.candidate,
        });
    }
    outcomes
}

fn class(name: &str, frames: &[Observed<'_>]) -> ClassFigures {
    let truths = truths(name, frames);
    let outcomes = outcomes(name, frames);
    let events = || outcomes.iter().filter(|outcome| !outcome.candidate);
    let right = events().filter(|outcome| outcome.right).count() as u64;
    let detections = events().count() as u64;
    let all: Vec<bool> = outcomes.iter().map(|outcome| outcome.right).collect();
    ClassFigures {
        truths,
        detections,
        right,
        ap: average_precision(&all, truths),
        precision: share(right, detections),
        recall: share(right, truths),
    }
}

/// Area under the envelope of precision over recall, all points: `outcomes` by descending score, right or not.
fn average_precision(outcomes: &[bool], truths: u64) -> Option<f64> {
    let mut right = 0_u64;
    let mut precisions: Vec<f64> = Vec::new();
    for (before, _) in outcomes.iter().enumerate().filter(|(_, outcome)| **outcome) {
        right += 1;
        precisions.push(right as f64 / (before + 1) as f64);
    }
    // From the last one back: the envelope is the best precision at this recall or beyond. It changes only where a right
    // one comes, and each of these is one step of recall.
    let mut best = 0.0_f64;
    let mut area = 0.0;
    for precision in precisions.iter().rev() {
        best = best.max(*precision);
        area += best;
    }
    (truths > 0).then(|| area / truths as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn areas_by_hand() {
        let check = |outcomes: &[bool], truths: u64, is: Option<f64>| {
            let area = average_precision(outcomes, truths);
            let near = match (area, is) {
                (Some(area), Some(is)) => (area - is).abs() < 1e-12,
                (area, is) => area == is,
            };
            assert!(near, "{outcomes:?} of {truths}: {area:?}, not {is:?}");
        };
        check(&[true, true], 2, Some(1.0));
        check(&[], 2, Some(0.0));
        check(&[false], 0, None);
        check(&[true], 2, Some(0.5));
        check(&[false, true], 1, Some(0.5));
        // Precision 1 at a recall of one half, then 2/3 at 1.
        check(&[true, false, true], 2, Some(0.5 + 0.5 * 2.0 / 3.0));
        // The envelope lifts the first right one, at 1/2, to 2/3.
        check(&[false, true, true], 2, Some(2.0 / 3.0));
        // What comes after the last right one costs nothing.
        check(&[true, false, false], 1, Some(1.0));
    }
}
