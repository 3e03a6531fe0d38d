//! Layouts of detectors' outputs: name, shape pattern, meaning, and the way on for those that no head decodes.
//!
//! Shapes alone say much: the number of boxes follows from the grid over the input, and the number of values a box from the
//! number of classes. Values say the rest: probabilities lie between 0 and 1, and boxes in pixels spread over the input.

use weir_flow::Settings;

use super::detection::{finite_range, grid};
use super::input::Input;
use super::labels::{COCO, DeclaredNames};
use super::{OutputSpec, TASK, unfit};

/// A layout that no head decodes, or another head than the one that was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Layout {
    /// `[n, 6]`: corners, score, class, after suppression; with 32 mask coefficients or 17 key points `[n, 38]` and `[n, 57]`.
    EndToEnd,
    /// `[n, 7]`: number in the batch, corners, class, score, after suppression.
    EndToEndBatch,
    /// `[cells, 5 + classes]`: an objectness beside the classes.
    Objectness,
    /// `[4 + classes, cells]`: no objectness.
    NoObjectness,
    /// `[4 + classes + 32, cells]` and prototypes `[32, height, width]`.
    Segmentation,
    /// `[cells, 5 + classes + 32]` and prototypes: an objectness beside the classes.
    ObjectnessSegmentation,
    /// `[4 + classes + 3 x points, cells]`: 56 rows for one class and 17 points.
    Pose,
    /// `[4 + classes + 1, cells]`: an angle after the classes.
    Rotated,
    /// `[queries, 4 + classes]` of a transformer, or `[n, 6]` with score and class: boxes relative to the picture.
    Queries,
    /// `logits [queries, classes]`, `pred_boxes [queries, 4]`.
    Detr,
    /// `dets [queries, 4]`, `labels [queries, classes]`.
    RfDetr,
    /// `dets [n, 5]`: corners and score; `labels [n]`: whole numbers.
    MmDeploy,
    /// `labels [n]`, `boxes [n, 4]`, `scores [n]`, and the size of the picture as an input.
    RtDetr,
    /// `[n, 6]`: class, score, corners; a count beside it, and the scale of the picture as an input.
    Paddle,
    /// `detection_boxes`, `detection_classes`, `detection_scores`; or `boxes`, `labels`, `scores` without a size as an input.
    Ssd,
    /// Class scores that are no probabilities.
    Logits,
    /// Boxes from 0 to 1 instead of pixels.
    Relative,
    /// Boxes in cells of the grid, before decoding.
    Undecoded,
    /// Corners of the boxes of a grid instead of centre and size.
    Corners,
}

impl Layout {
    /// The layout in words, then the way on.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Self::EndToEnd => (
                "an end-to-end detector (each row is left, top, right, bottom, score, class)",
                "use the head end2end instead; where it also finds key points or masks, yolo-pose or yolo-segment",
            ),
            Self::EndToEndBatch => (
                "an end-to-end detector (each row is picture, left, top, right, bottom, class, score) or one of rotated boxes",
                "use the head yolo-obb for rotated boxes; else export it without suppression (YOLOv7: without --end2end) for the head \
                 yolov5 or yolov8",
            ),
            Self::Objectness => (
                "a detector with objectness (YOLOv5, YOLOv7, YOLOX)",
                "use the head yolov5 or, for raw cells, yolox instead",
            ),
            Self::NoObjectness => (
                "a detector without objectness (YOLOv8 and later)",
                "use the head yolov8 instead",
            ),
            Self::Segmentation => (
                "a segmentation model (32 mask coefficients after the classes)",
                "use the head yolo-segment instead",
            ),
            Self::ObjectnessSegmentation => (
                "a segmentation model with objectness (YOLOv5, YOLOv7)",
                "train it as YOLOv8 or later for the head yolo-segment, or for detection: no head reads its masks",
            ),
            Self::Pose => (
                "a pose model (key points after the classes)",
                "use the head yolo-pose instead",
            ),
            Self::Rotated => (
                "a detector of rotated boxes (OBB, with an angle after the classes)",
                "use the head yolo-obb instead",
            ),
            Self::Queries => (
                "a transformer's queries as Ultralytics exports RT-DETR (boxes relative to the picture)",
                "use the head rtdetr instead",
            ),
            Self::Detr => (
                "a DETR model as Hugging Face exports it (logits and relative boxes)",
                "use the head detr instead",
            ),
            Self::RfDetr => (
                "an RF-DETR model (relative boxes and logits)",
                "use the head detr instead",
            ),
            Self::MmDeploy => (
                "a detector of MMDetection as MMDeploy exports it (dets: left, top, right, bottom, score; labels: classes)",
                "use the head mmdeploy instead",
            ),
            Self::RtDetr => (
                "an RT-DETR or D-FINE model with its post-processing (labels, boxes, scores)",
                "use the head rtdetr instead",
            ),
            Self::Paddle => (
                "a PaddleDetection model with its post-processing (PP-YOLOE and others: class, score, corners)",
                "use the head paddle instead",
            ),
            Self::Ssd => (
                "a detector of TensorFlow or torchvision (boxes, classes and scores)",
                "use the head ssd instead",
            ),
            Self::Logits => (
                "raw logits",
                "export the model with the sigmoid after its classes",
            ),
            Self::Relative => (
                "boxes relative to the picture",
                "export the model with boxes in pixels of its input",
            ),
            Self::Corners => (
                "boxes by their corners (left, top, right, bottom)",
                "export the model with centre, width and height of its boxes",
            ),
            Self::Undecoded => (
                "boxes that are not decoded",
                "use the head yolox if it is a YOLOX model, else export the model with decoded boxes",
            ),
        }
    }

    /// Whether the head of that name reads the layout.
    pub(crate) fn is_read_by(self, head: &str) -> bool {
        let reads = match self {
            Self::EndToEnd => "end2end",
            Self::Queries | Self::RtDetr => "rtdetr",
            Self::Detr | Self::RfDetr => "detr",
            Self::Paddle => "paddle",
            Self::Ssd => "ssd",
            Self::MmDeploy => "mmdeploy",
            _ => return false,
        };
        reads == head
    }

    /// The layout as the end of an error.
    pub(crate) fn found(self) -> String {
        let (name, remedy) = self.words();
        format!("this is the layout of {name}: {remedy}")
    }
}

