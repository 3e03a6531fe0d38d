//! Scores by COCO's rules (cocodataset.org, "Detection Evaluation" and "Keypoint Evaluation"): results that a `coco` sink wrote against
//! the annotations of a data set, for boxes, masks and key points.

mod evaluate;
mod files;
mod overlap;
mod runs;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use serde::Serialize;

pub(crate) use files::{CocoError, Dataset, Results, read_dataset, read_results};

use self::evaluate::{AreaRange, Precisions};
use self::overlap::Shape;
use super::table::format_value;
use crate::report::plain_table;

/// Scores of a file of results: each kind of shape that it has.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct CocoScore {
    /// Pictures of the data set.
    pub(crate) images: usize,
    /// Annotations of all pictures, without regions of crowds.
    pub(crate) annotations: usize,
    /// Objects in the results.
    pub(crate) results: usize,
    /// Scores by shape: `boxes`, `masks`, `keypoints`.
    pub(crate) shapes: BTreeMap<&'static str, ShapeScore>,
}

/// Averages over classes, each `None` where no annotation is of that size.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct ShapeScore {
    /// Average precision, mean over overlaps of 0.50, 0.55 to 0.95.
    pub(crate) ap: Option<f64>,
    /// Average precision at an overlap of 0.50.
    pub(crate) ap_50: Option<f64>,
    /// Average precision at an overlap of 0.75.
    pub(crate) ap_75: Option<f64>,
    /// `ap` of objects of less than 32 x 32 pixels; not for key points.
    pub(crate) ap_small: Option<f64>,
    /// `ap` of objects of less than 96 x 96 pixels.
    pub(crate) ap_medium: Option<f64>,
    /// `ap` of larger objects.
    pub(crate) ap_large: Option<f64>,
    /// Recall with 100 objects a picture (20 for key points), mean over the same overlaps.
    pub(crate) ar: Option<f64>,
    /// `ap` of each class that is annotated.
    pub(crate) classes: BTreeMap<String, f64>,
}

impl ShapeScore {
    /// AP, AP50, AP75, AP of small, medium and large objects, AR.
    fn figures(&self) -> [Option<f64>; 7] {
        [
            self.ap,
            self.ap_50,
            self.ap_75,
            self.ap_small,
            self.ap_medium,
            self.ap_large,
            self.ar,
        ]
    }
}

/// Scores `results` against `dataset` by every shape that a result has.
///
/// # Errors
/// [`CocoError`] if a result is of a picture that the data set lacks, or shapes cannot be compared.
pub(crate) fn score(dataset: &Dataset, results: &Results) -> Result<CocoScore, CocoError> {
    results.check_images(dataset)?;
    let mut shapes = BTreeMap::new();
    for shape in Shape::ALL {
        if results.have(shape) {
            let precisions = Precisions::of(dataset, results, shape)?;
            shapes.insert(shape.name(), shape_score(dataset, &precisions));
        }
    }
    Ok(CocoScore {
        images: dataset.images(),
        annotations: dataset.annotations(),
        results: results.len(),
        shapes,
    })
}

fn shape_score(dataset: &Dataset, precisions: &Precisions) -> ShapeScore {
    let at = |overlap: f64| precisions.ap(AreaRange::All, Some(overlap), None);
    let of_size = |area: AreaRange| precisions.ap(area, None, None);
    let classes = dataset.categories.iter().filter_map(|(id, name)| {
        let ap = precisions.ap(AreaRange::All, None, Some(*id))?;
        Some((name.clone(), ap))
    });
    ShapeScore {
        ap: of_size(AreaRange::All),
        ap_50: at(0.5),
        ap_75: at(0.75),
        ap_small: of_size(AreaRange::Small),
        ap_medium: of_size(AreaRange::Medium),
        ap_large: of_size(AreaRange::Large),
        ar: precisions.recall(),
        classes: classes.collect(),
    }
}

/// The scores for a person to read: a row for each shape.
pub(crate) fn table(score: &CocoScore) -> String {
    let head = format!(
        "COCO: {} results on {} pictures with {} annotations",
        score.results, score.images, score.annotations
    );
    if score.shapes.is_empty() {
        return format!(
            "{head}\n\nthe results have neither boxes, masks nor key points: nothing was compared"
        );
    }
    let mut table = plain_table(&["shape", "AP", "AP50", "AP75", "small", "medium", "large", "AR"]);
    for (shape, score) in &score.shapes {
        let figures = score.figures().map(format_value);
        table.add_row(std::iter::once((*shape).to_owned()).chain(figures));
    }
    format!("{head}\n\n{}", table.trim_fmt())
}
