//! Makes a batch dimension that an ONNX file fixes at 1 symbolic.
//!
//! This only edits the file: whether the graph then supports batches is measured by the batch probe.

use std::borrow::Cow;
use std::collections::BTreeMap;

use super::protobuf::{Field, Message};

/// Name of the symbolic dimension.
const DIMENSION: &str = "weir_batch";

/// Replacement of a leading 1 in the target shape of a `Reshape`. Which one is right depends on the graph.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leading {
    /// 0: the size of the reshaped tensor's own first dimension.
    Keep,
    /// -1: inferred from the remaining sizes.
    Infer,
}

/// Field numbers of ONNX's messages.
mod field {
    pub(super) const MODEL_GRAPH: u32 = 7;
    pub(super) const GRAPH_NODE: u32 = 1;
    pub(super) const GRAPH_INITIALIZER: u32 = 5;
    pub(super) const GRAPH_INPUT: u32 = 11;
    pub(super) const GRAPH_OUTPUT: u32 = 12;
    pub(super) const GRAPH_VALUE_INFO: u32 = 13;
    pub(super) const NODE_INPUT: u32 = 1;
    pub(super) const NODE_OUTPUT: u32 = 2;
    pub(super) const NODE_OP: u32 = 4;
    pub(super) const NODE_ATTRIBUTE: u32 = 5;
    pub(super) const ATTRIBUTE_NAME: u32 = 1;
    pub(super) const ATTRIBUTE_TENSOR: u32 = 5;
    pub(super) const TENSOR_DIMS: u32 = 1;
    pub(super) const TENSOR_TYPE: u32 = 2;
    pub(super) const TENSOR_INT64: u32 = 7;
    pub(super) const TENSOR_NAME: u32 = 8;
    pub(super) const TENSOR_RAW: u32 = 9;
    pub(super) const VALUE_NAME: u32 = 1;
    pub(super) const VALUE_TYPE: u32 = 2;
    pub(super) const TYPE_TENSOR: u32 = 1;
    pub(super) const TENSOR_TYPE_SHAPE: u32 = 2;
    pub(super) const SHAPE_DIM: u32 = 1;
    pub(super) const DIM_VALUE: u32 = 1;
    pub(super) const DIM_PARAM: u32 = 2;
}

/// ONNX's number of the element type of 64 bit integers.
const INT64: u64 = 7;

/// The file with the first dimension of inputs and outputs made symbolic, leading ones in the target shapes of
/// `Reshape` replaced, and recorded shapes of inner values removed (the runtime infers them). `None` if the bytes are
/// no ONNX model or nothing in them is fixed at 1.
pub(crate) fn free_batch(model: &[u8], leading: Leading) -> Option<Vec<u8>> {
    let mut model = Message::read(model)?;
    let graph = model
        .fields
        .iter_mut()
        .find(|field| field.number == field::MODEL_GRAPH)?;
    let patched = graph_with_free_batch(&Message::read(graph.as_bytes()?)?, leading)?;
    *graph = Field::bytes(field::MODEL_GRAPH, patched);
    Some(model.write())
}

fn graph_with_free_batch(graph: &Message<'_>, leading: Leading) -> Option<Vec<u8>> {
    let constants = constants(graph);
    let mut out = Message::default();
    let mut shapes = Vec::new();
    let mut freed = false;
    for entry in &graph.fields {
        match entry.number {
            field::GRAPH_VALUE_INFO => continue,
            field::GRAPH_INPUT | field::GRAPH_OUTPUT => {
                let bytes = entry.as_bytes()?;
                let name = Message::read(bytes)?.text(field::VALUE_NAME)?.to_owned();
                // Old files list weights among the inputs, which keeps the runtime from folding them.
                if entry.number == field::GRAPH_INPUT && constants.contains_key(&name) {
                    continue;
                }
                if let Some(value) = value_with_free_batch(bytes) {
                    freed |= entry.number == field::GRAPH_INPUT;
                    out.fields.push(Field::bytes(entry.number, value));
                    continue;
                }
            }
            field::GRAPH_NODE => {
                let name = format!("{DIMENSION}_shape_{}", shapes.len());
                if let Some((node, shape)) =
                    reshape_with_free_batch(entry.as_bytes()?, &constants, leading, &name)
                {
                    shapes.push(Field::bytes(field::GRAPH_INITIALIZER, shape));
                    out.fields.push(Field::bytes(field::GRAPH_NODE, node));
                    continue;
                }
            }
            _ => {}
        }
        out.fields.push(entry.clone());
    }
    out.fields.append(&mut shapes);
    freed.then(|| out.write())
}

/// Initializers and outputs of `Constant` nodes by name, with their values if they are lists of 64 bit integers.
fn constants(graph: &Message<'_>) -> BTreeMap<String, Option<Vec<i64>>> {
    let mut all = BTreeMap::new();
    for tensor in graph.all(field::GRAPH_INITIALIZER).filter_map(Message::read) {
        if let Some(name) = tensor.text(field::TENSOR_NAME) {
            all.insert(name.to_owned(), int64_list(&tensor));
        }
    }
    for node in graph.all(field::GRAPH_NODE).filter_map(Message::read) {
        if node.text(field::NODE_OP) != Some("Constant") {
            continue;
        }
        let tensor = node
            .all(field::NODE_ATTRIBUTE)
            .filter_map(Message::read)
            .find_map(|attribute| {
                let is_value = attribute.text(field::ATTRIBUTE_NAME) == Some("value");
                let tensor = attribute
                    .first(field::ATTRIBUTE_TENSOR)
                    .and_then(Field::as_bytes)?;
                is_value.then(|| int64_list(&Message::read(tensor)?)).flatten()
            });
        if let (Some(name), Some(values)) = (node.text(field::NODE_OUTPUT), tensor) {
            all.insert(name.to_owned(), Some(values));
        }
    }
    all
}

