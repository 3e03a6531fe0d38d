//! Annotations and results of COCO as they are stored, read within bounds.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use thiserror::Error;

use super::overlap::{Outline, Shape};
use super::runs::Runs;

/// Reasons for which files of COCO are not scored.
#[derive(Debug, Error)]
pub(crate) enum CocoError {
    /// The file is no JSON of that form.
    #[error("is not of COCO's form: {0}")]
    Form(#[from] serde_json::Error),
    /// An annotation or result names something that is not there.
    #[error("{0}")]
    Names(String),
    /// A mask cannot be read.
    #[error("a mask cannot be read: {0}")]
    Mask(String),
    /// Key points of a number for which COCO has no rule.
    #[error("objects have {0} key points; COCO's rule has spreads for the 17 of a person alone")]
    KeyPoints(usize),
}

/// Pictures with the objects that are there to be found, by picture and class.
#[derive(Debug)]
pub(crate) struct Dataset {
    /// Names of classes by `category_id`.
    pub(super) categories: BTreeMap<u64, String>,
    /// Width and height of pictures by `image_id`; 0 where they are not stated.
    images: BTreeMap<u64, (u32, u32)>,
    /// Annotations by picture and class, in the order of the file.
    pub(super) objects: BTreeMap<(u64, u64), Vec<Annotation>>,
}

/// An object that is there to be found.
#[derive(Debug)]
pub(super) struct Annotation {
    /// Left, top, width, height in pixels.
    pub(super) bbox: [f64; 4],
    /// Pixels of the object.
    pub(super) area: f64,
    /// True if it is a region of many objects, within which results count for nothing.
    pub(super) crowd: bool,
    /// Key points: x, y, and 0 where the point is not labelled.
    pub(super) keypoints: Vec<[f64; 3]>,
    pub(super) labelled: u32,
    pub(super) mask: Option<Runs>,
}

/// Objects that a graph found.
#[derive(Debug)]
pub(crate) struct Results {
    /// Results by picture and class, in the order of the file.
    pub(super) objects: BTreeMap<(u64, u64), Vec<Found>>,
}

/// An object of a result file.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) score: f64,
    pub(super) outline: Outline,
}

#[derive(Deserialize)]
struct RawDataset {
    images: Vec<RawImage>,
    annotations: Vec<RawAnnotation>,
    categories: Vec<RawCategory>,
}

#[derive(Deserialize)]
struct RawImage {
    id: u64,
    #[serde(default)]
    width: u32,
    #[serde(default)]
    height: u32,
}

#[derive(Deserialize)]
struct RawCategory {
    id: u64,
    name: String,
}

#[derive(Deserialize)]
struct RawAnnotation {
    image_id: u64,
    category_id: u64,
    bbox: [f64; 4],
    area: Option<f64>,
    #[serde(default)]
    iscrowd: u8,
    #[serde(default)]
    keypoints: Vec<f64>,
    num_keypoints: Option<u32>,
    segmentation: Option<RawMask>,
}

