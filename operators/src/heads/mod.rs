//! Model heads: the input that a model takes for an item, and the meaning of its outputs.
//!
//! A head is chosen by name and created in two steps: [`HeadKind::input`] reads the model's input and the keys into an
//! [`Input`], and once the model ran on a blank item, [`HeadKind::build`] checks the actual shapes of the outputs and
//! returns the [`Head`]. Decoding is a pure function of slices: nothing here runs a model or touches pixels.

mod blazeface;
mod bodypix;
mod classify;
mod ctc;
mod detection;
mod detr;
mod embed;
mod end2end;
mod fastestdet;
mod gauge;
mod gaze;
mod groups;
mod head_pose;
pub(crate) mod input;
mod iris;
pub(crate) mod labels;
pub(crate) mod layouts;
mod maps;
mod mmdeploy;
pub(crate) mod names;
mod nanodet;
mod paddle;
mod plate_corners;
mod points;
mod prob_iou;
mod retinaface;
mod rtdetr;
mod scrfd;
mod selected;
pub(crate) mod settings;
mod ssd;
pub(crate) mod task_rows;
mod thresholds;
mod ultraface;
mod yolo_obb;
mod yolo_pose;
mod yolo_segment;
#[cfg(test)]
mod yolo_tests;
mod yolov5;
mod yolov8;
mod yolox;
mod yunet;

use std::any::Any;
use std::sync::Arc;

use weir_flow::{HeadOutput, HeadSpec, Inference, KeySpec, Settings};

use input::InputDefaults;
pub(crate) use input::{Input, ItemTransform};
use labels::Labels;

/// One output of one item.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output<'a> {
    /// Elements, in the shape that the head was built for.
    pub(crate) data: &'a [f32],
}

impl<'a> Output<'a> {
    /// The output of an item, in one of a batch of so many rows.
    pub(crate) fn of_row(data: &'a [f32], row: usize, rows: usize) -> Self {
        let each = data.len() / rows.max(1);
        Self {
            data: &data[row * each..(row + 1) * each],
        }
    }

    /// Elements of the output at a place among `outputs`; none if there are fewer outputs.
    fn elements(outputs: &[Self], place: usize) -> &'a [f32] {
        outputs.get(place).map_or(&[], |output| output.data)
    }
}

/// Whether all numbers are finite; in branch-free blocks, which compile to vector instructions.
fn is_finite(data: &[f32]) -> bool {
    const EXPONENT: u32 = 0x7f80_0000;
    let bad = |value: &f32| u32::from(value.to_bits() & EXPONENT == EXPONENT);
    data.chunks(256)
        .all(|block| block.iter().map(bad).fold(0, std::ops::BitOr::bitor) == 0)
}

/// An output of the model for one item, as measured.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct OutputSpec {
    pub(crate) name: String,
    /// Sizes without the batch.
    pub(crate) shape: Vec<usize>,
    /// Whether its elements are floats. Whole numbers are given as floats, too.
    pub(crate) readable: bool,
}

