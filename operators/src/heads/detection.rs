//! Shared by detectors: candidates in input pixels, non-maximum suppression, and the transform to source pixels.

use weir_flow::{BoxCertainty, Implausible, Inference, KeyPoint, Object, Point, Points, Rect, Settings};

use super::groups::Groups;
use super::input::ItemTransform;
use super::labels::Labels;
use super::prob_iou::prob_iou;
use super::thresholds::ClassThresholds;

/// Candidates that suppression considers, best first: its cost grows with their square.
const MAX_CANDIDATES: usize = 2000;
/// Largest score; above 1 by what rounding explains.
const MAX_SCORE: f32 = 1.01;
/// Objects of one item.
const MAX_OBJECTS: usize = 300;

/// A candidate for an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Candidate {
    pub(crate) class: usize,
    pub(crate) score: f32,
    /// In input pixels.
    pub(crate) rect: Rect,
    /// In input pixels.
    pub(crate) points: Points,
    /// Number of the box in the output, by which a head finds its other values once suppression is done.
    pub(crate) index: usize,
}

impl Candidate {
    pub(crate) fn new(class: usize, score: f32, rect: Rect) -> Self {
        Self {
            class,
            score,
            rect,
            points: Points::None,
            index: 0,
        }
    }

    /// Overlap with another box: of rotated boxes by [`prob_iou`], else of the upright ones.
    fn overlap(&self, other: &Self) -> f32 {
        match (&self.points, &other.points) {
            (Points::Rotated(one), Points::Rotated(other)) => prob_iou(one, other),
            _ => self.rect.iou(&other.rect),
        }
    }
}

/// The rectangle of that size around a centre.
pub(crate) fn centred_rect(centre_x: f32, centre_y: f32, width: f32, height: f32) -> Rect {
    Rect::new(
        centre_x - width / 2.0,
        centre_y - height / 2.0,
        centre_x + width / 2.0,
        centre_y + height / 2.0,
    )
}

/// Thresholds by which candidates are kept.
#[derive(Debug, Clone)]
pub(crate) struct DetectionFilter {
    /// Least score of a candidate.
    pub(crate) threshold: f32,
    /// Least score of an object. Candidates below it say how certain it is that there is no more.
    kept: f32,
    /// Whether the certainty is asked for.
    certainty: bool,
    pub(crate) overlap: f32,
    pub(crate) labels: Labels,
    groups: Groups,
    operating: ClassThresholds,
}

impl DetectionFilter {
    /// From the keys `score_threshold`, `class_thresholds`, `nms_iou`, `nms_groups` and `nms_group_iou`.
    ///
    /// # Errors
    /// Groups or thresholds of unknown classes, or a class in two groups.
    pub(crate) fn read(
        settings: &Settings,
        threshold: f64,
        overlap: f64,
        labels: Labels,
    ) -> Result<Self, String> {
        let threshold = settings.number("score_threshold", threshold) as f32;
        let operating = ClassThresholds::read(settings, &labels, threshold)?;
        let kept = threshold.min(operating.least());
        let certainty = settings.text("certainty").is_some();
        Ok(Self {
            threshold: if certainty { kept / 2.0 } else { kept },
            kept,
            certainty,
            overlap: settings.number("nms_iou", overlap) as f32,
            groups: Groups::read(settings, &labels)?,
            operating,
            labels,
        })
    }

    /// Candidates from rows in the layout of the YOLOv5 family: centre, size, objectness, values of the model's own,
    /// and from `first_class` on the classes; score = objectness * best class.
    pub(crate) fn rows(
        &self,
        data: &[f32],
        channels: usize,
        first_class: usize,
        points: impl Fn(&[f32]) -> Points,
    ) -> Vec<Candidate> {
        let candidate = |row: &[f32]| {
            let (class, probability) = best(&row[first_class..]);
            let (score, rect) = (row[4] * probability, centred_rect(row[0], row[1], row[2], row[3]));
            (score >= self.threshold).then(|| Candidate {
                points: points(row),
                ..Candidate::new(class, score, rect)
            })
        };
        // Few rows have an object, so objectness is tested before the classes.
        data.chunks_exact(channels)
            .filter(|row| row[4] >= self.threshold)
            .filter_map(candidate)
            .collect()
    }

    /// The candidates that survive suppression, as objects in source pixels.
    pub(crate) fn objects(&self, candidates: Vec<Candidate>, transform: &ItemTransform) -> Inference {
        self.objects_with(candidates, transform, |candidate| {
            Some(source_points(&candidate.points, transform))
        })
    }