#[derive(Deserialize)]
struct RawResult {
    image_id: u64,
    category_id: u64,
    score: f64,
    bbox: Option<[f64; 4]>,
    segmentation: Option<RawMask>,
    #[serde(default)]
    keypoints: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawMask {
    Polygons(Vec<Vec<f64>>),
    Counts { size: [u32; 2], counts: RawCounts },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum RawCounts {
    Text(String),
    Numbers(Vec<u64>),
}

impl RawMask {
    fn runs(self, (width, height): (u32, u32)) -> Result<Runs, CocoError> {
        match self {
            Self::Polygons(polygons) => Runs::from_polygons(&polygons, height, width),
            Self::Counts { size, counts } => match counts {
                RawCounts::Text(text) => Runs::from_text(&text, size[0], size[1]),
                RawCounts::Numbers(counts) => Runs::from_counts(&counts, size[0], size[1]),
            },
        }
    }
}

/// Reads annotations, such as `instances_val2017.json`.
///
/// # Errors
/// [`CocoError`]: what is wrong with them.
pub(crate) fn read_dataset(text: &str) -> Result<Dataset, CocoError> {
    let raw: RawDataset = serde_json::from_str(text)?;
    let images: BTreeMap<u64, (u32, u32)> = (raw.images.iter())
        .map(|image| (image.id, (image.width, image.height)))
        .collect();
    let categories: BTreeMap<u64, String> = (raw.categories.into_iter())
        .map(|category| (category.id, category.name))
        .collect();
    let mut objects: BTreeMap<(u64, u64), Vec<Annotation>> = BTreeMap::new();
    for raw in raw.annotations {
        let Some(size) = images.get(&raw.image_id) else {
            let image = raw.image_id;
            return Err(CocoError::Names(format!(
                "an annotation is of picture {image}, which `images` lacks"
            )));
        };
        if !categories.contains_key(&raw.category_id) {
            let category = raw.category_id;
            return Err(CocoError::Names(format!(
                "an annotation is of class {category}, which `categories` lacks"
            )));
        }
        let key = (raw.image_id, raw.category_id);
        let keypoints = triples(&raw.keypoints);
        let labelled = keypoints.iter().filter(|point| point[2] > 0.0).count() as u32;
        objects.entry(key).or_default().push(Annotation {
            bbox: raw.bbox,
            area: raw.area.unwrap_or(raw.bbox[2] * raw.bbox[3]),
            crowd: raw.iscrowd != 0,
            labelled: raw.num_keypoints.unwrap_or(labelled),
            keypoints,
            mask: raw.segmentation.map(|mask| mask.runs(*size)).transpose()?,
        });
    }
    Ok(Dataset {
        categories,
        images,
        objects,
    })
}

/// Reads results, as the sink `coco` writes them.
///
/// # Errors
/// [`CocoError`]: what is wrong with them.
pub(crate) fn read_results(text: &str, dataset: &Dataset) -> Result<Results, CocoError> {
    let raw: Vec<RawResult> = serde_json::from_str(text)?;
    let mut objects: BTreeMap<(u64, u64), Vec<Found>> = BTreeMap::new();
    for raw in raw {
        let size = dataset.images.get(&raw.image_id).copied().unwrap_or_default();
        let outline = Outline {
            bbox: raw.bbox,
            mask: raw.segmentation.map(|mask| mask.runs(size)).transpose()?,
            keypoints: triples(&raw.keypoints),
        };
        let key = (raw.image_id, raw.category_id);
        let score = raw.score;
        objects.entry(key).or_default().push(Found { score, outline });
    }
    // Stable: equal scores stay in the order of the file.
    for found in objects.values_mut() {
        found.sort_by(|a, b| b.score.total_cmp(&a.score));
    }
    Ok(Results { objects })
}

fn triples(numbers: &[f64]) -> Vec<[f64; 3]> {
    let triple = |numbers: &[f64]| [numbers[0], numbers[1], numbers[2]];
    numbers.chunks_exact(3).map(triple).collect()
}

impl Dataset {
    pub(super) fn images(&self) -> usize {
        self.images.len()
    }

    pub(super) fn annotations(&self) -> usize {
        let objects = self.objects.values().flatten();
        objects.filter(|object| !object.crowd).count()
    }

    /// The pictures, ascending.
    pub(super) fn image_ids(&self) -> impl Iterator<Item = u64> {
        self.images.keys().copied()
    }
}

impl Results {
    pub(super) fn len(&self) -> usize {
        self.objects.values().map(Vec::len).sum()
    }

    /// True if a result has that shape.
    pub(super) fn have(&self, shape: Shape) -> bool {
        let mut found = self.objects.values().flatten();
        found.any(|found| found.outline.has(shape))
    }

    /// Every picture of the results must be one of the data set.
    pub(super) fn check_images(&self, dataset: &Dataset) -> Result<(), CocoError> {
        let images: BTreeSet<u64> = self.objects.keys().map(|(image, _)| *image).collect();
        match images.iter().find(|image| !dataset.images.contains_key(image)) {
            Some(image) => Err(CocoError::Names(format!(
                "a result is of picture {image}, which the annotations lack: results name pictures by the number \
                 that their file is called, so play the pictures of the data set under their own names"
            ))),
            None => Ok(()),
        }
    }
}
