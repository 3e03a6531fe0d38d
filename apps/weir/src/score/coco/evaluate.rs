//! Assignment of results to annotations by COCO's rules, and precision over recall.

use super::files::{Annotation, CocoError, Dataset, Found, Results};
use super::overlap::Shape;
use crate::score::share::mean;

/// Overlaps from which on a result is of an annotation: 0.50, 0.55 to 0.95.
const OVERLAPS: usize = 10;
/// Points of recall at which precision is read: 0, 0.01 to 1.
const RECALLS: usize = 101;

/// Sizes of annotations that are asked for. Others, and results of such a size that are of none, count for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AreaRange {
    All,
    Small,
    Medium,
    Large,
}

impl AreaRange {
    const ALL: [Self; 4] = [Self::All, Self::Small, Self::Medium, Self::Large];

    /// Least and most pixels.
    fn bounds(self) -> (f64, f64) {
        let (small, medium, most) = (32.0 * 32.0, 96.0 * 96.0, 1e10);
        match self {
            Self::All => (0.0, most),
            Self::Small => (0.0, small),
            Self::Medium => (small, medium),
            Self::Large => (medium, most),
        }
    }

    fn has(self, area: f64) -> bool {
        let (low, high) = self.bounds();
        (low..=high).contains(&area)
    }
}

/// Precision and recall of one class, one range of sizes and one overlap.
struct Curve {
    category: u64,
    area: AreaRange,
    overlap: usize,
    /// Mean of the precision at [`RECALLS`] points.
    precision: f64,
    /// Recall with all results, 0 to 1.
    recall: f64,
}

/// Precision and recall of all classes that are annotated.
pub(super) struct Precisions(Vec<Curve>);

impl Precisions {
    /// Compares all pictures.
    pub(super) fn of(dataset: &Dataset, results: &Results, shape: Shape) -> Result<Self, CocoError> {
        let mut curves = Vec::new();
        for category in dataset.categories.keys() {
            let mut pictures = Vec::new();
            for image in dataset.image_ids() {
                let key = (image, *category);
                let truths = dataset.objects.get(&key).map_or(&[][..], Vec::as_slice);
                let found = results.objects.get(&key).map_or(&[][..], Vec::as_slice);
                if !truths.is_empty() || !found.is_empty() {
                    pictures.push(Picture::compare(truths, found, shape)?);
                }
            }
            let areas = AreaRange::ALL.into_iter();
            // Persons whose points are labelled are never small.
            let areas = areas.filter(|area| shape != Shape::KeyPoints || *area != AreaRange::Small);
            for area in areas {
                for overlap in 0..OVERLAPS {
                    curves.extend(curve(&pictures, *category, area, overlap));
                }
            }
        }
        Ok(Self(curves))
    }

    /// Average precision: the mean over classes, or of one, and over overlaps, or at one. `None` where nothing is annotated.
    pub(super) fn ap(&self, area: AreaRange, overlap: Option<f64>, category: Option<u64>) -> Option<f64> {
        let asked = self.0.iter().filter(|curve| {
            let at = overlap.is_none_or(|overlap| (threshold(curve.overlap) - overlap).abs() < 1e-9);
            curve.area == area && at && category.is_none_or(|category| category == curve.category)
        });
        mean(&asked.map(|curve| curve.precision).collect::<Vec<_>>())
    }

    /// Average recall over classes and overlaps.
    pub(super) fn recall(&self) -> Option<f64> {
        let all = self.0.iter().filter(|curve| curve.area == AreaRange::All);
        mean(&all.map(|curve| curve.recall).collect::<Vec<_>>())
    }
}

fn threshold(overlap: usize) -> f64 {
    (50 + 5 * overlap) as f64 / 100.0
}

/// Annotations and results of one class in one picture.
struct Picture<'a> {
    truths: &'a [Annotation],
    /// By descending score.
    found: Vec<(&'a Found, f64)>,
    /// Overlap of each result with each annotation.
    overlaps: Vec<Vec<f64>>,
    shape: Shape,
}

