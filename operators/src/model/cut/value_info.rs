//! Element types and shapes of the values inside a model.
//!
//! Few files record them, and recorded ones may be wrong once the batch is symbolic. So they are measured: the graph is
//! opened with all values as outputs, with symbolic dimensions and with inputs of known size, for batches of one and of
//! two. What the runtime cannot infer is found by running it.

use std::collections::BTreeMap;

use prost::Message;
use weir_flow::{DeviceKind, Element, Tensor};

use super::error::CutError;
use crate::model::onnx::{Dimension, ModelProto, TypeProto, ValueInfoProto, data_type};
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
    pub(super) fn value(&self, name: &str) -> ValueInfoProto {
        let dim = |dim: &Dim| match dim {
            Dim::Fixed(size) => Dimension::size(*size),
            Dim::Symbol(name) => Dimension::symbol(name),
            Dim::Free => Dimension::default(),
        };
        value(name, self.element, self.dims.iter().map(dim).collect())
    }
}

fn value(name: &str, element: Element, dims: Vec<Dimension>) -> ValueInfoProto {
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: Some(TypeProto::tensor(number(element), dims)),
        ..ValueInfoProto::default()
    }
}

/// ONNX's number of an element type.
fn number(element: Element) -> i32 {
    match element {
        Element::U8 => data_type::UINT8,
        Element::I8 => data_type::INT8,
        Element::I32 => data_type::INT32,
        Element::I64 => data_type::INT64,
        Element::Bool => data_type::BOOL,
        Element::F16 => data_type::FLOAT16,
        Element::F64 => data_type::DOUBLE,
        // `Element` may grow; the runtime refuses a type that is unknown here.
        _ => data_type::FLOAT,
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

/// Measures the values `names` of the model.
pub(crate) fn value_infos(
    model: &ModelProto,
    names: &[&str],
    samples: &SampleInputs,
) -> Result<BTreeMap<String, ValueInfo>, CutError> {
    // Types and shapes that the runtime infers for the declared inputs.
    let session = open(&with_outputs(model, names, &[])?)?;
    let (declared, inputs) = (session.output_ports(), session.input_ports());
    let one = sizes(model, names, &samples.one)?;
    let two = samples
        .two
        .as_deref()
        .map(|two| sizes(model, names, two))
        .transpose()?;
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

/// Shapes of the values for the inputs `sample`.
fn sizes(model: &ModelProto, names: &[&str], sample: &[Tensor]) -> Result<Vec<Vec<usize>>, CutError> {
    let ports = open(&with_outputs(model, names, sample)?)?.output_ports();
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
        let mut session = open(&with_outputs(model, &unknown, sample)?)?;
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
fn with_outputs(model: &ModelProto, names: &[&str], sample: &[Tensor]) -> Result<Vec<u8>, CutError> {
    let mut model = model.clone();
    let graph = model.graph.as_mut().ok_or(CutError::NoModel)?;
    for input in &mut graph.input {
        if let Some(tensor) = sample.iter().find(|tensor| *tensor.name == *input.name()) {
            let dims = tensor.shape.iter().map(|size| Dimension::size(*size));
            *input = value(&tensor.name, tensor.element, dims.collect());
        }
    }
    let output = |name: &&str| ValueInfoProto {
        name: Some((*name).to_owned()),
        ..ValueInfoProto::default()
    };
    graph.output = names.iter().map(output).collect();
    Ok(model.encode_to_vec())
}