/// The layout of a whole family, by the names of its inputs, and the names and last sizes of its outputs.
pub(crate) fn family<'a>(
    inputs: impl Iterator<Item = &'a str>,
    outputs: impl Iterator<Item = (&'a str, Option<usize>)>,
) -> Option<Layout> {
    let (inputs, outputs): (Vec<&str>, Vec<(&str, Option<usize>)>) = (inputs.collect(), outputs.collect());
    let takes = |name: &str| inputs.contains(&name);
    let gives = |names: &[&str]| {
        names
            .iter()
            .all(|name| outputs.iter().any(|(given, _)| given == name))
    };
    if takes("scale_factor") || takes("im_shape") {
        return Some(Layout::Paddle);
    }
    if takes("orig_target_sizes") {
        return Some(Layout::RtDetr);
    }
    let of_tensorflow = ["detection_boxes", "detection_classes", "detection_scores"];
    let with_port = of_tensorflow.map(|name| format!("{name}:0"));
    if gives(&["labels", "boxes", "scores"])
        || gives(&of_tensorflow)
        || gives(&with_port.each_ref().map(String::as_str))
    {
        return Some(Layout::Ssd);
    }
    if gives(&["logits", "pred_boxes"]) || gives(&["pred_logits", "pred_boxes"]) {
        return Some(Layout::Detr);
    }
    let has_scores = outputs.contains(&("dets", Some(5)));
    gives(&["dets", "labels"]).then_some(if has_scores {
        Layout::MmDeploy
    } else {
        Layout::RfDetr
    })
}

/// Strides of the grids of detectors, finest first; models leave out some at either end.
const STRIDES: [u32; 5] = [4, 8, 16, 32, 64];
/// Anchors of a cell, in families that have them.
const ANCHORS: usize = 3;
/// Largest number of boxes after suppression, or of a transformer's queries.
pub(super) const MAX_SELECTED: usize = 1000;

/// Boxes of the grids of these strides over an input, one for each cell.
fn cells(input: &Input, strides: &[u32]) -> usize {
    let cells = |stride: &u32| {
        let (columns, rows) = grid(input.spec.width, input.spec.height, *stride);
        columns * rows
    };
    strides.iter().map(cells).sum()
}

/// Boxes of each cell, where that many boxes are a grid over the input: 1, or 3 for families with anchors.
pub(super) fn boxes_per_cell(input: &Input, boxes: usize) -> Option<usize> {
    let usual = cells(input, &STRIDES[1..4]);
    let of = |cells: usize| [1, ANCHORS].into_iter().find(|each| cells * each == boxes);
    if let Some(each) = of(usual) {
        return Some(each);
    }
    // At least two strides: one alone has too few numbers of its own.
    let ranges = (0..STRIDES.len()).flat_map(|first| (first + 2..=STRIDES.len()).map(move |end| first..end));
    let fits = |range: std::ops::Range<usize>| of(cells(input, &STRIDES[range]));
    ranges.into_iter().find_map(fits).filter(|_| boxes > MAX_SELECTED)
}

