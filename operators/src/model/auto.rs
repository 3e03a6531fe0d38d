//! The head of a detector by its file: the one that fits its input, the shapes of its outputs and their values for a blank picture.

use weir_flow::{Settings, Value};

use super::adapt::Opened;
use super::error::ModelError;
use super::metadata;
use super::{input_of, outputs};
use crate::heads::layouts::family;
use crate::heads::{
    AUTO, Head, HeadKind, Input, KINDS, OutputSpec, UNREAD_NAMES, declared_classes, has_anchors,
    may_have_objectness, outputs_in_words,
};

/// Heads that layouts distinguish. A graph names those of other models.
const CANDIDATES: [&str; 8] = [
    "yolov8", "end2end", "yolov5", "yolox", "detr", "rtdetr", "paddle", "ssd",
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
    let kinds = KINDS.iter().filter(|kind| kind.name != AUTO);
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
        let inputs = self.opened.inputs.iter().map(|port| port.name.as_str());
        let outputs = self.opened.outputs.iter().map(|port| port.name.as_str());
        family(inputs, outputs).is_some_and(|layout| layout.is_read_by(kind.name))
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

/// Other heads that take the shapes of the model: which one it is for, shapes do not say.
fn named_by_shapes(model: &mut Measured<'_>) -> String {
    let kinds = KINDS
        .iter()
        .filter(|kind| kind.name != AUTO && !CANDIDATES.contains(&kind.name));
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
    use prost::Message;

    use super::super::onnx::{
        Dimension, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, StringStringEntryProto,
        TensorProto, TypeProto, ValueInfoProto, data_type,
    };
    use super::super::{LoadRequest, ModelFile, load};
    use super::*;

    /// The shape of an output, and its values by their places.
    type Constant<'a> = (&'a [usize], &'a dyn Fn(usize) -> f32);

    /// A model with an input of 640 by 640 that always gives the same.
    fn constant(outputs: &[Constant<'_>], names: Option<&str>) -> Vec<u8> {
        let text = |text: &str| Some(text.to_owned());
        let value = |name: &str, shape: &[usize]| ValueInfoProto {
            name: text(name),
            r#type: Some(TypeProto::tensor(
                data_type::FLOAT,
                std::iter::once(1)
                    .chain(shape.iter().copied())
                    .map(Dimension::size)
                    .collect(),
            )),
            ..ValueInfoProto::default()
        };
        let mut graph = GraphProto {
            name: text("g"),
            input: vec![value("images", &[3, 640, 640])],
            ..GraphProto::default()
        };
        for (number, (shape, at)) in outputs.iter().enumerate() {
            let (weights, output) = (format!("weights{number}"), format!("output{number}"));
            let count: usize = shape.iter().product();
            let elements: Vec<u8> = (0..count).flat_map(|place| at(place).to_le_bytes()).collect();
            let dims = shape.iter().map(|size| *size as i64);
            graph.initializer.push(TensorProto {
                dims: std::iter::once(1).chain(dims).collect(),
                data_type: Some(data_type::FLOAT),
                name: Some(weights.clone()),
                raw_data: Some(elements.into()),
                ..TensorProto::default()
            });
            graph.output.push(value(&output, shape));
            graph.node.push(NodeProto {
                input: vec![weights],
                output: vec![output],
                op_type: text("Identity"),
                ..NodeProto::default()
            });
        }
        let model = ModelProto {
            ir_version: Some(8),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto {
                domain: text(""),
                version: Some(13),
            }],
            metadata_props: names
                .map(|names| StringStringEntryProto::new("names", names.to_owned()))
                .into_iter()
                .collect(),
            ..ModelProto::default()
        };
        model.encode_to_vec()
    }

    fn chosen(model: &[u8]) -> Result<&'static str, String> {
        let file: std::sync::Arc<[u8]> = model.into();
        let mut opened = Opened::new(&file).expect("opens");
        let settings = metadata::with_metadata(&Settings::default(), &file, None, &opened);
        let chosen = choose(&mut opened, &settings);
        chosen.map(|kind| kind.name).map_err(|error| error.to_string())
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
            (
                constant(
                    &[(&[300, 57], &selected(57))],
                    Some("{0: 'person', 1: 'a', 2: 'b'}"),
                ),
                "end2end",
            ),
            (
                constant(
                    &[(&[300, 38], &selected(38)), (&[32, 160, 160], &|_| 0.5)],
                    Some(THREE),
                ),
                "end2end",
            ),
        ] {
            assert_eq!(chosen(&model), Ok(expected));
        }
    }

    #[test]
    fn what_no_head_decodes_or_several_do_is_refused_by_name() {
        for (model, words) in [
            (
                constant(&[(&[56, 8400], &grid(56, 8400, false))], None),
                "a pose model",
            ),
            (
                constant(
                    &[(&[39, 8400], &grid(39, 8400, false)), (&[32, 160, 160], &|_| 0.5)],
                    Some(THREE),
                ),
                "a segmentation model",
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

    #[test]
    fn a_model_without_a_head_is_loaded_by_its_file_and_has_its_names() {
        let loaded = |model: Vec<u8>| {
            load(&LoadRequest {
                name: "own",
                file: ModelFile::Bytes(model.into()),
                head: crate::heads::AUTO,
                settings: &Settings::default(),
                max_batch: 1,
                dump: None,
            })
        };
        let model = loaded(constant(&[(&[300, 6], &selected(6))], Some(THREE))).expect("loads");
        assert_eq!(model.classes(), ["car".into(), "bus".into(), "van".into()]);
        let unnamed = loaded(constant(&[(&[84, 8400], &grid(84, 8400, false))], None));
        let error = unnamed.err().expect("refused").to_string();
        assert!(error.contains("labels = [\"coco\"]"), "{error}");
    }
}
