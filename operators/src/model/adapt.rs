//! Graphs that take more than one picture of floats, edited so that this is all they take.
//!
//! An image in half precision or bytes is converted from floats, an image without a batch is given one, and outputs are converted to
//! floats. Inputs beside the image that tell its size are computed from its shape, so boxes come in pixels of the input.

use std::collections::BTreeMap;
use std::sync::Arc;

use prost::Message;
use prost::bytes::Bytes;
use weir_flow::DeviceKind;

use super::onnx::{
    AttributeProto, Dimension, GraphProto, ModelProto, NodeProto, TensorProto, TypeValue, ValueInfoProto,
    data_type,
};
use super::runtime::{OpenError, OrtSession, Port};

/// Width and height of the picture that boxes are wanted for: RT-DETR, D-FINE.
pub(super) const TARGET_SIZES: &str = "orig_target_sizes";
/// Inputs beside the image that are computed from its shape.
pub(super) const COMPUTED: [&str; 4] = [TARGET_SIZES, "im_shape", "scale_factor", "pixel_mask"];

/// Prefix of the names that the edit adds.
const PREFIX: &str = "weir_";

/// A model that is open, as it is run and as its file declares it.
pub(super) struct Opened {
    /// The file, edited where that is needed.
    pub(super) bytes: Arc<[u8]>,
    pub(super) session: OrtSession,
    pub(super) inputs: Vec<Port>,
    pub(super) outputs: Vec<Port>,
}

impl Opened {
    /// Opens a file on the CPU.
    ///
    /// # Errors
    /// As [`OrtSession::open`].
    pub(super) fn new(bytes: &Arc<[u8]>) -> Result<Self, OpenError> {
        let session = OrtSession::open(bytes, DeviceKind::Cpu)?;
        let (inputs, outputs) = (session.inputs().to_vec(), session.outputs().to_vec());
        let adapted = Edit::of(&inputs, &outputs).and_then(|edit| edit.apply(bytes));
        let (bytes, session) = match adapted {
            Some(adapted) => {
                let session = OrtSession::open(&adapted, DeviceKind::Cpu)?;
                (adapted.into(), session)
            }
            None => (Arc::clone(bytes), session),
        };
        Ok(Self {
            bytes,
            session,
            inputs,
            outputs,
        })
    }

    /// Rows of its input; 1 where these are free.
    pub(super) fn rows(&self) -> usize {
        let port = self.session.inputs().first();
        port.and_then(|port| port.shape.first().copied())
            .flatten()
            .unwrap_or(1)
    }

    /// Names of the inputs that are computed from the shape of the image.
    pub(super) fn computed(&self) -> Vec<String> {
        let names = self.inputs.iter().map(|port| port.name.clone());
        names.filter(|name| COMPUTED.contains(&name.as_str())).collect()
    }

    /// Whether its image is of bytes.
    pub(super) fn takes_bytes(&self) -> bool {
        image(&self.inputs).is_some_and(|at| self.inputs[at].element == "u8")
    }

    /// Whether the elements of each output are floats, of any precision.
    pub(super) fn readable(&self) -> Vec<bool> {
        self.outputs.iter().map(|port| is_float(&port.element)).collect()
    }
}

fn is_float(element: &str) -> bool {
    ["f32", "f16", "f64", "bf16"].contains(&element)
}

fn is_number(element: &str) -> bool {
    let integers = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool"];
    is_float(element) || integers.contains(&element)
}

/// The position of the image among the inputs: the only one that is not computed.
fn image(inputs: &[Port]) -> Option<usize> {
    let is_computed = |port: &Port| COMPUTED.contains(&port.name.as_str());
    let mut images = (0..inputs.len()).filter(|index| inputs.len() == 1 || !is_computed(&inputs[*index]));
    match (images.next(), images.next()) {
        (Some(image), None) => Some(image),
        _ => None,
    }
}

/// The change of a graph.
#[derive(Debug, PartialEq, Eq)]
struct Edit {
    /// Name of the image.
    image: String,
    /// Axes of height and width, in an image with a batch.
    axes: [i64; 2],
    /// Element type of the image, if it is not `f32`.
    element: Option<i32>,
    has_no_batch: bool,
    /// Inputs to compute, with their number of dimensions.
    computed: Vec<(String, usize)>,
    /// Outputs to convert.
    outputs: Vec<String>,
}