/// Values of the boxes of an output `[values, boxes]` or `[boxes, values]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct BoxValues {
    /// Values a box: four of the rectangle, objectness where there is one, classes.
    pub(super) channels: usize,
    pub(super) boxes: usize,
    /// `[boxes, values]`.
    pub(super) boxes_first: bool,
    /// Values before the classes.
    pub(super) first_class: usize,
    /// Whether the number of boxes is that of a grid over the input.
    is_grid: bool,
    /// Values of other meaning behind the classes.
    pub(super) extra: usize,
}

impl BoxValues {
    /// The only output of a detector with `first_class` values a box before the classes: 5 with objectness, else 4.
    ///
    /// # Errors
    /// The output has another layout; names it where it is known.
    pub(super) fn read(
        settings: &Settings,
        input: &Input,
        specs: &[OutputSpec],
        (first_class, expected): (usize, &str),
    ) -> Result<(Self, DeclaredNames), String> {
        let refused = |layout: Layout| Err(format!("{}; {}", unfit(specs, expected), layout.found()));
        if let Some(layout) = family(
            std::iter::empty(),
            specs
                .iter()
                .map(|output| (output.name.as_str(), output.shape.last().copied())),
        ) {
            return refused(layout);
        }
        let is_prototype = |output: &OutputSpec| output.shape.len() == 3 && output.shape[0] == 32;
        if specs.len() == 2 && specs.iter().any(is_prototype) {
            return refused(match first_class {
                5 => Layout::ObjectnessSegmentation,
                _ => Layout::Segmentation,
            });
        }
        let [
            OutputSpec {
                shape,
                readable: true,
                ..
            },
        ] = specs
        else {
            return Err(unfit(specs, expected));
        };
        let Some((values, per_cell)) = Self::arranged(input, shape, first_class) else {
            return Err(unfit(specs, expected));
        };
        let (channels, boxes) = (values.channels, values.boxes);
        let declared = DeclaredNames::read(settings)?;
        if let Some(layout) = values.other_layout(settings, &declared, per_cell) {
            return refused(layout);
        }
        if channels <= first_class {
            return Err(unfit(specs, expected));
        }
        let count = declared.classes().map(|(classes, _)| classes);
        if per_cell.is_none() && count != Some(channels - first_class) {
            let usual = cells(input, &STRIDES[1..4]);
            return Err(format!(
                "{}; {boxes} boxes are no grid over its input of {} by {} ({usual} without anchors, {} with three): export the \
                 model without suppression, and with all its boxes",
                unfit(specs, expected),
                input.spec.width,
                input.spec.height,
                usual * ANCHORS
            ));
        }
        if let Some((classes, source)) = declared.classes()
            && classes + first_class != channels
        {
            return Err(format!(
                "{}; {channels} values a box are {} classes, and {source} has {classes}: give the names of all classes by \
                 `labels`, or export the model anew",
                unfit(specs, expected),
                channels - first_class
            ));
        }
        Ok((values, declared))
    }

    /// The values of an output of two sizes, and its boxes of each cell where they are those of a grid.
    pub(super) fn arranged(
        input: &Input,
        shape: &[usize],
        first_class: usize,
    ) -> Option<(Self, Option<usize>)> {
        let &[rows, columns] = shape else { return None };
        let [by_rows, by_columns] = [rows, columns].map(|boxes| boxes_per_cell(input, boxes));
        let boxes_first = match (by_rows, by_columns) {
            (Some(_), None) => true,
            (None, Some(_)) => false,
            _ => rows > columns,
        };
        let (boxes, channels) = if boxes_first {
            (rows, columns)
        } else {
            (columns, rows)
        };
        let per_cell = if boxes_first { by_rows } else { by_columns };
        let values = Self {
            channels,
            boxes,
            boxes_first,
            first_class,
            is_grid: per_cell.is_some(),
            extra: 0,
        };
        Some((values, per_cell))
    }