    /// As [`Self::objects`], with points in source pixels that the head finds for candidates which survive; `None` leaves an object
    /// out.
    pub(crate) fn objects_with(
        &self,
        candidates: Vec<Candidate>,
        transform: &ItemTransform,
        points: impl Fn(&Candidate) -> Option<Points>,
    ) -> Inference {
        let implausible = self.implausible(&candidates);
        let candidates = suppress(candidates, self.overlap, &self.groups);
        let boxes: Vec<BoxCertainty> = if self.certainty {
            let certainty = |candidate: &Candidate| BoxCertainty {
                rect: transform.rect(&candidate.rect),
                certainty: self.distance(candidate.class, candidate.score),
            };
            candidates.iter().map(certainty).collect()
        } else {
            Vec::new()
        };
        let least = boxes.iter().map(|decided| decided.certainty).fold(1.0, f32::min);
        let kept = candidates
            .into_iter()
            .filter(|candidate| candidate.score >= self.kept);
        let objects = kept.filter_map(|candidate| {
            let rect = transform.rect(&candidate.rect);
            // A box within the padding of the input covers no pixel of the picture.
            let is_seen = rect.area() > 0.0;
            let points = is_seen.then(|| points(&candidate)).flatten()?;
            Some(Object {
                candidate: self.operating.is_candidate(candidate.class, candidate.score),
                class: self.labels.name(candidate.class),
                score: candidate.score.clamp(0.0, 1.0),
                rect,
                parent: None,
                points,
            })
        });
        let objects = objects.collect();
        Inference {
            objects,
            certainty: self.certainty.then_some(least),
            boxes,
            implausible,
            ..Inference::default()
        }
    }

    /// A sign that the outputs are not those of such a detector.
    fn implausible(&self, candidates: &[Candidate]) -> Option<Implausible> {
        let kept = candidates.iter().filter(|candidate| candidate.score >= self.kept);
        let is_small = |candidate: &Candidate| candidate.rect.width() < 1.0 && candidate.rect.height() < 1.0;
        if let Some(high) = candidates.iter().find(|candidate| candidate.score > MAX_SCORE) {
            return Some(Implausible::Score(high.score));
        }
        let (count, small) = kept.fold((0, true), |(count, small), candidate| {
            (count + 1, small && is_small(candidate))
        });
        if count > 0 && small {
            return Some(Implausible::SmallBoxes);
        }
        (count > MAX_CANDIDATES).then_some(Implausible::Boxes(count))
    }

    /// Certainty of one score, from 0 to 1: its distance from the operating threshold of its class. It is 0
    /// at the threshold and 1 at a score of 1 or of half the threshold. The certainty of a frame is the least
    /// distance of its candidates, or 1 if it has no candidate.
    fn distance(&self, class: usize, score: f32) -> f32 {
        let threshold = self.operating.of(class).unwrap_or(self.kept);
        let over = score - threshold;
        let most = if over >= 0.0 {
            1.0 - threshold
        } else {
            threshold / 2.0
        };
        (over.abs() / most.max(f32::MIN_POSITIVE)).clamp(0.0, 1.0)
    }
}

/// Points of the input in source pixels.
fn source_points(points: &Points, transform: &ItemTransform) -> Points {
    let at = |point: Point| transform.point(point);
    match points {
        Points::Face(points) => Points::Face(points.map(at)),
        Points::Corners(corners) => Points::Corners(corners.map(at)),
        Points::Rotated(rotated) => Points::Rotated(rotated.mapped(at)),
        Points::Pose(points) => {
            let point = |point: &KeyPoint| KeyPoint {
                at: at(point.at),
                ..point.clone()
            };
            Points::Pose(points.iter().map(point).collect())
        }
        // Heads make masks in source pixels.
        Points::None | Points::Mask(_) => points.clone(),
    }
}

/// Greedy suppression within each class and each group of classes, best first; ties in the model's order. Candidates
/// with values that are not finite are removed.
fn suppress(mut candidates: Vec<Candidate>, overlap: f32, groups: &Groups) -> Vec<Candidate> {
    candidates
        .retain(|Candidate { score, rect, .. }| (score + rect.x0 + rect.y0 + rect.x1 + rect.y1).is_finite());
    candidates.sort_by(|a, b| b.score.total_cmp(&a.score));
    candidates.truncate(MAX_CANDIDATES);
    let mut kept: Vec<Candidate> = Vec::new();
    for candidate in candidates {
        let covered = |better: &Candidate| {
            let most = match better.class == candidate.class {
                true => Some(overlap),
                false => groups.overlap(better.class, candidate.class),
            };
            most.is_some_and(|most| better.overlap(&candidate) > most)
        };
        if !kept.iter().any(covered) {
            kept.push(candidate);
            if kept.len() == MAX_OBJECTS {
                break;
            }
        }
    }
    kept
}