impl Edit {
    /// The change that a graph with these ports needs; `None` if it needs none, or if no change helps.
    fn of(inputs: &[Port], outputs: &[Port]) -> Option<Self> {
        let at = image(inputs)?;
        let port = &inputs[at];
        let element = match port.element.as_str() {
            "f32" => None,
            "f16" => Some(data_type::FLOAT16),
            "f64" => Some(data_type::DOUBLE),
            "u8" => Some(data_type::UINT8),
            _ => return None,
        };
        let has_no_batch = matches!(port.shape[..], [Some(3), _, _]);
        let axes = match port.shape[..] {
            [Some(3), _, _] | [_, Some(1 | 3) | None, _, _] => [2, 3],
            [_, _, _, Some(1 | 3)] => [1, 2],
            // No image; its outputs may still be of other numbers.
            _ if inputs.len() == 1 && element.is_none() => [2, 3],
            _ => return None,
        };
        let others = inputs.iter().enumerate().filter(|(index, _)| *index != at);
        let computed: Vec<(String, usize)> = others
            .map(|(_, port)| (port.name.clone(), port.shape.len()))
            .collect();
        let wanted = |(name, rank): &(String, usize)| match name.as_str() {
            "pixel_mask" => *rank == 3,
            _ => [1, 2].contains(rank),
        };
        if !computed.iter().all(wanted) {
            return None;
        }
        let converted = |port: &&Port| port.element != "f32" && is_number(&port.element);
        let outputs: Vec<String> = outputs
            .iter()
            .filter(converted)
            .map(|port| port.name.clone())
            .collect();
        let is_needed = element.is_some() || has_no_batch || !computed.is_empty() || !outputs.is_empty();
        is_needed.then(|| Self {
            image: port.name.clone(),
            axes,
            element,
            has_no_batch,
            computed,
            outputs,
        })
    }

    /// The file with the change; `None` if the bytes are no ONNX model with these ports.
    fn apply(&self, model: &[u8]) -> Option<Vec<u8>> {
        let mut model = ModelProto::decode(Bytes::copy_from_slice(model)).ok()?;
        let graph = model.graph.as_mut()?;
        let mut added = Added::default();
        let types: BTreeMap<String, i32> = graph
            .input
            .iter_mut()
            .filter_map(|input| Some((input.name().to_owned(), *element_of(input)?)))
            .collect();
        if !self.computed.is_empty() {
            self.compute(&types, &mut added)?;
            let is_computed = |name: &str| self.computed.iter().any(|(computed, _)| computed == name);
            graph.input.retain(|input| !is_computed(input.name()));
        }
        self.convert_image(graph, &mut added)?;
        let mut after = Vec::new();
        for name in &self.outputs {
            let converted = format!("{PREFIX}{name}_before");
            // An input that is an output, too, has no node that gives it.
            if graph.input.iter().any(|input| input.name() == name) {
                return None;
            }
            let output = graph.output.iter_mut().find(|output| output.name() == name)?;
            *element_of(output)? = data_type::FLOAT;
            rename(graph, name, &converted);
            after.push(cast(&converted, name, data_type::FLOAT));
        }
        graph.node.splice(0..0, added.nodes);
        graph.node.extend(after);
        graph.initializer.append(&mut added.constants);
        Some(model.encode_to_vec())
    }

    /// Puts conversions between the image and those who read it.
    fn convert_image(&self, graph: &mut GraphProto, added: &mut Added) -> Option<()> {
        if self.element.is_none() && !self.has_no_batch {
            return Some(());
        }
        let inner = format!("{PREFIX}{}", self.image);
        rename(graph, &self.image, &inner);
        let input = graph.input.iter_mut().find(|input| input.name() == self.image)?;
        *element_of(input)? = data_type::FLOAT;
        let mut last = self.image.clone();
        if self.has_no_batch {
            match input.r#type.as_mut()?.value.as_mut()? {
                TypeValue::Tensor(tensor) => tensor.shape.as_mut()?.dim.insert(0, Dimension::size(1)),
                _ => return None,
            }
            let first = added.constant("first", &[], &[0]);
            let single = match self.element {
                Some(_) => format!("{PREFIX}single"),
                None => inner.clone(),
            };
            added.node("Gather", &[&last, &first], &single, &[("axis", 0)]);
            last = single;
        }
        if let Some(element) = self.element {
            if element == data_type::UINT8 {
                // A conversion cuts off what is behind the point.
                let half = added.float("half", &[0.5]);
                let rounded = format!("{PREFIX}rounded");
                added.node("Add", &[&last, &half], &rounded, &[]);
                last = rounded;
            }
            added.nodes.push(cast(&last, &inner, element));
        }
        Some(())
    }

    /// Computes the inputs beside the image from its shape.
    fn compute(&self, types: &BTreeMap<String, i32>, added: &mut Added) -> Option<()> {
        let shape = format!("{PREFIX}shape");
        added.node("Shape", &[&self.image], &shape, &[]);
        let mut size = |name: &str, axis: i64| {
            let at = added.constant(&format!("axis_{name}"), &[1], &[axis]);
            let size = format!("{PREFIX}{name}");
            added.node("Gather", &[&shape, &at], &size, &[("axis", 0)]);
            size
        };
        let (batch, height, width) = (
            size("batch", 0),
            size("height", self.axes[0]),
            size("width", self.axes[1]),
        );
        for (number, (name, rank)) in self.computed.iter().enumerate() {
            let own = |part: &str| format!("{PREFIX}{part}_{number}");
            let concat = |added: &mut Added, parts: &[&String], part: &str| {
                let parts: Vec<&str> = parts.iter().map(|part| part.as_str()).collect();
                added.node("Concat", &parts, &own(part), &[("axis", 0)]);
                own(part)
            };
            let (row, row_shape) = match name.as_str() {
                TARGET_SIZES => (concat(added, &[&width, &height], "row"), None),
                "im_shape" => (concat(added, &[&height, &width], "row"), None),
                "scale_factor" => (added.constant(&format!("row_{number}"), &[2], &[1, 1]), None),
                _ => {
                    let one = added.constant(&format!("row_{number}"), &[1], &[1]);
                    (one, Some(concat(added, &[&batch, &height, &width], "size")))
                }
            };
            let row_shape = match row_shape {
                None if *rank == 2 => {
                    let two = added.constant(&format!("two_{number}"), &[1], &[2]);
                    Some(concat(added, &[&batch, &two], "size"))
                }
                shape => shape,
            };
            let whole = match row_shape {
                None => row,
                Some(shape) => {
                    added.node("Expand", &[&row, &shape], &own("whole"), &[]);
                    own("whole")
                }
            };
            added.nodes.push(cast(&whole, name, *types.get(name)?));
        }
        Some(())
    }
}

