//! Objects as COCO results (cocodataset.org, "results format"): a JSON array of `image_id`, `category_id`, `bbox`, `score`,
//! `segmentation` of objects with a mask, and `keypoints` of objects with a pose.

use std::path::{Path, PathBuf};

use serde_json::json;
use weir_flow::{
    Attribute, DeliveredObject, Delivery, KeyKind, KeyPoint, KeySpec, Settings, Sink, SinkError, SinkFactory,
};

use super::super::event_shapes::{MaskEntry, MaskForm, digits};
use super::super::{SinkKind, required_path};
use super::categories::Categories;
use super::csv::FILE_PATH;
use super::whole_files::{Frame, WholeFiles};

pub(in super::super) const KIND: SinkKind = SinkKind {
    name: "coco",
    about: "objects as COCO results, a JSON file for each stream; `image_id` is the number that a picture's file is called, else that of the frame",
    keys: KEYS,
    file_per_stream: true,
    create,
};

const KEYS: &[KeySpec] = &[
    FILE_PATH,
    KeySpec {
        name: "categories",
        kind: KeyKind::Texts,
        about: "classes in the order of their `category_id`, from 1; objects of others are left out and counted (default: the 80 of COCO with its own ids)",
    },
];

const FRAME: Frame = Frame {
    before: "[\n",
    between: ",\n",
    after: "\n]\n",
};

fn create(settings: &Settings, streams: &[String]) -> Result<Box<dyn SinkFactory>, SinkError> {
    let path = required_path(&KIND, settings)?;
    Ok(Box::new(CocoFactory {
        files: WholeFiles::new(path, streams),
        categories: Categories::new(settings.texts("categories")),
    }))
}

/// A key point: x and y in pixels, and its score.
fn triple(point: &KeyPoint) -> [f64; 3] {
    [tenth(point.at.x), tenth(point.at.y), digits(point.score)]
}

/// Rounds pixels to a tenth.
fn tenth(value: f32) -> f64 {
    (f64::from(value) * 10.0).round() / 10.0
}

struct CocoFactory {
    files: WholeFiles,
    categories: Categories,
}

impl SinkFactory for CocoFactory {
    fn open(&self) -> Result<Box<dyn Sink>, SinkError> {
        let mut files = self.files.fresh();
        files.claim()?;
        Ok(Box::new(Coco {
            files,
            categories: self.categories.clone(),
            left_out: 0,
        }))
    }

    fn targets(&self) -> Vec<PathBuf> {
        self.files.targets()
    }
}

struct Coco {
    files: WholeFiles,
    categories: Categories,
    /// Objects of classes that are no categories.
    left_out: u64,
}

impl Sink for Coco {
    fn accept(&mut self, delivery: &Delivery) -> Result<(), SinkError> {
        let stem = |file: &str| Path::new(file).file_stem()?.to_str()?.parse::<u64>().ok();
        let image = delivery.frame.file.as_deref().and_then(stem);
        let image = image.unwrap_or(delivery.frame.index);
        let size = (delivery.frame.image.width, delivery.frame.image.height);
        let row = |object: &DeliveredObject| {
            let category = self.categories.id_of(&object.object.class)?;
            let rect = object.object.rect;
            let bbox = [rect.x0, rect.y0, rect.x1 - rect.x0, rect.y1 - rect.y0].map(tenth);
            let score = digits(object.object.score);
            let mut row = json!({ "image_id": image, "category_id": category, "bbox": bbox, "score": score });
            if let Some(mask) = MaskEntry::of(&object.object.points, size, MaskForm::Runs) {
                row["segmentation"] = json!(mask);
            }
            let keypoints = object
                .attributes
                .iter()
                .find_map(|(_, attribute)| match attribute {
                    Attribute::Points(points) => Some(points),
                    _ => None,
                });
            if let Some(points) = keypoints {
                row["keypoints"] = json!(points.iter().flat_map(triple).collect::<Vec<_>>());
            }
            Some(row.to_string())
        };
        let rows: Vec<String> = delivery.objects.iter().filter_map(row).collect();
        self.left_out += (delivery.objects.len() - rows.len()) as u64;
        self.files.write(&delivery.stream, FRAME, rows.into_iter())
    }

    fn on_stream_removed(&mut self, stream: &str) -> Result<(), SinkError> {
        self.files.finish_stream(stream, FRAME)
    }

    fn counts(&self) -> std::collections::BTreeMap<&'static str, u64> {
        [("left_out", self.left_out)].into()
    }

    fn finish(&mut self) -> Result<(), SinkError> {
        self.files.finish(FRAME)
    }
}