    /// The layout, where it is another one.
    fn other_layout(
        &self,
        settings: &Settings,
        declared: &DeclaredNames,
        per_cell: Option<usize>,
    ) -> Option<Layout> {
        let (channels, has_objectness) = (self.channels, self.first_class == 5);
        if self.boxes_first && per_cell.is_none() && self.boxes <= MAX_SELECTED {
            return Some(match channels {
                6 | 38 | 57 => Layout::EndToEnd,
                7 => Layout::EndToEndBatch,
                _ => Layout::Queries,
            });
        }
        match settings.text(TASK) {
            Some("segment") => return Some(Layout::Segmentation),
            Some("pose") => return Some(Layout::Pose),
            Some("obb") => return Some(Layout::Rotated),
            _ => {}
        }
        let Some((classes, _)) = declared.classes() else {
            return self.unnamed(per_cell);
        };
        let extra = channels.checked_sub(4 + classes);
        match (extra, has_objectness) {
            (Some(0), false) | (Some(1), true) => None,
            (Some(0), true) => Some(Layout::NoObjectness),
            // Families with objectness write box after box, and rotated boxes come value after value.
            (Some(1), false) if per_cell == Some(ANCHORS) || self.boxes_first => Some(Layout::Objectness),
            (Some(1), false) => Some(Layout::Rotated),
            (Some(32), false) => Some(Layout::Segmentation),
            (Some(33), true) => Some(Layout::ObjectnessSegmentation),
            (Some(extra), false) if extra >= 9 && extra > classes && extra % 3 == 0 => Some(Layout::Pose),
            _ => None,
        }
    }

    /// The layout by numbers of values that well-known models have, where nothing names the classes.
    fn unnamed(&self, per_cell: Option<usize>) -> Option<Layout> {
        let of_coco = self.channels.checked_sub(COCO.len());
        match (self.channels, self.first_class) {
            (_, 4) if of_coco == Some(5) => Some(Layout::Objectness),
            (_, 5) if of_coco == Some(4) => Some(Layout::NoObjectness),
            (_, 4) if of_coco == Some(4 + 32) => Some(Layout::Segmentation),
            (_, 5) if of_coco == Some(5 + 32) => Some(Layout::ObjectnessSegmentation),
            (56, 4) => Some(Layout::Pose),
            // The 15 classes of DOTA.
            (20, 4) => Some(Layout::Rotated),
            (_, 4) if per_cell == Some(ANCHORS) => Some(Layout::Objectness),
            _ => None,
        }
    }

    /// The layout by values of one run, where it is another one; a finding where they are merely implausible.
    ///
    /// # Errors
    /// The layout in words, and the way on.
    pub(super) fn inspect(&self, data: &[f32], input: &Input) -> Result<Option<String>, String> {
        let value = |channel: usize, index: usize| match self.boxes_first {
            true => data.get(index * self.channels + channel),
            false => data.get(channel * self.boxes + index),
        };
        let range = |channel: usize| {
            let values = (0..self.boxes).filter_map(|index| value(channel, index));
            finite_range(values.copied())
        };
        let scores: Vec<(f32, f32)> = (4..self.channels - self.extra).map(range).collect();
        let all = |scores: &[(f32, f32)]| {
            let low = scores.iter().map(|(low, _)| *low).fold(f32::INFINITY, f32::min);
            (
                low,
                scores
                    .iter()
                    .map(|(_, high)| *high)
                    .fold(f32::NEG_INFINITY, f32::max),
            )
        };
        let no_probability = |(low, high): (f32, f32)| low < -MAX_EXCESS || high > 1.0 + MAX_EXCESS;
        let (low, high) = all(&scores);
        if no_probability((low, high)) {
            let before_last = scores
                .len()
                .checked_sub(1)
                .map_or(&scores[..0], |last| &scores[..last]);
            let layout = match before_last {
                [] => Layout::Logits,
                rest if self.extra > 0 || no_probability(all(rest)) => Layout::Logits,
                _ => Layout::Rotated,
            };
            return Err(format!("its scores are from {low} to {high}; {}", layout.found()));
        }
        if low < -MAX_SLIP || high > 1.0 + MAX_SLIP {
            return Ok(Some(format!(
                "its scores are from {low} to {high}, and probabilities are from 0 to 1"
            )));
        }
        if self.is_grid {
            self.inspect_boxes([range(0), range(1)], &value, input)?;
        }
        Ok(None)
    }

