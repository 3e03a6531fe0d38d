//! The head of a detector by its file: the one that fits its input, the shapes of its outputs and their values for a blank picture.

use weir_flow::{PYTHON_FUNCTION, Settings, Value};

use super::adapt::Opened;
use super::error::ModelError;
use super::metadata;
use super::{family_of, input_of, outputs};
use crate::heads::layouts::Layout;
use crate::heads::task_rows::task_of;
use crate::heads::{
    AUTO, Head, HeadKind, Input, KEY_POINT_SHAPE, KINDS, OutputSpec, TASK, UNREAD_NAMES, declared_classes,
    has_anchors, may_have_objectness, outputs_in_words,
};

/// Heads that layouts distinguish. A graph names those of other models.
const CANDIDATES: [&str; 16] = [
    "yolov8",
    "end2end",
    "yolov5",
    "yolox",
    "detr",
    "rtdetr",
    "paddle",
    "ssd",
    "mmdeploy",
    "yolo-pose",
    "yolo-segment",
    "yolo-obb",
    "scrfd",
    "retinaface",
    "blazeface",
    "palm",
];
/// Heads that count their classes by the output, with any number of them.
const COUNTING: [&str; 3] = ["yolov8", "yolov5", "yolox"];

/// Chooses the head.
///
/// # Errors
/// None fits, with the layout that was found; or several do, with their names.
pub(super) fn choose(opened: &mut Opened, settings: &Settings) -> Result<&'static HeadKind, ModelError> {
    let mut model = Measured::new(opened, settings)?;
    let mut fits: Vec<&'static HeadKind> = Vec::new();
    let (mut of_family, mut of_values, mut of_layout, mut first) = (None, None, None, None);
    for kind in CANDIDATES.into_iter().filter_map(HeadKind::named) {
        match model.judge(kind) {
            Verdict::Fits(_) => fits.push(kind),
            // Its shapes fit: what its values are says more than what other heads expect.
            Verdict::OtherValues(reason) => {
                of_values =
                    of_values.or_else(|| Some(format!("by its shapes it could be {}; {reason}", kind.name)));
            }
            Verdict::No(reason) if model.is_family_of(kind) => of_family = Some(reason),
            Verdict::No(reason) => {
                of_layout = of_layout.or_else(|| layout_of(&reason));
                first = first.or(Some(reason));
            }
        }
    }
    // Rows that have key points or masks behind their boxes are read wholly.
    if fits.iter().any(|kind| task_of(kind.name).is_some()) {
        fits.retain(|kind| kind.name != "end2end");
    }
    let way_on = of_family.or(of_values).or(of_layout);
    match fits[..] {
        [kind] => Ok(kind),
        [] => {
            let Some((_, specs)) = &model.outputs else {
                // No head takes its input.
                return Err(ModelError::Head(way_on.or(first).unwrap_or_default()));
            };
            let found = outputs_in_words(specs);
            let way_on = way_on.unwrap_or_else(|| named_by_shapes(&mut model));
            Err(ModelError::Head(format!(
                "{found}; no head that is found by itself fits ({}); {way_on}",
                CANDIDATES.join(", ")
            )))
        }
        _ => {
            let names: Vec<&str> = fits.iter().map(|kind| kind.name).collect();
            Err(ModelError::Head(format!(
                "its outputs fit the heads {}: name the right one by `head`, or all classes by `labels`, whose number distinguishes them",
                names.join(" and ")
            )))
        }
    }
}

/// Judges every head but the one that chooses.
///
/// # Errors
/// The file of labels cannot be read.
pub(super) fn judge_all(
    opened: &mut Opened,
    settings: &Settings,
) -> Result<Vec<(&'static str, Verdict)>, ModelError> {
    let mut model = Measured::new(opened, settings)?;
    let kinds = KINDS.iter().filter(|kind| is_for_a_layout(kind));
    Ok(kinds.map(|kind| (kind.name, model.judge(kind))).collect())
}

/// Whether a head reads a model.
pub(super) enum Verdict {
    /// It does, whatever the names of its classes are.
    Fits(Box<dyn Head>),
    /// It reads the shapes, but the values for a blank picture are others.
    OtherValues(String),
    /// It does not.
    No(String),
}