/// Decodes the outputs of one item.
pub(crate) trait Head: Send + Sync {
    /// `outputs` in the model's order (those of a second model behind them); `transform` says where the item lies in the
    /// input. Objects come in source pixels.
    fn decode(&self, outputs: &[Output<'_>], transform: &ItemTransform) -> Inference;
    /// Decodes the outputs of a batch, of so many rows: each of the first rows is of an item that lies so in its picture.
    ///
    /// # Errors
    /// There are no results for the whole batch.
    fn decode_batch(
        &self,
        data: &[&[f32]],
        rows: usize,
        located: &[ItemTransform],
    ) -> Result<Vec<Inference>, String> {
        let mut outputs = Vec::with_capacity(data.len());
        let decode = |(row, transform): (usize, &ItemTransform)| {
            outputs.clear();
            outputs.extend(data.iter().map(|data| Output::of_row(data, row, rows)));
            let mut inference = self.decode(&outputs, transform);
            inference.not_finite = !outputs.iter().all(|output| is_finite(output.data));
            inference
        };
        Ok(located.iter().enumerate().map(decode).collect())
    }
    /// Decodes the outputs of a batch of blank pictures, by which a session is tried.
    ///
    /// # Errors
    /// There are no results for the batch.
    fn decode_blank(&self, data: &[&[f32]], rows: usize, located: &[ItemTransform]) -> Result<(), String> {
        self.decode_batch(data, rows, located).map(drop)
    }
    /// Called when a session of its model opens; what it gives lives as long as the session.
    ///
    /// # Errors
    /// The head cannot decode for another session.
    fn open(&self) -> Result<Option<Box<dyn Any + Send>>, String> {
        Ok(None)
    }
    /// Whether decoding takes so long that it is part of the measured duration of its model.
    fn is_measured(&self) -> bool {
        false
    }
    /// Names of the classes that it tells apart; `None` where it has no classes.
    fn labels(&self) -> Option<&Labels> {
        None
    }
    /// Classes of the objects that it gives; none where it gives no objects.
    fn classes(&self) -> &[Arc<str>] {
        self.labels().map(Labels::names).unwrap_or_default()
    }
    /// Looks whether the outputs of one item, of a blank picture, are of the layout that it decodes; gives a finding where they
    /// are implausible.
    ///
    /// # Errors
    /// The layout that they have, and the way on.
    fn inspect(&self, _outputs: &[Output<'_>], _input: &Input) -> Result<Option<String>, String> {
        Ok(None)
    }
    /// Whether the outputs of one item have no place of their own in those of a batch: as many rows as there are objects.
    fn runs_one_by_one(&self) -> bool {
        false
    }
    /// Characters that it can write; none where it reads no text.
    fn alphabet(&self) -> &[String] {
        &[]
    }
}

/// Setting of a head that no graph gives: the characters in the metadata of its model, under this name.
pub(crate) const CHARACTERS: &str = "character";

/// Setting of a head that no graph gives: the names of classes in the metadata of its model, in their order.
pub(crate) const NAMES: &str = "names";
/// Setting of a head that no graph gives: nothing reads the names of classes, as where a model is only timed.
pub const UNREAD_NAMES: &str = "unread-names";
/// Setting of a head that no graph gives: the task in the metadata of its model, as Ultralytics writes it.
pub(crate) const TASK: &str = "task";
/// Setting of a head that no graph gives: number of key points and of their values, in the metadata of its model.
pub(crate) const KEY_POINT_SHAPE: &str = "kpt_shape";
/// Setting of a head that no graph gives: names of key points in the metadata of its model.
pub(crate) const KEY_POINT_NAMES: &str = "kpt_names";

/// Setting of a head that no graph gives: names of the inputs beside the image, which are computed from its shape.
pub(crate) const INPUTS: &str = "inputs";

/// The head that is chosen by the file of a model.
pub(crate) const AUTO: &str = "auto";

pub(crate) type Build = fn(&Settings, &Input, &[OutputSpec]) -> Result<Box<dyn Head>, String>;

/// A head's name, its wishes, and how it is made.
pub(crate) struct HeadKind {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    pub(crate) output: HeadOutput,
    pub(crate) classes: &'static [&'static str],
    pub(crate) keys: &'static [&'static [KeySpec]],
    pub(crate) input_defaults: InputDefaults,
    pub(crate) build: Build,
}

impl HeadKind {
    /// The head of that name.
    pub(crate) fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Whether it gives objects.
    pub(crate) fn is_detector(&self) -> bool {
        self.output != HeadOutput::Attribute
    }

    /// The input of a model with this head.
    ///
    /// # Errors
    /// The shape that was found, and the one that the head takes.
    pub(crate) fn input(&self, settings: &Settings, port: &[Option<usize>]) -> Result<Input, String> {
        Input::read(&self.input_defaults, settings, port)
    }

    /// The head for the measured outputs.
    ///
    /// # Errors
    /// The outputs that were found, and those that the head decodes.
    pub(crate) fn build(
        &self,
        settings: &Settings,
        input: &Input,
        specs: &[OutputSpec],
    ) -> Result<Box<dyn Head>, String> {
        (self.build)(settings, input, specs)
    }

