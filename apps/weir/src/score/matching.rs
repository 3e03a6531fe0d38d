//! Assignment of detections to objects of the ground truth.

use weir_truth::TruthObject;

use super::{Detection, Observed};

/// Least intersection over union of a detection and its object.
pub(super) const MIN_IOU: f64 = 0.5;

/// Intersection over union of two boxes: left, top, right, bottom.
pub(super) fn iou(a: &[f32; 4], b: &[f32; 4]) -> f64 {
    let [a, b] = [a, b].map(|corners| corners.map(f64::from));
    let side = |low: usize, high: usize| (a[high].min(b[high]) - a[low].max(b[low])).max(0.0);
    let area = |of: &[f64; 4]| (of[2] - of[0]).max(0.0) * (of[3] - of[1]).max(0.0);
    let both = side(0, 2) * side(1, 3);
    let either = area(&a) + area(&b) - both;
    if either > 0.0 { both / either } else { 0.0 }
}

fn class_overlap(truth: &TruthObject, seen: &Detection) -> Option<f64> {
    let overlap = (truth.class == seen.class).then(|| iou(&truth.r#box, &seen.r#box))?;
    (overlap >= MIN_IOU).then_some(overlap)
}

/// For each true thing of the frame the finding that is of it: one to one, the greatest overlap first. Ignored things
/// take none, candidates are of none.
pub(super) fn pair(frame: &Observed<'_>) -> Vec<Option<usize>> {
    let (truths, seen) = (&frame.truth.objects, frame.seen.unwrap_or_default());
    let mut overlaps = Vec::new();
    for (thing, truth) in truths.iter().enumerate().filter(|(_, truth)| !truth.ignore) {
        for (finding, seen) in seen.iter().enumerate().filter(|(_, seen)| !seen.candidate) {
            overlaps.extend(class_overlap(truth, seen).map(|overlap| (overlap, thing, finding)));
        }
    }
    // Stable: equal overlaps stay in the order of the files.
    overlaps.sort_by(|a, b| b.0.total_cmp(&a.0));
    let mut of = vec![None; truths.len()];
    let mut taken = vec![false; seen.len()];
    for (_, thing, finding) in overlaps {
        if of[thing].is_none() && !taken[finding] {
            of[thing] = Some(finding);
            taken[finding] = true;
        }
    }
    of
}

/// Outcome of a detection, when detections take objects in descending order of score.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The detection is of this object, which no detection of a higher score took.
    Right(usize),
    /// The detection is of no object.
    Wrong,
    /// The detection is of an ignored object, and does not count.
    LeftOut,
}

/// The verdict on a finding among things of which some are `taken`: the free thing that it overlaps most; an ignored
/// one where no other is free, so that ignored things neither help nor hurt.
pub(super) fn classify(truths: &[TruthObject], taken: &[bool], seen: &Detection) -> Verdict {
    let mut best: Option<(f64, usize)> = None;
    let mut ignored = false;
    for (thing, truth) in truths.iter().enumerate() {
        let Some(overlap) = class_overlap(truth, seen) else {
            continue;
        };
        if truth.ignore {
            ignored = true;
        } else if !taken.get(thing).copied().unwrap_or(false)
            && best.is_none_or(|(greatest, _)| overlap > greatest)
        {
            best = Some((overlap, thing));
        }
    }
    match best {
        Some((_, thing)) => Verdict::Right(thing),
        None if ignored => Verdict::LeftOut,
        None => Verdict::Wrong,
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples::{car, detection, frame_of, observed};
    use super::*;

    #[test]
    fn overlaps() {
        let check = |a: [f32; 4], b: [f32; 4], is: f64| {
            assert!((iou(&a, &b) - is).abs() < 1e-12, "{a:?} {b:?} {}", iou(&a, &b));
            assert_eq!(iou(&a, &b), iou(&b, &a));
        };
        check([0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 2.0, 2.0], 1.0);
        check([0.0, 0.0, 2.0, 2.0], [0.0, 0.0, 1.0, 2.0], 0.5);
        check([0.0, 0.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0], 1.0 / 7.0);
        check([0.0, 0.0, 2.0, 2.0], [2.0, 0.0, 3.0, 2.0], 0.0);
        // Turned inside out, or nothing at all.
        check([2.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 2.0], 0.0);
        check([1.0; 4], [1.0; 4], 0.0);
    }

    #[test]
    fn pairs_are_one_to_one_and_the_greatest_overlap_goes_first() {
        // Both findings fit the first thing; the better one of the two fits the second best of all.
        let truth = frame_of(0, vec![car(1, 0.0), car(2, 3.0)]);
        let found = vec![
            detection("car", 0.9, 2.0),
            detection("car", 0.2, 0.0),
            detection("car", 0.1, 0.5),
        ];
        assert_eq!(pair(&observed(&truth, Some(&found))), [Some(1), Some(0)]);
        assert_eq!(pair(&observed(&truth, None)), [None, None]);
    }

    #[test]
    fn a_finding_of_another_class_is_of_nothing() {
        let truth = frame_of(0, vec![car(1, 0.0)]);
        let found = vec![detection("bus", 0.9, 0.0)];
        assert_eq!(pair(&observed(&truth, Some(&found))), [None]);
    }
}