/// A model that was opened once, and its outputs for a blank picture.
struct Measured<'a> {
    opened: &'a mut Opened,
    /// Without need of names: whether classes have them is for the head that is chosen.
    unread: Settings,
    /// Number of classes that the keys or the file name.
    classes: Option<usize>,
    /// With the shape of the item that they are for.
    outputs: Option<(Vec<usize>, Vec<OutputSpec>)>,
}

impl<'a> Measured<'a> {
    fn new(opened: &'a mut Opened, settings: &Settings) -> Result<Self, ModelError> {
        let mut unread = settings.clone();
        unread.0.insert(UNREAD_NAMES.to_owned(), Value::Flag(true));
        let classes = declared_classes(&unread).map_err(ModelError::Head)?;
        Ok(Self {
            opened,
            unread,
            classes,
            outputs: None,
        })
    }

    fn judge(&mut self, kind: &HeadKind) -> Verdict {
        let unread = self.unread.clone();
        let classes = self.classes;
        let (input, specs) = match self.for_head(kind) {
            Ok(measured) => measured,
            Err(error) => return Verdict::No(error.to_string()),
        };
        if kind.name == "yolov5" && specs.len() == 1 && !has_anchors(&input, specs) {
            // With one box a cell and an objectness it is a YOLOX model, whose input is another one.
            let reason = "its boxes are not three a cell of a grid over its input";
            return Verdict::No(format!("{}; {reason}", outputs_in_words(specs)));
        }
        let head = match kind.build(&unread, &input, specs) {
            Ok(head) => head,
            Err(reason) => return Verdict::No(reason),
        };
        if let Some(verdict) = of_task(kind.name, &unread, specs, classes.is_some()) {
            return verdict;
        }
        let found = head.classes().len();
        if let Some(classes) = classes.filter(|classes| COUNTING.contains(&kind.name) && *classes != found) {
            return Verdict::No(format!(
                "its output is of {found} classes, and {classes} are named"
            ));
        }
        let is_unsure = kind.name == "yolov8" && classes.is_none() && may_have_objectness(&input, specs);
        match metadata::inspect(self.opened, &input, &*head) {
            Ok(Ok(_)) if is_unsure => Verdict::OtherValues(format!(
                "its boxes have {found} classes, or an objectness and {} classes (YOLOv6, YOLOX, for the head yolov5): name all classes \
                 by `labels`, whose number distinguishes them, or name the head",
                found - 1
            )),
            Ok(Ok(_)) => Verdict::Fits(head),
            Ok(Err(reason)) => Verdict::OtherValues(reason),
            Err(reason) => Verdict::No(reason),
        }
    }

    /// Whether the names of inputs and outputs are those of the family that the head reads.
    fn is_family_of(&self, kind: &HeadKind) -> bool {
        family_of(self.opened).is_some_and(|layout| layout.is_read_by(kind.name))
    }

    /// The input for a head, and the outputs: measured anew where the head has items of another shape than the one before.
    fn for_head(&mut self, kind: &HeadKind) -> Result<(Input, &[OutputSpec]), ModelError> {
        let input = input_of(self.opened, kind, &self.unread)?;
        let shape = input.item_shape();
        let known = self.outputs.take().filter(|(of, _)| *of == shape);
        let measured = match known {
            Some(known) => known,
            None => (shape, outputs(self.opened, &input).map_err(ModelError::Run)?),
        };
        let (_, specs) = self.outputs.insert(measured);
        Ok((input, specs))
    }
}