/// The highest score with its index; the first of equals. NaN never wins.
pub(crate) fn best(scores: &[f32]) -> (usize, f32) {
    // Two passes: the first compiles to vector instructions.
    let most = scores.iter().fold(
        f32::NEG_INFINITY,
        |most, score| if *score > most { *score } else { most },
    );
    (scores.iter().position(|score| *score == most).unwrap_or(0), most)
}

/// Column and row of cell `index` in a grid stored row by row.
pub(crate) fn cell(index: usize, columns: usize) -> Point {
    Point::new((index % columns) as f32, (index / columns) as f32)
}

/// Centre in input pixels of cell `index` in a grid of that stride, stored row by row.
pub(crate) fn cell_centre(index: usize, columns: usize, stride: u32) -> Point {
    let (at, stride) = (cell(index, columns), stride as f32);
    Point::new((at.x + 0.5) * stride, (at.y + 0.5) * stride)
}

/// Columns and rows of the grid of that stride over an input.
pub(crate) fn grid(width: u32, height: u32, stride: u32) -> (usize, usize) {
    (width.div_ceil(stride) as usize, height.div_ceil(stride) as usize)
}

/// Probability of a logit.
pub(crate) fn sigmoid(logit: f32) -> f32 {
    1.0 / (1.0 + (-logit).exp())
}

/// Smallest and largest finite value; positive and negative infinity if there is none.
pub(crate) fn finite_range(values: impl Iterator<Item = f32>) -> (f32, f32) {
    values
        .filter(|value| value.is_finite())
        .fold((f32::INFINITY, f32::NEG_INFINITY), |(low, high), value| {
            (low.min(value), high.max(value))
        })
}

/// Whether a finite value is no probability, by more than rounding explains.
pub(crate) fn is_no_probability(value: f32) -> bool {
    value.is_finite() && !(-0.01..=MAX_SCORE).contains(&value)
}