impl<'a> Picture<'a> {
    fn compare(truths: &'a [Annotation], found: &'a [Found], shape: Shape) -> Result<Self, CocoError> {
        let found: Vec<&Found> = (found.iter())
            .filter(|found| found.outline.has(shape))
            .take(shape.max_results())
            .collect();
        let overlaps = found.iter().map(|found| {
            let overlaps = truths.iter().map(|truth| found.outline.overlap(truth, shape));
            overlaps.collect::<Result<Vec<_>, _>>()
        });
        Ok(Self {
            truths,
            overlaps: overlaps.collect::<Result<_, _>>()?,
            found: (found.into_iter())
                .map(|found| (found, found.outline.area(shape)))
                .collect(),
            shape,
        })
    }

    /// True if an annotation is not asked for.
    fn is_ignored(&self, truth: &Annotation, area: AreaRange) -> bool {
        let unlabelled = self.shape == Shape::KeyPoints && truth.labelled == 0;
        truth.crowd || unlabelled || !area.has(truth.area)
    }

    /// For each result, whether it is right; `None` if it counts for nothing.
    fn outcomes(&self, area: AreaRange, least: f64) -> Vec<Option<bool>> {
        let mut taken = vec![false; self.truths.len()];
        let outcome = |(place, (_, found_area)): (usize, &(&Found, f64))| {
            // Annotations that are asked for come first; the others take what no such one did.
            for ignored in [false, true] {
                let mut best: Option<(f64, usize)> = None;
                for (index, truth) in self.truths.iter().enumerate() {
                    let overlap = self.overlaps[place][index];
                    let free = !taken[index] || truth.crowd;
                    let better = best.is_none_or(|(greatest, _)| overlap >= greatest);
                    if self.is_ignored(truth, area) == ignored && free && overlap >= least && better {
                        best = Some((overlap, index));
                    }
                }
                if let Some((_, index)) = best {
                    taken[index] = true;
                    return (!ignored).then_some(true);
                }
            }
            area.has(*found_area).then_some(false)
        };
        self.found.iter().enumerate().map(outcome).collect()
    }
}

/// Precision over recall of one class; `None` if no annotation is asked for.
fn curve(pictures: &[Picture<'_>], category: u64, area: AreaRange, overlap: usize) -> Option<Curve> {
    let asked = |picture: &Picture<'_>| {
        let truths = picture.truths.iter();
        truths.filter(|truth| !picture.is_ignored(truth, area)).count()
    };
    let truths: usize = pictures.iter().map(asked).sum();
    if truths == 0 {
        return None;
    }
    let mut outcomes: Vec<(f64, bool)> = Vec::new();
    for picture in pictures {
        let of_picture = picture.outcomes(area, threshold(overlap));
        let scored = picture.found.iter().zip(of_picture);
        outcomes.extend(scored.filter_map(|((found, _), right)| Some((found.score, right?))));
    }
    // Stable: equal scores stay in the order of the pictures.
    outcomes.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (mut right, mut points) = (0_usize, Vec::with_capacity(outcomes.len()));
    for (before, (_, is_right)) in outcomes.iter().enumerate() {
        right += usize::from(*is_right);
        points.push((right as f64 / truths as f64, right as f64 / (before + 1) as f64));
    }
    // The precision at a recall is the best one at that recall or beyond.
    let mut best = 0.0_f64;
    for (_, precision) in points.iter_mut().rev() {
        best = best.max(*precision);
        *precision = best;
    }
    let at = |recall: f64| {
        let place = points.partition_point(|(reached, _)| *reached < recall);
        points.get(place).map_or(0.0, |(_, precision)| *precision)
    };
    let sum: f64 = (0..RECALLS).map(|place| at(place as f64 * 0.01)).sum();
    Some(Curve {
        category,
        area,
        overlap,
        precision: sum / RECALLS as f64,
        recall: right as f64 / truths as f64,
    })
}
