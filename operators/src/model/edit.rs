//! Makes a batch dimension that an ONNX file fixes at 1 symbolic.
//!
//! This only edits the file: whether the graph then supports batches is measured by the batch probe.

use std::collections::BTreeMap;

use prost::Message;
use prost::bytes::Bytes;

use super::onnx::{
    Dimension, DimensionValue, GraphProto, ModelProto, NodeProto, TensorProto, TypeValue, ValueInfoProto,
    data_type,
};

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

/// The file with the first dimension of inputs and outputs made symbolic, leading ones in the target shapes of
/// `Reshape` replaced, and recorded shapes of inner values removed (the runtime infers them). `None` if the bytes are
/// no ONNX model or nothing in them is fixed at 1.
pub(crate) fn free_batch(model: &[u8], leading: Leading) -> Option<Vec<u8>> {
    let mut model = ModelProto::decode(Bytes::copy_from_slice(model)).ok()?;
    let is_freed = free_graph(model.graph.as_mut()?, leading);
    is_freed.then(|| model.encode_to_vec())
}

/// Frees the batch of a graph; false if none of its inputs is fixed at 1.
fn free_graph(graph: &mut GraphProto, leading: Leading) -> bool {
    let constants = constants(graph);
    graph.value_info.clear();
    // Old files list weights among the inputs, which keeps the runtime from folding them.
    graph.input.retain(|input| !constants.contains_key(input.name()));
    let mut is_freed = false;
    for input in &mut graph.input {
        is_freed |= free_value(input);
    }
    for output in &mut graph.output {
        free_value(output);
    }
    let mut shapes = Vec::new();
    for node in &mut graph.node {
        let name = format!("{DIMENSION}_shape_{}", shapes.len());
        shapes.extend(free_reshape(node, &constants, leading, name));
    }
    graph.initializer.append(&mut shapes);
    is_freed
}

/// Initializers and outputs of `Constant` nodes by name, with their values if they are lists of 64 bit integers.
fn constants(graph: &GraphProto) -> BTreeMap<String, Option<Vec<i64>>> {
    let mut all = BTreeMap::new();
    for tensor in &graph.initializer {
        if let Some(name) = &tensor.name {
            all.insert(name.clone(), int64_list(tensor));
        }
    }
    for node in graph.node.iter().filter(|node| node.op_type() == "Constant") {
        let value = node
            .attribute
            .iter()
            .find(|attribute| attribute.name() == "value");
        let values = value.and_then(|value| int64_list(value.t.as_ref()?));
        if let (Some(name), Some(values)) = (node.output.first(), values) {
            all.insert(name.clone(), Some(values));
        }
    }
    all
}

fn int64_list(tensor: &TensorProto) -> Option<Vec<i64>> {
    if tensor.data_type() != data_type::INT64 || tensor.dims.len() != 1 {
        return None;
    }
    Some(match &tensor.raw_data {
        Some(raw) => {
            let (values, _) = raw.as_chunks();
            values.iter().map(|bytes| i64::from_le_bytes(*bytes)).collect()
        }
        None => tensor.int64_data.clone(),
    })
}

/// Makes the first dimension of a value symbolic; false if it is not fixed at 1.
fn free_value(value: &mut ValueInfoProto) -> bool {
    let first = first_dimension(value).and_then(|dimension| dimension.value.as_mut());
    let fixed = first.filter(|value| **value == DimensionValue::Size(1));
    fixed.is_some_and(|value| {
        *value = DimensionValue::Symbol(DIMENSION.to_owned());
        true
    })
}

fn first_dimension(value: &mut ValueInfoProto) -> Option<&mut Dimension> {
    match value.r#type.as_mut()?.value.as_mut()? {
        TypeValue::Tensor(tensor) => tensor.shape.as_mut()?.dim.first_mut(),
        _ => None,
    }
}

/// Frees the batch of a `Reshape` to a constant shape with a leading 1: its shape input is renamed to `name`, and the
/// initializer of that name is returned.
fn free_reshape(
    node: &mut NodeProto,
    constants: &BTreeMap<String, Option<Vec<i64>>>,
    leading: Leading,
    name: String,
) -> Option<TensorProto> {
    if node.op_type() != "Reshape" {
        return None;
    }
    let shape = node.input.get_mut(1)?;
    let freed = free_shape(constants.get(shape)?.as_ref()?, leading)?;
    shape.clone_from(&name);
    let raw: Vec<u8> = freed.iter().flat_map(|size| size.to_le_bytes()).collect();
    Some(TensorProto {
        dims: vec![freed.len() as i64],
        data_type: Some(data_type::INT64),
        name: Some(name),
        raw_data: Some(raw.into()),
        ..TensorProto::default()
    })
}

/// The file with the first dimension of its first input fixed at `size`.
#[cfg(test)]
pub(crate) fn fix_batch(model: &[u8], size: usize) -> Option<Vec<u8>> {
    let mut model = ModelProto::decode(model).ok()?;
    *first_dimension(model.graph.as_mut()?.input.first_mut()?)? = Dimension::size(size);
    Some(model.encode_to_vec())
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