/// Refuses scores whose range is that of probabilities.
///
/// # Errors
/// The scores, named by `scores`, are no logits.
pub(crate) fn expect_logits(scores: &str, (low, high): (f32, f32)) -> Result<(), String> {
    if low >= 0.0 && high <= 1.0 && high > 0.0 {
        return Err(format!(
            "its {scores} are from {low} to {high}: they are probabilities already, and this head reads logits; export the model \
             without the sigmoid"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::labels::COCO;
    use std::sync::Arc;
    use weir_flow::{Settings, Value};

    fn candidate(class: usize, score: f32, x: f32) -> Candidate {
        Candidate::new(class, score, Rect::new(x, 0.0, x + 10.0, 10.0))
    }

    #[test]
    fn the_better_of_two_of_a_class_stays() {
        let all = vec![
            candidate(0, 0.5, 0.0),
            candidate(0, 0.9, 1.0),
            candidate(1, 0.4, 0.0),
            candidate(0, 0.3, 20.0),
        ];
        let kept: Vec<(usize, f32)> = suppress(all, 0.5, &Groups::default())
            .iter()
            .map(|kept| (kept.class, kept.score))
            .collect();
        assert_eq!(kept, [(0, 0.9), (1, 0.4), (0, 0.3)]);
    }

    #[test]
    fn grouped_classes_suppress_each_other_and_ungrouped_ones_do_not() {
        let labels = ["person", "bicycle", "car", "truck"].map(Arc::from);
        let vehicles = Value::Texts(vec!["car, truck".to_owned()]);
        let settings = Settings([("nms_groups".to_owned(), vehicles)].into_iter().collect());
        let groups = Groups::read(&settings, &Labels::of(&labels)).expect("groups");
        let all = vec![
            candidate(2, 0.8, 0.0),
            candidate(3, 0.9, 0.5),
            candidate(0, 0.7, 40.0),
            candidate(1, 0.6, 40.5),
            // Beside another vehicle, not the same.
            candidate(2, 0.5, 60.0),
            candidate(3, 0.4, 63.0),
        ];
        let kept: Vec<usize> = suppress(all, 0.5, &groups)
            .iter()
            .map(|kept| kept.class)
            .collect();
        assert_eq!(kept, [3, 0, 1, 2, 3]);
    }

    #[test]
    fn implausible_outputs_are_found() {
        let labels = Labels::read(&Settings::default(), COCO, 80).expect("labels");
        let filter = DetectionFilter::read(&Settings::default(), 0.25, 0.45, labels).expect("filter");
        let sign = |candidates: Vec<Candidate>| {
            filter
                .objects(candidates, &ItemTransform::identity(640, 640))
                .implausible
        };
        let tiny = |score: f32| Candidate::new(0, score, Rect::new(0.1, 0.1, 0.9, 0.4));
        assert_eq!(sign(vec![candidate(0, 1.005, 5.0), tiny(0.9)]), None);
        assert_eq!(sign(vec![candidate(0, 7.0, 5.0)]), Some(Implausible::Score(7.0)));
        assert_eq!(sign(vec![tiny(0.9), tiny(0.8)]), Some(Implausible::SmallBoxes));
        let many = (0..3000).map(|x| candidate(0, 0.5, x as f32)).collect();
        assert_eq!(sign(many), Some(Implausible::Boxes(3000)));
        assert_eq!(sign(Vec::new()), None);
    }

    #[test]
    fn candidates_with_nan_are_removed() {
        let mut broken = candidate(0, 0.9, 0.0);
        broken.rect.x1 = f32::NAN;
        assert!(suppress(vec![broken, candidate(0, f32::NAN, 0.0)], 0.5, &Groups::default()).is_empty());
    }

    #[test]
    fn the_score_nearest_to_the_threshold_says_how_certain_it_is() {
        let filter = |settings: &Settings| {
            let labels = Labels::read(&Settings::default(), COCO, 80).expect("labels");
            DetectionFilter::read(settings, 0.4, 0.5, labels).expect("keys")
        };
        let asked = Settings([("certainty".to_owned(), Value::Text("distance".to_owned()))].into());
        let transform = ItemTransform::identity(100, 100);
        let decide = |filter: &DetectionFilter, scores: &[f32]| {
            let candidates = scores.iter().zip([0.0, 20.0, 40.0]);
            let candidates = candidates.map(|(score, x)| candidate(2, *score, x));
            let kept = candidates.filter(|candidate| candidate.score >= filter.threshold);
            let found = filter.objects(kept.collect(), &transform);
            (found.objects.len(), found.certainty)
        };
        let asks = filter(&asked);
        assert_eq!(decide(&asks, &[]), (0, Some(1.0)));
        assert_eq!(decide(&asks, &[1.0, 0.2]), (1, Some(1.0)));
        let (count, certainty) = decide(&asks, &[0.7, 0.3, 1.0]);
        assert_eq!(count, 2, "what is below the threshold is no object");
        assert!((certainty.expect("asked") - 0.5).abs() < 1e-6);
        assert_eq!(decide(&asks, &[0.9, 0.4]), (2, Some(0.0)));
        assert_eq!(decide(&filter(&Settings::default()), &[0.7, 0.3]), (1, None));
        // The candidates are cars: what is near the threshold of cars is uncertain, also where others have a lower one.
        let mut by_class = asked.clone();
        let thresholds = Value::Texts(vec!["car 0.6".to_owned()]);
        by_class.0.insert("class_thresholds".to_owned(), thresholds);
        let by_class = filter(&by_class);
        assert_eq!(decide(&by_class, &[0.6, 1.0]), (2, Some(0.0)));
        let (count, certainty) = decide(&by_class, &[0.45, 1.0]);
        assert_eq!(count, 2, "a candidate is kept");
        assert!((certainty.expect("asked") - 0.5).abs() < 1e-6);
    }

    #[test]
    fn objects_are_clamped_to_the_picture() {
        let labels = Labels::read(&Settings::default(), COCO, 80).expect("labels");
        let filter = DetectionFilter::read(&Settings::default(), 0.3, 0.5, labels).expect("keys");
        let mut transform = ItemTransform::identity(100, 100);
        transform.frame = (100.0, 50.0);
        let over = Candidate::new(2, 0.9, Rect::new(-5.0, 40.0, 20.0, 60.0));
        let outside = Candidate::new(2, 0.9, Rect::new(40.0, 60.0, 60.0, 80.0));
        let found = filter.objects(vec![over, outside], &transform).objects;
        assert_eq!(found.len(), 1);
        assert_eq!(
            (&*found[0].class, found[0].rect),
            ("car", Rect::new(0.0, 40.0, 20.0, 50.0))
        );
    }
}