fn int64_list(tensor: &Message<'_>) -> Option<Vec<i64>> {
    if tensor.first(field::TENSOR_TYPE)?.as_varint()? != INT64
        || tensor.integers(field::TENSOR_DIMS)?.len() != 1
    {
        return None;
    }
    match tensor.first(field::TENSOR_RAW).and_then(Field::as_bytes) {
        Some(raw) => Some(
            raw.as_chunks::<8>()
                .0
                .iter()
                .map(|bytes| i64::from_le_bytes(*bytes))
                .collect(),
        ),
        None => tensor.integers(field::TENSOR_INT64),
    }
}

/// A `ValueInfoProto` with its first dimension symbolic, if that is fixed at 1.
fn value_with_free_batch(value: &[u8]) -> Option<Vec<u8>> {
    rewrite(value, field::VALUE_TYPE, |kind| {
        rewrite(kind, field::TYPE_TENSOR, |tensor| {
            rewrite(tensor, field::TENSOR_TYPE_SHAPE, |shape| {
                rewrite(shape, field::SHAPE_DIM, |dimension| {
                    let dimension = Message::read(dimension)?;
                    let one = dimension.first(field::DIM_VALUE)?.as_varint()? == 1;
                    let named = Field::bytes(field::DIM_PARAM, DIMENSION.as_bytes());
                    one.then(|| Message { fields: vec![named] }.write())
                })
            })
        })
    })
}

/// The message with its first field of that number replaced by the result of `change`.
fn rewrite(message: &[u8], number: u32, change: impl FnOnce(&[u8]) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut message = Message::read(message)?;
    let entry = message.fields.iter_mut().find(|entry| entry.number == number)?;
    *entry = Field::bytes(number, change(entry.as_bytes()?)?);
    Some(message.write())
}

/// A `Reshape` to a constant shape with a leading 1: the node with its shape input renamed to `name`, and the
/// initializer of that name.
fn reshape_with_free_batch(
    node: &[u8],
    constants: &BTreeMap<String, Option<Vec<i64>>>,
    leading: Leading,
    name: &str,
) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut node = Message::read(node)?;
    if node.text(field::NODE_OP) != Some("Reshape") {
        return None;
    }
    let shape = node
        .fields
        .iter_mut()
        .filter(|entry| entry.number == field::NODE_INPUT)
        .nth(1)?;
    let values = constants
        .get(std::str::from_utf8(shape.as_bytes()?).ok()?)?
        .as_ref()?;
    let freed = free_shape(values, leading)?;
    *shape = Field {
        number: field::NODE_INPUT,
        ..Field::bytes(field::NODE_INPUT, name.as_bytes().to_vec())
    };
    let raw: Vec<u8> = freed.iter().flat_map(|size| size.to_le_bytes()).collect();
    let initializer = Message {
        fields: vec![
            Field::varint(field::TENSOR_DIMS, freed.len() as u64),
            Field::varint(field::TENSOR_TYPE, INT64),
            Field::bytes(field::TENSOR_NAME, name.as_bytes()),
            Field::bytes(field::TENSOR_RAW, Cow::Owned(raw)),
        ],
    };
    Some((node.write(), initializer.write()))
}

/// The file with the first dimension of its first input fixed at `size`.
#[cfg(test)]
pub(crate) fn fix_batch(model: &[u8], size: u64) -> Option<Vec<u8>> {
    rewrite(model, field::MODEL_GRAPH, |graph| {
        rewrite(graph, field::GRAPH_INPUT, |value| {
            rewrite(value, field::VALUE_TYPE, |kind| {
                rewrite(kind, field::TYPE_TENSOR, |tensor| {
                    rewrite(tensor, field::TENSOR_TYPE_SHAPE, |shape| {
                        rewrite(shape, field::SHAPE_DIM, |_| {
                            Some(
                                Message {
                                    fields: vec![Field::varint(field::DIM_VALUE, size)],
                                }
                                .write(),
                            )
                        })
                    })
                })
            })
        })
    })
}

fn free_shape(values: &[i64], leading: Leading) -> Option<Vec<i64>> {
    let mut freed = values.to_vec();
    let first = freed.first_mut().filter(|first| **first == 1)?;
    *first = match leading {
        Leading::Infer if !values.contains(&-1) => -1,
        Leading::Infer | Leading::Keep => 0,
    };
    Some(freed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leading_one_becomes_the_batch() {
        assert_eq!(free_shape(&[1, -1, 85], Leading::Keep), Some(vec![0, -1, 85]));
        assert_eq!(free_shape(&[1, -1, 85], Leading::Infer), Some(vec![0, -1, 85]));
        assert_eq!(free_shape(&[1, 2, 58], Leading::Infer), Some(vec![-1, 2, 58]));
        assert_eq!(free_shape(&[-1, 58], Leading::Keep), None);
    }

    #[test]
    fn bytes_that_are_no_model_are_not_edited() {
        assert_eq!(free_batch(b"", Leading::Keep), None);
        assert_eq!(free_batch(b"this is text, not a model", Leading::Keep), None);
    }
}