    /// Its entry in the catalog.
    pub(crate) fn spec(&self) -> HeadSpec {
        HeadSpec {
            name: self.name,
            about: self.about,
            output: self.output,
            classes: self.classes,
            keys: self.keys.concat().into(),
        }
    }
}

/// A detector whose head is chosen when its file is opened.
const AUTO_KIND: HeadKind = HeadKind {
    name: AUTO,
    about: "a detector whose head is found by its file: `yolov8`, `end2end`, `yolov5`, `yolox`, `detr`, `rtdetr`, `paddle`, `ssd`, \
            `mmdeploy`, `yolo-pose`, `yolo-segment`, `yolo-obb`, `scrfd`, `retinaface`, `blazeface` or `palm`, with the defaults of that \
            head",
    output: HeadOutput::Boxes,
    classes: &[],
    keys: &[
        settings::DETECTION_KEYS,
        settings::LABEL_KEYS,
        settings::INPUT_KEYS,
    ],
    input_defaults: yolov5::INPUT_DEFAULTS,
    build: |_, _, _| {
        Err("its head is found by its file, and there is none here: name it by `head`".to_owned())
    },
};

/// Number of the classes that the keys or the metadata of a file name.
///
/// # Errors
/// The file of labels cannot be read.
pub(crate) fn declared_classes(settings: &Settings) -> Result<Option<usize>, String> {
    let declared = labels::DeclaredNames::read(settings)?;
    Ok(declared.classes().map(|(classes, _)| classes))
}

/// Whether the only output is that of a grid with several boxes a cell.
pub(crate) fn has_anchors(input: &Input, specs: &[OutputSpec]) -> bool {
    let [output] = specs else { return false };
    let sides = output.shape.iter();
    let mut each = sides.filter_map(|boxes| layouts::boxes_per_cell(input, *boxes));
    each.any(|each| each > 1)
}

/// Whether the only output may have an objectness beside its classes, where nothing names these: box after box, of one box a cell, and
/// another number of values than that of COCO's classes, which is known.
pub(crate) fn may_have_objectness(input: &Input, specs: &[OutputSpec]) -> bool {
    let [output] = specs else { return false };
    let &[boxes, values] = &output.shape[..] else {
        return false;
    };
    layouts::boxes_per_cell(input, boxes) == Some(1) && values > 5 && values != 4 + labels::COCO.len()
}

/// Heads that decode the outputs of single items; `generate` is not among them.
pub(crate) static KINDS: &[HeadKind] = &[
    AUTO_KIND,
    yolox::KIND,
    yolov5::KIND,
    yolov8::KIND,
    yolo_pose::KIND,
    yolo_segment::KIND,
    yolo_obb::KIND,
    end2end::KIND,
    detr::KIND,
    rtdetr::KIND,
    paddle::KIND,
    ssd::KIND,
    mmdeploy::KIND,
    nanodet::KIND,
    fastestdet::KIND,
    yunet::KIND,
    ultraface::KIND,
    scrfd::KIND,
    retinaface::KIND,
    blazeface::FACES,
    blazeface::PALMS,
    plate_corners::KIND,
    classify::KIND,
    embed::KIND,
    ctc::KIND,
    classify::EXPRESSION,
    head_pose::KIND,
    gaze::KIND,
    iris::KIND,
    bodypix::KIND,
    points::KIND,
    gauge::KIND,
    maps::CLASSES,
    maps::VALUES,
    crate::operator::python::HEAD,
];

/// The shape of the only output, checked to have `rank` sizes.
fn single(specs: &[OutputSpec], expected: &str, rank: usize) -> Result<Vec<usize>, String> {
    match specs {
        [only] if only.readable && only.shape.len() == rank => Ok(only.shape.clone()),
        _ => Err(unfit(specs, expected)),
    }
}

/// The outputs of a model for one item, in words: "outputs for one item are ...".
pub(crate) fn outputs_in_words(specs: &[OutputSpec]) -> String {
    let mut found: Vec<String> = specs
        .iter()
        .take(6)
        .map(|output| {
            let kind = if output.readable { "" } else { " (no floats)" };
            format!("{} {:?}{kind}", output.name, output.shape)
        })
        .collect();
    if specs.len() > 6 {
        found.push(format!("and {} more", specs.len() - 6));
    }
    format!("outputs for one item are {}", found.join(", "))
}

/// Error "outputs for one item are ...; the head expects ...".
fn unfit(specs: &[OutputSpec], expected: &str) -> String {
    let is_half = specs.iter().any(|output| !output.readable);
    let hint = match is_half {
        true => "; export the model with outputs of floats",
        false => "",
    };
    format!("{}; the head expects {expected}{hint}", outputs_in_words(specs))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nonfinite_values_are_found_at_any_position() {
        let mut data = vec![f32::MAX; 600];
        data[1] = f32::MIN_POSITIVE / 2.0;
        assert!(is_finite(&data) && is_finite(&[]));
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -f32::NAN] {
            for at in [0, 255, 256, 599] {
                let mut data = data.clone();
                data[at] = bad;
                assert!(!is_finite(&data), "{bad} at {at}");
            }
        }
    }
}