    /// Whether the centres of the boxes of a grid are spread over the input.
    fn inspect_boxes<'a>(
        &self,
        ranges: [(f32, f32); 2],
        value: &impl Fn(usize, usize) -> Option<&'a f32>,
        input: &Input,
    ) -> Result<(), String> {
        let [(left, right), (top, bottom)] = ranges;
        let is_set = |index: &usize| value(0, *index).is_some_and(|x| *x != 0.0);
        let set = (0..self.boxes).filter(is_set).count();
        // Nothing finite is in an empty range.
        if set == 0 || left > right || top > bottom {
            return Ok(());
        }
        let found = |layout: Layout| {
            Err(format!(
                "the centres of its boxes are from {left}, {top} to {right}, {bottom} in an input of {} by {}; {}",
                input.spec.width,
                input.spec.height,
                layout.found()
            ))
        };
        if left >= 0.0 && top >= 0.0 && right.max(bottom) <= 2.0 {
            return found(Layout::Relative);
        }
        let (width, height) = (input.spec.width as f32, input.spec.height as f32);
        if set * 2 > self.boxes && right < width / 4.0 && bottom < height / 4.0 {
            return found(Layout::Undecoded);
        }
        // Centres at the right and lower border have sizes below their own coordinates; corners never have.
        let is_ordered = |index: usize| {
            let at = |channel| value(channel, index).copied().unwrap_or(f32::NAN);
            at(2) >= at(0) && at(3) >= at(1)
        };
        let is_spread = right - left > width / 2.0 && bottom - top > height / 2.0;
        if is_spread && set * 2 > self.boxes && (0..self.boxes).filter(is_set).all(is_ordered) {
            return found(Layout::Corners);
        }
        Ok(())
    }
}

