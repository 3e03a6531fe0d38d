//! Operators: selection of a request's items, and the meaning of their inferences.
//!
//! All operators share one structure with different defaults: select objects, crop items, assemble the output.

mod crops;
mod describe;
mod error;
mod gallery;
mod map;
mod output;
pub(crate) mod python;
mod regions;
mod seen;
mod template;
mod tiles;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use weir_flow::{
    Attribute, Frame, Inference, Item, KeyKind, KeySpec, Model, ModuleOutput, Operator, PYTHON_FUNCTION,
    RequestResults, SplitAnswer, TileGrid, Tiling,
};
use weir_flow::{OperatorInput, OperatorSpec, Settings};

use crate::heads::labels::Labels;
pub use error::OperatorError;
use gallery::Gallery;
pub use python::{FunctionKind, PythonFunction, PythonModel, PythonTransforms};
use tiles::Merging;

/// The operator to create.
pub struct OperatorRequest<'a> {
    /// Name of the operator.
    pub operator: &'a str,
    /// Classes whose objects are its items; the operator's own default where empty. Of no effect beside
    /// `items = "frame"`: a graph that says both is refused.
    pub regions: &'a [String],
    /// Keys of the module, with absolute paths and `zoo:` names resolved to paths.
    pub settings: &'a Settings,
    /// The module's model, which embeds the gallery.
    pub model: Option<&'a dyn Model>,
}

/// Shape of the crops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CropShape {
    /// The object's box within the picture, with its landmarks.
    Box,
    /// A square around the box; pixels outside the picture are filled.
    Square,
    /// Two squares, one around each eye.
    Eyes,
}

/// Name and defaults of an operator.
struct OperatorKind {
    name: &'static str,
    about: &'static str,
    input: OperatorInput,
    heads: &'static [&'static str],
    regions: &'static [&'static str],
    cut: CropShape,
    widen: f64,
    min_side: f64,
    /// Default name of its attribute in events.
    attribute: &'static str,
    gallery: bool,
    /// Whether it detects objects.
    detects: bool,
    /// Whether its model generates text, from a prompt instead of pixels.
    generates: bool,
    /// Whether its model reads each cell of the frame.
    maps: bool,
}

const DETECTORS: &[&str] = &[
    "auto",
    "yolox",
    "yolov5",
    "yolov8",
    "end2end",
    "yolo-pose",
    "yolo-segment",
    "yolo-obb",
    "detr",
    "rtdetr",
    "paddle",
    "ssd",
    "mmdeploy",
    "nanodet",
    "fastestdet",
    "yunet",
    "ultraface",
    "scrfd",
    "retinaface",
    "blazeface",
    "palm",
    "plate-corners",
    PYTHON_FUNCTION,
];

const PLAIN: OperatorKind = OperatorKind {
    name: "detect",
    about: "finds objects in frames, or in the boxes of `regions`",
    input: OperatorInput::FrameOrBoxes,
    heads: DETECTORS,
    regions: &[],
    cut: CropShape::Box,
    widen: 0.0,
    min_side: 16.0,
    attribute: "class",
    gallery: false,
    detects: false,
    generates: false,
    maps: false,
};