/// A verdict by the task that the file names, on a head that reads its shapes; `None` if nothing speaks against it.
fn of_task(head: &str, settings: &Settings, specs: &[OutputSpec], are_named: bool) -> Option<Verdict> {
    let task = settings.text(TASK);
    let says = |task: &str| format!("the file says that its task is {task}");
    if head == "end2end" && matches!(task, Some("pose" | "segment")) {
        let reason = "its rows have more than boxes: these alone are read by head = \"end2end\"";
        return Some(Verdict::No(format!("{}, and {reason}", says(task?))));
    }
    let own = task_of(head)?;
    match task {
        Some(task) if task == own => None,
        Some(task) => Some(Verdict::No(says(task))),
        // Prototypes belong to no other layout.
        None if head == "yolo-segment" => None,
        None if head == "yolo-pose" => {
            // Persons of COCO, or points that the file counts.
            let is_known = settings.texts(KEY_POINT_SHAPE).is_some()
                || specs
                    .iter()
                    .any(|output| [56, 57].iter().any(|values| output.shape.contains(values)));
            let reason =
                "nothing in the file says that it finds key points: name the head by head = \"yolo-pose\"";
            (!is_known).then(|| Verdict::No(reason.to_owned()))
        }
        // An angle is a value like any other: an objectness, or the score of one more class.
        None if !are_named && !specs.iter().any(|output| output.shape.last() == Some(&7)) => Some(
            Verdict::No("nothing in the file says that its boxes are rotated".to_owned()),
        ),
        None => Some(Verdict::OtherValues(format!(
            "nothing in the file says that its boxes are rotated: name the head by head = \"yolo-obb\" if they are, or {}",
            match specs {
                [output] if output.shape.last() == Some(&7) => Layout::EndToEndBatch.found(),
                _ => Layout::Objectness.found(),
            }
        ))),
    }
}

/// The layout that a head's refusal names.
fn layout_of(reason: &str) -> Option<String> {
    let at = reason.find("this is the layout of")?;
    let layout = &reason[at..];
    // The way on to a head that was looked at, too, is none.
    let is_other_head = CANDIDATES
        .iter()
        .any(|name| layout.contains(&format!("use the head {name}")));
    (!is_other_head).then(|| layout.to_owned())
}

/// Whether a head reads a layout of its own: a function in Python may read any.
fn is_for_a_layout(kind: &HeadKind) -> bool {
    kind.name != AUTO && kind.name != PYTHON_FUNCTION
}

