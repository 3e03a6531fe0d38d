//! Element types and shapes of the values inside a model.
//!
//! Few files record them, and recorded ones may be wrong once the batch is symbolic. So they are measured: the graph is
//! opened with all values as outputs, with symbolic dimensions and with inputs of known size, for batches of one and of
//! two. What the runtime cannot infer is found by running it.

use std::collections::BTreeMap;

use weir_flow::{DeviceKind, Element, Tensor};

use super::error::CutError;
use super::fields as field;
use crate::model::protobuf::{Field, Message};
use crate::model::runtime::{Optimization, OrtSession, SessionOptions, TensorPort};

/// Name of a free batch dimension.
const BATCH: &str = "weir_batch";

/// Element type, shape and size of a value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ValueInfo {
    pub(crate) element: Element,
    dims: Vec<Dim>,
    /// Bytes per item.
    pub(crate) bytes: u64,
}

/// Size of a dimension.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Dim {
    Fixed(usize),
    Symbol(String),
    Free,
}

impl ValueInfo {
    /// Bytes per item when sent.
    pub(crate) fn sent_bytes(&self, half: bool) -> u64 {
        if half && self.element == Element::F32 {
            self.bytes / 2
        } else {
            self.bytes
        }
    }

    /// The info of an input, whose shape the model declares.
    pub(crate) fn of_input(sample: &Tensor, items: usize) -> Self {
        Self {
            element: sample.element,
            dims: Vec::new(),
            bytes: (sample.data.len() / items.max(1)) as u64,
        }
    }

    /// An ONNX value of this type and shape.
    pub(super) fn value(&self, name: &str) -> Vec<u8> {
        let dim = |dim: &Dim| match dim {
            Dim::Fixed(size) => message(vec![Field::varint(field::DIM_VALUE, *size as u64)]),
            Dim::Symbol(name) => message(vec![Field::bytes(field::DIM_PARAM, name.as_bytes())]),
            Dim::Free => Vec::new(),
        };
        let dims = self.dims.iter().map(dim);
        let shape = message(dims.map(|dim| Field::bytes(field::SHAPE_DIM, dim)).collect());
        value(name, self.element, shape)
    }
}

fn message(fields: Vec<Field<'_>>) -> Vec<u8> {
    Message { fields }.write()
}

fn value(name: &str, element: Element, shape: Vec<u8>) -> Vec<u8> {
    let tensor = message(vec![
        Field::varint(field::TENSOR_TYPE_ELEMENT, number(element)),
        Field::bytes(field::TENSOR_TYPE_SHAPE, shape),
    ]);
    let info = message(vec![Field::bytes(field::TYPE_TENSOR, tensor)]);
    message(vec![
        Field::bytes(field::VALUE_NAME, name.as_bytes()),
        Field::bytes(field::VALUE_TYPE, info),
    ])
}

/// ONNX's number of an element type.
fn number(element: Element) -> u64 {
    match element {
        Element::U8 => 2,
        Element::I8 => 3,
        Element::I32 => 6,
        Element::I64 => 7,
        Element::Bool => 9,
        Element::F16 => 10,
        Element::F64 => 11,
        // `Element` may grow; the runtime refuses a type that is unknown here.
        _ => 1,
    }
}

/// Inputs to measure with.
#[derive(Debug, Clone)]
pub(crate) struct SampleInputs {
    /// Blank inputs of one item, or of the fixed batch.
    pub(crate) one: Vec<Tensor>,
    /// Blank inputs of two items, if the batch is free.
    pub(crate) two: Option<Vec<Tensor>>,
    /// Items in `one`.
    pub(crate) items: usize,
}

/// Measures the values `names` of the model in `bytes`.
pub(crate) fn value_infos(
    bytes: &[u8],
    names: &[&str],
    samples: &SampleInputs,
) -> Result<BTreeMap<String, ValueInfo>, CutError> {
    let declared = declared(bytes, names)?;
    let one = sizes(bytes, names, &samples.one)?;
    let two = samples
        .two
        .as_deref()
        .map(|two| sizes(bytes, names, two))
        .transpose()?;
    let inputs = inputs(bytes)?;
    // Dimensions other than the batch may be free; then equal sizes for both batches prove nothing.
    let only_batch = inputs
        .iter()
        .all(|port| port.dims.iter().skip(1).all(|(size, _)| size.is_some()));
    let mut value_infos = BTreeMap::new();
    for (index, port) in declared.iter().enumerate() {
        let unknown = || CutError::Unknown(port.name.clone());
        let element = port.element.ok_or_else(unknown)?;
        let one = one.get(index).ok_or_else(unknown)?;
        let two = match &two {
            Some(two) => Some(two.get(index).ok_or_else(unknown)?),
            None => None,
        };
        let dim = |at: usize, size: usize| {
            let other = two.and_then(|two| two.get(at).copied());
            let (fixed, symbol) = port.dims.get(at).cloned().unwrap_or_default();
            if other.is_some_and(|other| other != size) {
                // The batch itself, or a size computed from it.
                return match symbol {
                    symbol if !symbol.is_empty() => Dim::Symbol(symbol),
                    _ if at == 0 && (size, other) == (1, Some(2)) => Dim::Symbol(BATCH.to_owned()),
                    _ => Dim::Free,
                };
            }
            match fixed {
                Some(fixed) if fixed == size => Dim::Fixed(size),
                _ if only_batch => Dim::Fixed(size),
                _ if symbol.is_empty() => Dim::Free,
                _ => Dim::Symbol(symbol),
            }
        };
        let bytes = one.iter().product::<usize>() * element.bytes();
        let info = ValueInfo {
            element,
            dims: one.iter().enumerate().map(|(at, size)| dim(at, *size)).collect(),
            bytes: (bytes / samples.items.max(1)) as u64,
        };
        value_infos.insert(port.name.clone(), info);
    }
    Ok(value_infos)
}