const KINDS: &[OperatorKind] = &[
    OperatorKind {
        detects: true,
        ..PLAIN
    },
    OperatorKind {
        name: "read-text",
        about: "reads text, by default of plates; with four corners they are flattened",
        input: OperatorInput::Quads,
        heads: &["ctc"],
        regions: &["plate"],
        min_side: 8.0,
        attribute: "text",
        ..PLAIN
    },
    OperatorKind {
        name: "classify",
        about: "assigns a class to each of `regions`, or to the frame as one object",
        heads: &["classify", PYTHON_FUNCTION],
        ..PLAIN
    },
    OperatorKind {
        name: "embed",
        about: "embeds faces, aligned by their five points unless the model says `align = \"none\"`, and finds the \
                nearest of a gallery",
        input: OperatorInput::Faces,
        heads: &["embed"],
        regions: &["face"],
        attribute: "embedding",
        gallery: true,
        ..PLAIN
    },
    OperatorKind {
        name: "expression",
        about: "classifies the expression of faces",
        input: OperatorInput::Boxes,
        heads: &["expression"],
        regions: &["face"],
        cut: CropShape::Square,
        attribute: "expression",
        ..PLAIN
    },
    OperatorKind {
        name: "head-pose",
        about: "estimates head poses from faces",
        input: OperatorInput::Boxes,
        heads: &["head-pose"],
        regions: &["face"],
        cut: CropShape::Square,
        widen: 0.25,
        attribute: "head_pose",
        ..PLAIN
    },
    OperatorKind {
        name: "gaze",
        about: "estimates the gaze direction of faces",
        input: OperatorInput::Boxes,
        heads: &["gaze"],
        regions: &["face"],
        attribute: "gaze",
        ..PLAIN
    },
    OperatorKind {
        name: "iris",
        about: "finds both irises of faces with five points",
        input: OperatorInput::Faces,
        heads: &["iris"],
        regions: &["face"],
        cut: CropShape::Eyes,
        min_side: 32.0,
        attribute: "iris",
        ..PLAIN
    },
    OperatorKind {
        name: "keypoints",
        about: "finds the key points of persons, one in each box",
        input: OperatorInput::Boxes,
        heads: &["keypoints", "points"],
        regions: &["person"],
        widen: 0.1,
        min_side: 32.0,
        attribute: "keypoints",
        ..PLAIN
    },
    OperatorKind {
        name: "measure",
        about: "reads the values of gauges, such as bars of a panel",
        input: OperatorInput::Boxes,
        heads: &["gauge"],
        min_side: 8.0,
        attribute: "value",
        ..PLAIN
    },
    OperatorKind {
        name: "map",
        about: "reads each cell of the frame: shares of the classes of a segmentation, or mean, least and largest of values such as a depth, \
                for the frame, or for each of `regions` within it, and for named `places`",
        heads: &["class-map", "value-map"],
        min_side: 1.0,
        attribute: "map",
        maps: true,
        ..PLAIN
    },
    OperatorKind {
        name: "describe",
        about: "generates text with a model from a prompt, which is made of the results of the modules before it, for the \
                frame or for each of `regions`",
        heads: &[crate::model::generate::HEAD],
        min_side: 1.0,
        attribute: "text",
        generates: true,
        ..PLAIN
    },
];

const KEYS: &[KeySpec] = &[
    KeySpec {
        name: "items",
        kind: KeyKind::OneOf(&["frame"]),
        about: "frame: each frame as a whole is one item, such as an image of a folder of crops; default: crops, or what \
                the operator takes by itself. Not beside `regions`",
    },
    KeySpec {
        name: "min_side",
        kind: KeyKind::Number {
            min: 1.0,
            max: 10_000.0,
        },
        about: "objects whose shorter side is below this many pixels are skipped; default 16, plates and gauges \
                8, irises and key points 32, map 1",
    },
    KeySpec {
        name: "max_items",
        kind: KeyKind::Integer { min: 1, max: 1000 },
        about: "maximum number of objects of a frame, the largest first; default 16",
    },
    KeySpec {
        name: "widen",
        kind: KeyKind::Number { min: 0.0, max: 4.0 },
        about: "boxes are enlarged by this fraction of each side; default 0, head-pose 0.25, keypoints 0.1",
    },
    KeySpec {
        name: "attribute",
        kind: KeyKind::Text,
        about: "name of the attribute in events; default by operator: text, class, embedding, expression, head_pose, \
                gaze, iris, keypoints, value, map",
    },
];

/// For operators that crop boxes or squares.
const CUT_KEY: KeySpec = KeySpec {
    name: "cut",
    kind: KeyKind::OneOf(&["box", "square"]),
    about: "box: objects are cut as they are; square: as the square about them; default box, expression and head-pose \
            square",
};

/// For operators that detect objects.
const LABELS_KEY: KeySpec = KeySpec {
    name: "labels",
    kind: KeyKind::Texts,
    about: "classes whose objects are kept, by the model's names of them; the others are in no event and go to no other \
            module; default all",
};