/// Distance from 0 to 1 beyond which a score is no probability, even of a quantised model.
const MAX_EXCESS: f32 = 0.5;
/// Distance from 0 to 1 that rounding explains.
const MAX_SLIP: f32 = 0.01;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::heads::{HeadKind, NAMES};
    use weir_flow::Value;

    fn input() -> Input {
        let kind = HeadKind::named("yolov8").expect("there is one");
        let port = [Some(1), Some(3), Some(640), Some(640)];
        kind.input(&Settings::default(), &port).expect("read")
    }

    fn named(classes: usize, task: Option<&str>) -> Settings {
        let names = (0..classes).map(|class| format!("c{class}")).collect();
        let task = task.map(|task| (TASK.to_owned(), Value::Text(task.to_owned())));
        let names = (classes > 0).then(|| (NAMES.to_owned(), Value::Texts(names)));
        Settings(names.into_iter().chain(task).collect())
    }

    fn read(head: &str, shapes: &[&[usize]], settings: &Settings) -> Result<(), String> {
        let specs: Vec<OutputSpec> = shapes
            .iter()
            .enumerate()
            .map(|(index, shape)| OutputSpec {
                name: format!("output{index}"),
                shape: shape.to_vec(),
                readable: true,
            })
            .collect();
        let kind = HeadKind::named(head).expect("there is one");
        kind.build(settings, &input(), &specs).map(|_| ())
    }

    #[test]
    fn layouts_of_other_models_are_refused_by_name() {
        let none = named(0, None);
        for (head, shape, settings, words) in [
            ("yolov8", &[300, 6][..], &none, "end-to-end"),
            ("yolov5", &[300, 38], &none, "end-to-end"),
            ("yolov8", &[300, 57], &named(53, None), "end-to-end"),
            ("yolov8", &[300, 7], &named(3, None), "end-to-end"),
            ("yolov8", &[300, 84], &named(80, None), "the head rtdetr"),
            ("yolov8", &[56, 8400], &none, "pose"),
            ("yolov8", &[56, 8400], &named(1, Some("pose")), "pose"),
            ("yolov8", &[116, 8400], &none, "segmentation"),
            ("yolov8", &[39, 8400], &named(3, None), "segmentation"),
            ("yolov5", &[25200, 117], &none, "segmentation"),
            ("yolov8", &[20, 8400], &none, "rotated boxes"),
            ("yolov8", &[8, 8400], &named(3, None), "rotated boxes"),
            ("yolov8", &[25200, 85], &none, "the head yolov5"),
            ("yolov8", &[8400, 85], &named(80, None), "the head yolov5"),
            ("yolov5", &[8400, 84], &none, "the head yolov8"),
            ("yolov5", &[84, 8400], &named(80, None), "the head yolov8"),
            ("yolov5", &[8, 25200], &named(3, None), "transposed"),
            (
                "yolov8",
                &[7, 100],
                &none,
                "8400 without anchors, 25200 with three",
            ),
            (
                "yolov8",
                &[9, 8400],
                &named(80, None),
                "`names` in the file has 80",
            ),
        ] {
            let error = read(head, &[shape], settings).expect_err("refused");
            assert!(error.contains(words), "{head} {shape:?}: {error}");
        }
        let masks = read("yolov8", &[&[116, 8400], &[32, 160, 160]], &none).expect_err("refused");
        assert!(masks.contains("segmentation"), "{masks}");
    }

    #[test]
    fn layouts_of_the_head_are_taken() {
        for (head, shape, classes) in [
            ("yolov8", &[84, 8400][..], 80),
            ("yolov8", &[8400, 84], 80),
            ("yolov8", &[56, 8400], 52),
            ("yolov8", &[20, 8400], 16),
            // Strides 8 to 64, and 16 to 32.
            ("yolov8", &[11, 8500], 7),
            ("yolov8", &[11, 2000], 7),
            ("yolov8", &[7, 100], 3),
            ("yolov8", &[5, 8400], 0),
            ("yolov5", &[25200, 85], 80),
            ("yolov5", &[8400, 85], 80),
            ("yolov5", &[25200, 6], 0),
        ] {
            read(head, &[shape], &named(classes, None)).unwrap_or_else(|error| panic!("{shape:?}: {error}"));
        }
    }

    #[test]
    fn families_are_known_by_their_ports() {
        let of = |inputs: &[&'static str], outputs: &[&'static str]| {
            family(
                inputs.iter().copied(),
                outputs.iter().map(|name| (*name, Some(4))),
            )
        };
        let of_mmdeploy = [("dets", Some(5)), ("labels", None)];
        assert_eq!(
            family(std::iter::once("input"), of_mmdeploy.into_iter()),
            Some(Layout::MmDeploy)
        );
        assert_eq!(of(&["input"], &["dets", "labels"]), Some(Layout::RfDetr));
        assert_eq!(
            of(&["pixel_values"], &["logits", "pred_boxes"]),
            Some(Layout::Detr)
        );
        assert_eq!(of(&["image", "scale_factor"], &["x", "y"]), Some(Layout::Paddle));
        assert_eq!(of(&["images", "orig_target_sizes"], &["x"]), Some(Layout::RtDetr));
        assert_eq!(of(&["input"], &["boxes", "labels", "scores"]), Some(Layout::Ssd));
        assert_eq!(of(&["images"], &["output0"]), None);
    }

    #[test]
    fn values_tell_logits_angles_and_relative_boxes() {
        let (settings, input) = (named(3, None), input());
        let specs = [OutputSpec {
            name: "output0".to_owned(),
            shape: vec![7, 8400],
            readable: true,
        }];
        let (values, _) = BoxValues::read(&settings, &input, &specs, (4, "any")).expect("fits");
        let inspect = |set: &dyn Fn(usize, usize) -> f32| {
            let data: Vec<f32> = (0..7 * 8400).map(|at| set(at / 8400, at % 8400)).collect();
            values.inspect(&data, &input)
        };
        let spread = |channel: usize, index: usize| match channel {
            0 | 1 => index as f32 / 8400.0 * 640.0,
            2 | 3 => 20.0,
            _ => 0.1,
        };
        assert_eq!(inspect(&spread), Ok(None));
        let error = |set: &dyn Fn(usize, usize) -> f32| inspect(set).expect_err("refused");
        let logits = error(&|channel, index| if channel > 3 { -9.0 } else { spread(channel, index) });
        assert!(logits.contains("raw logits"), "{logits}");
        let angle = error(&|channel, index| {
            if channel == 6 {
                -0.7
            } else {
                spread(channel, index)
            }
        });
        assert!(angle.contains("rotated"), "{angle}");
        let relative = error(&|channel, index| {
            if channel > 3 {
                0.1
            } else {
                spread(channel, index) / 640.0
            }
        });
        assert!(relative.contains("relative to the picture"), "{relative}");
        let corners = error(&|channel, index| match channel {
            0 | 1 => spread(channel, index) - 10.0,
            2 | 3 => spread(channel - 2, index) + 10.0,
            _ => 0.1,
        });
        assert!(corners.contains("left, top, right, bottom"), "{corners}");
        let above = inspect(&|channel, index| if channel == 4 { 1.2 } else { spread(channel, index) });
        assert!(
            above
                .expect("taken")
                .is_some_and(|finding| finding.contains("1.2"))
        );
        assert_eq!(inspect(&|_, _| f32::NAN), Ok(None));
        assert_eq!(values.inspect(&[], &input), Ok(None));
    }
}