/// Nodes and constants before the first node of the graph.
#[derive(Default)]
struct Added {
    nodes: Vec<NodeProto>,
    constants: Vec<TensorProto>,
}

impl Added {
    fn node(&mut self, op: &str, inputs: &[&str], output: &str, attributes: &[(&str, i64)]) {
        self.nodes.push(node(op, inputs, output, attributes));
    }

    /// Whole numbers under a name with the prefix, which is returned.
    fn constant(&mut self, name: &str, dims: &[i64], values: &[i64]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, dims, data_type::INT64, raw)
    }

    fn float(&mut self, name: &str, values: &[f32]) -> String {
        let raw: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.tensor(name, &[values.len() as i64], data_type::FLOAT, raw)
    }

    fn tensor(&mut self, name: &str, dims: &[i64], element: i32, raw: Vec<u8>) -> String {
        let name = format!("{PREFIX}{name}");
        self.constants.push(TensorProto {
            dims: dims.to_vec(),
            data_type: Some(element),
            name: Some(name.clone()),
            raw_data: Some(raw.into()),
            ..TensorProto::default()
        });
        name
    }
}

/// Type of an attribute that is a whole number.
const WHOLE_NUMBER: i32 = 2;

fn node(op: &str, inputs: &[&str], output: &str, attributes: &[(&str, i64)]) -> NodeProto {
    let attribute = |(name, value): &(&str, i64)| AttributeProto {
        name: Some((*name).to_owned()),
        i: Some(*value),
        r#type: Some(WHOLE_NUMBER),
        ..AttributeProto::default()
    };
    NodeProto {
        input: inputs.iter().map(|name| (*name).to_owned()).collect(),
        output: vec![output.to_owned()],
        name: Some(format!("{PREFIX}{op}_{output}")),
        op_type: Some(op.to_owned()),
        attribute: attributes.iter().map(attribute).collect(),
        ..NodeProto::default()
    }
}

fn cast(from: &str, to: &str, element: i32) -> NodeProto {
    node("Cast", &[from], to, &[("to", i64::from(element))])
}

fn element_of(value: &mut ValueInfoProto) -> Option<&mut i32> {
    match value.r#type.as_mut()?.value.as_mut()? {
        TypeValue::Tensor(tensor) => tensor.elem_type.as_mut(),
        _ => None,
    }
}

/// Renames a value in all nodes and constants; names of the graph's own inputs and outputs stay. Decoding bounds how deep graphs lie
/// within graphs.
fn rename(graph: &mut GraphProto, from: &str, to: &str) {
    let change = |name: &mut String| {
        if name == from {
            to.clone_into(name);
        }
    };
    for node in &mut graph.node {
        node.input.iter_mut().chain(&mut node.output).for_each(change);
        for attribute in &mut node.attribute {
            let graphs = attribute
                .g
                .as_deref_mut()
                .into_iter()
                .chain(&mut attribute.graphs);
            for inner in graphs {
                inner
                    .output
                    .iter_mut()
                    .filter_map(|output| output.name.as_mut())
                    .for_each(change);
                rename(inner, from, to);
            }
        }
    }
    let constants = graph
        .initializer
        .iter_mut()
        .filter_map(|tensor| tensor.name.as_mut());
    let infos = graph.value_info.iter_mut().filter_map(|info| info.name.as_mut());
    constants.chain(infos).for_each(change);
}

#[cfg(test)]
mod tests;