/// For operators that detect objects.
const TILE_KEYS: &[KeySpec] = &[
    KeySpec {
        name: "tiles",
        kind: KeyKind::Pair {
            min: 1,
            max: TileGrid::MAX_SIDE,
        },
        about: "columns and rows of overlapping tiles in which frames are read, each tile an item; for small objects in large \
                pictures. Not beside `regions` or `items`",
    },
    KeySpec {
        name: "overlap",
        kind: KeyKind::Number { min: 0.0, max: 0.5 },
        about: "part of a tile that it shares with the next one; should be at least as large as the objects. Default 0.2",
    },
    KeySpec {
        name: "whole",
        kind: KeyKind::Flag,
        about: "true: the whole frame is one more item, for objects that are larger than the overlap; default true",
    },
    KeySpec {
        name: "merge",
        kind: KeyKind::OneOf(&["greedy-nmm", "nms"]),
        about: "boxes of an object from several tiles become one; greedy-nmm: the best one, united with the others if a \
                seam cuts it; nms: the best one as it is. Default greedy-nmm",
    },
    KeySpec {
        name: "merge_by",
        kind: KeyKind::OneOf(&["ios", "iou"]),
        about: "overlap of boxes from different tiles, relative to the smaller one (ios) or to their union (iou); default ios",
    },
    KeySpec {
        name: "merge_threshold",
        kind: KeyKind::Number { min: 0.05, max: 1.0 },
        about: "least overlap of boxes from different tiles that are of one object; default 0.5",
    },
];

const GALLERY_KEYS: &[KeySpec] = &[
    KeySpec {
        name: "gallery",
        kind: KeyKind::Folder,
        about: "folder of images of known faces: a folder for each name, or files called after it, up to a `_` (ada.jpg, \
                ada_2.jpg)",
    },
    KeySpec {
        name: "gallery_faces",
        kind: KeyKind::Text,
        about: "YuNet model that finds the face in each image of the gallery, a path or zoo:NAME; without it images \
                are crops: aligned ones, or boxes where the model does not align",
    },
    KeySpec {
        name: "match_threshold",
        kind: KeyKind::Number { min: -1.0, max: 1.0 },
        about: "least cosine to the nearest entry of the gallery that is a match; default 0.5",
    },
    KeySpec {
        name: "vector",
        kind: KeyKind::Flag,
        about: "true: events carry the embedding itself; default false",
    },
];

impl OperatorKind {
    fn keys(&self) -> Vec<KeySpec> {
        if self.generates {
            // Nothing is cut out of the picture for it.
            let selects = |key: &&KeySpec| key.name != "widen";
            return KEYS
                .iter()
                .filter(selects)
                .chain(describe::KEYS)
                .copied()
                .collect();
        }
        if self.maps {
            // Objects are boxes in the map of the whole frame.
            let selects = |key: &&KeySpec| key.name != "widen";
            return KEYS.iter().filter(selects).chain(map::KEYS).copied().collect();
        }
        let cut: &[KeySpec] = if self.cut == CropShape::Eyes {
            &[]
        } else {
            &[CUT_KEY]
        };
        let gallery = if self.gallery { GALLERY_KEYS } else { &[] };
        let (labels, tiles): (&[KeySpec], &[KeySpec]) = if self.detects {
            (&[LABELS_KEY], TILE_KEYS)
        } else {
            (&[], &[])
        };
        [labels, tiles, KEYS, cut, gallery].concat()
    }

    fn cut(&self, settings: &Settings) -> CropShape {
        match settings.text("cut") {
            Some("box") if self.cut != CropShape::Eyes => CropShape::Box,
            Some("square") if self.cut != CropShape::Eyes => CropShape::Square,
            _ => self.cut,
        }
    }
}

/// Entries of the catalog.
pub(crate) fn specs() -> Vec<OperatorSpec> {
    let all = KINDS.iter().map(|kind| OperatorSpec {
        name: kind.name,
        about: kind.about,
        input: kind.input,
        heads: kind.heads,
        attribute: Some(kind.attribute),
        counts_tokens: kind.generates,
        keys: kind.keys().into(),
    });
    all.chain([python::spec()]).collect()
}