/// Types and shapes that the runtime infers for the declared inputs.
fn declared(bytes: &[u8], names: &[&str]) -> Result<Vec<TensorPort>, CutError> {
    Ok(open(&with_outputs(bytes, names, &[])?)?.output_ports())
}

fn inputs(bytes: &[u8]) -> Result<Vec<TensorPort>, CutError> {
    Ok(open(bytes)?.input_ports())
}

/// Shapes of the values for the inputs `sample`.
fn sizes(bytes: &[u8], names: &[&str], sample: &[Tensor]) -> Result<Vec<Vec<usize>>, CutError> {
    let ports = open(&with_outputs(bytes, names, sample)?)?.output_ports();
    let inferred = |port: &TensorPort| -> Option<Vec<usize>> {
        let sizes = port.dims.iter().map(|(size, _)| *size);
        sizes
            .collect::<Option<Vec<usize>>>()
            .filter(|sizes| !sizes.is_empty())
    };
    let unknown: Vec<&str> = ports
        .iter()
        .filter(|port| inferred(port).is_none())
        .map(|port| port.name.as_str())
        .collect();
    let mut ran: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    if !unknown.is_empty() {
        let mut session = open(&with_outputs(bytes, &unknown, sample)?)?;
        let fed: Vec<(&Tensor, Element)> = sample.iter().map(|tensor| (tensor, tensor.element)).collect();
        let outputs = session.run_tensors(&fed, false).map_err(CutError::Runtime)?;
        ran.extend(
            outputs
                .into_iter()
                .map(|tensor| (tensor.name.to_string(), tensor.shape)),
        );
    }
    ports
        .iter()
        .map(|port| inferred(port).or_else(|| ran.get(&port.name).cloned()))
        .collect::<Option<_>>()
        .ok_or(CutError::NoModel)
}

fn open(bytes: &[u8]) -> Result<OrtSession, CutError> {
    let options = SessionOptions {
        optimization: Optimization::No,
        ..SessionOptions::default()
    };
    Ok(OrtSession::open_with(bytes, DeviceKind::Cpu, &options)?)
}

/// The model with `names` as its outputs, and with the sizes of `sample` for its inputs.
fn with_outputs(bytes: &[u8], names: &[&str], sample: &[Tensor]) -> Result<Vec<u8>, CutError> {
    let mut model = Message::read(bytes).ok_or(CutError::NoModel)?;
    let entry = model
        .fields
        .iter_mut()
        .find(|entry| entry.number == field::MODEL_GRAPH)
        .ok_or(CutError::NoModel)?;
    let mut graph = entry
        .as_bytes()
        .and_then(Message::read)
        .ok_or(CutError::NoModel)?;
    graph.fields.retain(|entry| entry.number != field::GRAPH_OUTPUT);
    for entry in &mut graph.fields {
        if entry.number != field::GRAPH_INPUT {
            continue;
        }
        let name = entry.as_bytes().and_then(Message::read);
        let name = name.as_ref().and_then(|value| value.text(field::VALUE_NAME));
        let Some(tensor) = sample.iter().find(|tensor| Some(&*tensor.name) == name) else {
            continue;
        };
        let dims = tensor
            .shape
            .iter()
            .map(|size| message(vec![Field::varint(field::DIM_VALUE, *size as u64)]));
        let shape = message(dims.map(|dim| Field::bytes(field::SHAPE_DIM, dim)).collect());
        *entry = Field::bytes(field::GRAPH_INPUT, value(&tensor.name, tensor.element, shape));
    }
    for name in names {
        let value = message(vec![Field::bytes(field::VALUE_NAME, name.as_bytes())]);
        graph.fields.push(Field::bytes(field::GRAPH_OUTPUT, value));
    }
    let graph = graph.write();
    *entry = Field::bytes(field::MODEL_GRAPH, graph);
    Ok(model.write())
}