/// Other heads that take the shapes of the model: which one it is for, shapes do not say.
fn named_by_shapes(model: &mut Measured<'_>) -> String {
    let kinds = KINDS
        .iter()
        .filter(|kind| is_for_a_layout(kind) && !CANDIDATES.contains(&kind.name));
    let takes = |kind: &&HeadKind| matches!(model.judge(kind), Verdict::Fits(_));
    let names: Vec<&str> = kinds.filter(takes).map(|kind| kind.name).collect();
    if names.is_empty() {
        return "no other head takes such outputs, either (`weir operators` lists them)".to_owned();
    }
    format!(
        "name its head by `head`, where it is a model for {}",
        names.join(" or ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::constant::{ConstantOutput, chosen, constant_model};
    use super::super::{LoadRequest, ModelFile, load};
    use super::*;

    /// The shape of an output, and its values by their places.
    type Constant<'a> = (&'a [usize], &'a dyn Fn(usize) -> f32);

    /// A model with an input of 640 by 640 that always gives the same.
    fn constant(outputs: &[Constant<'_>], names: Option<&str>) -> Vec<u8> {
        let names = names.map(|names| ("names", names));
        described(outputs, names.as_slice())
    }

    /// As [`constant`], with entries of metadata.
    fn described(outputs: &[Constant<'_>], metadata: &[(&'static str, &str)]) -> Vec<u8> {
        let names: Vec<String> = (0..outputs.len())
            .map(|number| format!("output{number}"))
            .collect();
        let shapes: Vec<Vec<usize>> = outputs.iter().map(|(shape, _)| [&[1], *shape].concat()).collect();
        let outputs = outputs.iter().zip(names.iter().zip(&shapes));
        let outputs: Vec<ConstantOutput<'_>> = outputs
            .map(|((_, at), (name, shape))| ConstantOutput {
                name,
                shape,
                is_whole: false,
                at: *at,
            })
            .collect();
        constant_model(&[1, 3, 640, 640], &outputs, metadata)
    }

    const THREE: &str = "{0: 'car', 1: 'bus', 2: 'van'}";

    /// Boxes of a grid, with their values in rows or columns: centres over the whole input.
    fn grid(channels: usize, boxes: usize, boxes_first: bool) -> impl Fn(usize) -> f32 {
        move |place| {
            let (index, channel) = if boxes_first {
                (place / channels, place % channels)
            } else {
                (place % boxes, place / boxes)
            };
            match channel {
                0 | 1 => index as f32 / boxes as f32 * 640.0,
                2 | 3 => 20.0,
                _ => 0.01,
            }
        }
    }

    /// Cells that are not decoded: offsets within them.
    fn cells(channels: usize) -> impl Fn(usize) -> f32 {
        move |place| if place % channels < 4 { 0.3 } else { 0.01 }
    }

    fn selected(columns: usize) -> impl Fn(usize) -> f32 {
        move |place| {
            [10.0, 20.0, 110.0, 220.0, 0.01, 2.0]
                .get(place % columns)
                .copied()
                .unwrap_or(5.0)
        }
    }

    #[test]
    fn a_file_has_the_head_of_its_layout() {
        for (model, expected) in [
            (
                constant(&[(&[7, 8400], &grid(7, 8400, false))], Some(THREE)),
                "yolov8",
            ),
            (
                constant(&[(&[8400, 7], &grid(7, 8400, true))], Some(THREE)),
                "yolov8",
            ),
            (constant(&[(&[84, 8400], &grid(84, 8400, false))], None), "yolov8"),
            (
                constant(&[(&[25200, 8], &grid(8, 25200, true))], Some(THREE)),
                "yolov5",
            ),
            (
                constant(&[(&[25200, 85], &grid(85, 25200, true))], None),
                "yolov5",
            ),
            (constant(&[(&[8400, 8], &cells(8))], Some(THREE)), "yolox"),
            (constant(&[(&[8400, 85], &cells(85))], None), "yolox"),
            (constant(&[(&[300, 6], &selected(6))], Some(THREE)), "end2end"),
            (constant(&[(&[300, 84], &|_| 0.1)], None), "rtdetr"),
            // Relative boxes and two classes are as wide as selected rows.
            (constant(&[(&[300, 6], &|_| 0.1)], Some("['a', 'b']")), "rtdetr"),
            // The best score and its class behind a relative box.
            (
                constant(
                    &[(&[300, 6], &|place: usize| {
                        [0.5, 0.5, 0.1, 0.2, 0.01, 2.0][place % 6]
                    })],
                    Some(THREE),
                ),
                "rtdetr",
            ),
        ] {
            assert_eq!(chosen(&model), Ok(expected));
        }
    }

    /// Boxes of a grid with key points of these values behind one class.
    fn poses(channels: usize, values: usize) -> impl Fn(usize) -> f32 {
        let boxes = grid(channels, 8400, false);
        move |place| match (place / 8400).checked_sub(5) {
            Some(extra) if extra % values < 2 => (place % 8400) as f32 / 8400.0 * 640.0,
            Some(_) => 0.5,
            None => boxes(place),
        }
    }

    const NONE: &[(&str, &str)] = &[];
    const PERSON: (&str, &str) = ("names", "{0: 'person'}");
    const OF_THREE: (&str, &str) = ("names", THREE);

    #[test]
    fn models_with_more_than_boxes_have_the_head_of_their_task() {
        let masks = |_: usize| 0.5;
        let angles = grid(7, 8400, false);
        let angles = move |place: usize| if place / 8400 == 7 { 0.7 } else { angles(place) };
        let prototypes: Constant<'_> = (&[32, 160, 160], &masks);
        for (outputs, metadata, expected) in [
            (
                &[(&[56, 8400][..], &poses(56, 3) as &dyn Fn(usize) -> f32)][..],
                NONE,
                "yolo-pose",
            ),
            (
                &[(&[56, 8400], &poses(56, 3))],
                &[PERSON, ("task", "pose"), ("kpt_shape", "[17, 3]")],
                "yolo-pose",
            ),
            (
                &[(&[39, 8400], &poses(39, 2))],
                &[PERSON, ("task", "pose"), ("kpt_shape", "[17, 2]")],
                "yolo-pose",
            ),
            (&[(&[300, 57], &row(57, &[0.0, 50.0]))], &[PERSON], "yolo-pose"),
            (
                &[(&[300, 57], &row(57, &[0.0, 50.0]))],
                &[PERSON, ("task", "pose")],
                "yolo-pose",
            ),
            (
                &[(&[39, 8400], &grid(39, 8400, false)), prototypes],
                &[OF_THREE],
                "yolo-segment",
            ),
            (
                &[(&[300, 38], &row(38, &[2.0])), prototypes],
                &[OF_THREE],
                "yolo-segment",
            ),
            (&[(&[8, 8400], &angles)], &[OF_THREE, ("task", "obb")], "yolo-obb"),
            (
                &[(&[300, 7], &row(7, &[2.0, 0.7]))],
                &[OF_THREE, ("task", "obb")],
                "yolo-obb",
            ),
        ] {
            assert_eq!(
                chosen(&described(outputs, metadata)),
                Ok(expected),
                "{metadata:?}"
            );
        }
    }

    /// Selected rows: a box and a score, then these values, of which the last goes on; a probability in the place of one.
    fn row(columns: usize, then: &[f32]) -> impl Fn(usize) -> f32 {
        let mut values = vec![10.0, 20.0, 110.0, 220.0, 0.01];
        values.extend(then);
        let last = values[values.len() - 1];
        values.resize(columns, last);
        // Of key points, every third.
        if columns == 57 {
            (8..columns).step_by(3).for_each(|place| values[place] = 0.5);
        }
        move |place| values[place % columns]
    }

    #[test]
    fn what_no_head_decodes_or_several_do_is_refused_by_name() {
        for (model, words) in [
            (
                constant(&[(&[56, 8400], &grid(56, 8400, false))], None),
                "its key points reach to 0.01",
            ),
            (
                constant(&[(&[8, 8400], &grid(8, 8400, false))], Some(THREE)),
                "head = \"yolo-obb\"",
            ),
            (
                described(
                    &[(&[300, 57], &selected(57))],
                    &[PERSON, ("task", "pose"), ("kpt_shape", "[17, 3]")],
                ),
                "the probability of a key point is 5",
            ),
            (
                constant(&[(&[300, 7], &|_| 0.0)], Some(THREE)),
                "each row is picture, left",
            ),
            (
                constant(&[(&[1000], &|_| 0.1)], None),
                "where it is a model for classify",
            ),
            (constant(&[(&[512], &|_| 0.1)], None), "embed"),
            // With an objectness, and not in cells.
            (
                constant(&[(&[8400, 85], &grid(85, 8400, true))], None),
                "boxes are decoded already",
            ),
            // Four classes, or an objectness and three: the objectness would be the best class of nearly every box.
            (
                constant(&[(&[8400, 8], &grid(8, 8400, true))], None),
                "have 4 classes, or an objectness and 3 classes",
            ),
        ] {
            let error = chosen(&model).expect_err("refused");
            assert!(error.contains(words), "{error}");
        }
    }

    fn loaded(model: Vec<u8>, head: &str) -> Result<std::sync::Arc<dyn weir_flow::Model>, String> {
        let request = LoadRequest {
            name: "own",
            file: ModelFile::Bytes(model.into()),
            head,
            settings: &Settings::default(),
            max_batch: 1,
            dump: None,
        };
        load(&request).map_err(|error| error.to_string())
    }

    #[test]
    fn model_for_a_task_loads_under_its_head_and_names_it_elsewhere() {
        let masks = |_: usize| 0.5;
        for (outputs, metadata, head) in [
            (
                &[(&[56, 8400][..], &poses(56, 3) as &dyn Fn(usize) -> f32)][..],
                &[PERSON, ("task", "pose")][..],
                "yolo-pose",
            ),
            (
                &[(&[39, 8400], &grid(39, 8400, false)), (&[32, 160, 160], &masks)],
                &[OF_THREE, ("task", "segment")],
                "yolo-segment",
            ),
            (
                &[(&[8, 8400], &grid(8, 8400, false))],
                &[OF_THREE, ("task", "obb")],
                "yolo-obb",
            ),
        ] {
            let model = described(outputs, metadata);
            for name in [head, AUTO] {
                let opened = loaded(model.clone(), name);
                assert!(opened.is_ok(), "{head} under {name}: {:?}", opened.err());
            }
            let error = loaded(model, "yolov8").err().expect("refused");
            assert!(error.contains(&format!("use the head {head} instead")), "{error}");
        }
    }

    #[test]
    fn a_model_without_a_head_is_loaded_by_its_file_and_has_its_names() {
        let loaded = |model: Vec<u8>| loaded(model, AUTO);
        let model = loaded(constant(&[(&[300, 6], &selected(6))], Some(THREE))).expect("loads");
        assert_eq!(model.classes(), ["car".into(), "bus".into(), "van".into()]);
        let unnamed = loaded(constant(&[(&[84, 8400], &grid(84, 8400, false))], None));
        let error = unnamed.err().expect("refused");
        assert!(error.contains("labels = [\"coco\"]"), "{error}");
    }
}