/// An operator with its settings.
struct ConfiguredOperator {
    /// Empty for whole frames.
    regions: Vec<String>,
    /// Whether the class of a frame is that of an object, and not an attribute of one.
    classifies: bool,
    cut: CropShape,
    widen: f32,
    min_side: f32,
    max_items: usize,
    attribute: Arc<str>,
    gallery: Gallery,
    /// Classes of the objects that are kept; all if empty.
    labels: Vec<String>,
    /// Whether it detects objects.
    detects: bool,
    /// The tiles in which it reads frames, and how their objects become those of the frame.
    tiles: Option<(Tiling, Merging)>,
}

/// Creates an operator.
///
/// # Errors
/// [`OperatorError`]: an unknown operator, an unreadable gallery, or labels that the model does not have.
pub fn operator(request: &OperatorRequest<'_>) -> Result<Arc<dyn Operator>, OperatorError> {
    if let Some(operator) = python::operator(request) {
        return Ok(operator);
    }
    let kind = KINDS
        .iter()
        .find(|kind| kind.name == request.operator)
        .ok_or_else(|| {
            let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
            OperatorError::Unknown {
                name: request.operator.to_owned(),
                known: known.join(", "),
            }
        })?;
    let settings = request.settings;
    let regions = if settings.takes_frames() {
        Vec::new()
    } else if request.regions.is_empty() {
        kind.regions.iter().map(|class| (*class).to_owned()).collect()
    } else {
        request.regions.to_vec()
    };
    let configured = ConfiguredOperator {
        regions,
        classifies: kind.input == OperatorInput::FrameOrBoxes,
        cut: kind.cut(settings),
        widen: settings.number("widen", kind.widen) as f32,
        min_side: settings.number("min_side", kind.min_side) as f32,
        max_items: settings.number("max_items", 16.0) as usize,
        attribute: settings.text("attribute").unwrap_or(kind.attribute).into(),
        gallery: if kind.gallery {
            Gallery::read(settings, request.model)?
        } else {
            Gallery::default()
        },
        labels: if kind.detects {
            labels(settings, request.model)?
        } else {
            Vec::new()
        },
        detects: kind.detects,
        tiles: Tiling::of(settings)
            .filter(|_| kind.detects)
            .map(|tiling| (tiling, Merging::of(settings))),
    };
    if kind.generates {
        return describe::describe(request, configured);
    }
    if kind.maps {
        return map::map(request, configured);
    }
    Ok(Arc::new(configured))
}

/// The classes that are kept. Validation of the graph checks them for known models; here the loaded model is asked.
fn labels(settings: &Settings, model: Option<&dyn Model>) -> Result<Vec<String>, OperatorError> {
    let labels = settings.texts("labels").unwrap_or_default();
    let known = model.map(Model::classes).unwrap_or_default();
    let unknown = |label: &&String| !known.is_empty() && known.iter().all(|class| **class != ***label);
    match labels.iter().find(unknown) {
        None => Ok(labels.to_vec()),
        Some(label) => Err(OperatorError::Label {
            label: label.clone(),
            known: Labels::of(known).listed(),
        }),
    }
}

impl Operator for ConfiguredOperator {
    fn items(&self, frame: &Arc<Frame>, results: &RequestResults) -> Vec<Item> {
        crops::items(self, frame, results)
    }

    fn tiled_items(&self, frame: &Arc<Frame>, results: &RequestResults, grid: TileGrid) -> Vec<Item> {
        match &self.tiles {
            Some((tiling, _)) => Tiling { grid, ..*tiling }.items_of(frame),
            None => self.items(frame, results),
        }
    }

    fn settle(&self, inference: Inference) -> Inference {
        if self.detects {
            // That there is nothing is an answer, too.
            return Inference {
                certainty: inference.certainty.or(Some(1.0)),
                ..inference
            };
        }
        let Some(attribute @ Attribute::Match { .. }) = inference.attribute else {
            return inference;
        };
        Inference {
            certainty: inference.certainty.or(self.gallery.margin(&attribute)),
            attribute: Some(self.gallery.match_nearest(attribute)),
            ..inference
        }
    }

    fn regions(&self, item: &Item, inference: &Inference, least: f32) -> Option<SplitAnswer> {
        if self.detects {
            regions::split(item, inference, least)
        } else {
            None
        }
    }

    fn output(&self, module: u32, items: &[Item], inferences: Vec<Inference>) -> ModuleOutput {
        output::module_output(self, module, items, inferences)
    }
}
