//! Cutting without a runtime: small files made here, and random ones.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;
use weir_flow::{Element, Tensor};

use super::graph::Network;
use super::liveness::Liveness;
use super::onnx_layers::OnnxLayers;
use super::partition::partition;
use super::value_info::ValueInfo;
use super::{CutError, LAST, SENDS};
use crate::model::onnx::{
    AttributeProto, EXTERNAL, GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, read_metadata,
};

fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> NodeProto {
    let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
    NodeProto {
        input: owned(inputs),
        output: owned(outputs),
        name: Some(name.to_owned()),
        op_type: Some(op.to_owned()),
        ..NodeProto::default()
    }
}

/// A model of nodes, weights, inputs and outputs.
fn model(nodes: Vec<NodeProto>, weights: &[TensorProto], inputs: &[&str], outputs: &[&str]) -> ModelProto {
    let value = |name: &&str| ValueInfoProto {
        name: Some((*name).to_owned()),
        ..ValueInfoProto::default()
    };
    let graph = GraphProto {
        node: nodes,
        initializer: weights.to_vec(),
        input: inputs.iter().map(value).collect(),
        output: outputs.iter().map(value).collect(),
        ..GraphProto::default()
    };
    ModelProto {
        graph: Some(graph),
        ..ModelProto::default()
    }
}

fn weight(name: &str) -> TensorProto {
    TensorProto {
        name: Some(name.to_owned()),
        ..TensorProto::default()
    }
}

fn decoded(bytes: &[u8]) -> ModelProto {
    ModelProto::decode(bytes).expect("a model")
}

fn error(model: &ModelProto) -> String {
    let error = OnnxLayers::check(&model.encode_to_vec()).expect_err("refused");
    error.to_string()
}

#[test]
fn a_model_that_cannot_be_cut_is_one_error_with_the_cause() {
    let plain = || node("a", "Relu", &["x"], &["y"]);
    let one = AttributeProto {
        g: Some(Box::default()),
        ..AttributeProto::default()
    };
    let several = AttributeProto {
        graphs: vec![GraphProto::default()],
        ..AttributeProto::default()
    };
    for attribute in [one, several] {
        let mut choice = node("choice", "If", &["x"], &["y"]);
        choice.attribute.push(attribute);
        assert_eq!(
            error(&model(vec![choice], &[], &["x"], &["y"])),
            "node choice (If) holds a graph of its own: a model with control flow cannot be cut"
        );
    }
    let away = TensorProto {
        data_location: Some(EXTERNAL),
        ..weight("w")
    };
    assert!(
        error(&model(vec![plain()], &[away], &["x"], &["y"])).starts_with("weights w lie in another file")
    );
    assert_eq!(
        error(&model(vec![plain()], &[], &[], &["y"])),
        "node a reads x, which no node produces"
    );
    let round = vec![
        node("a", "Add", &["x", "z"], &["y"]),
        node("b", "Relu", &["y"], &["z"]),
    ];
    assert_eq!(
        error(&model(round, &[], &["x"], &["z"])),
        "node a waits for its own output"
    );
    assert_eq!(
        error(&model(vec![plain()], &[], &["x"], &["x"])),
        "no layer of it depends on an input"
    );
    for bytes in [&b""[..], b"this is text, not a model", &[0x3a, 0x05, 1]] {
        assert_eq!(OnnxLayers::check(bytes), Err(CutError::NoModel), "{bytes:?}");
    }
}

#[test]
fn a_skip_connection_crosses_every_boundary_that_it_spans_and_weights_cross_none() {
    let nodes = vec![
        node("shape", "Neg", &["w"], &["c"]),
        node("late", "Add", &["b", "a"], &["y"]),
        node("first", "Conv", &["x", "w"], &["a"]),
        node("second", "Add", &["a", "c"], &["b"]),
        node("unused", "Relu", &["a"], &["z"]),
    ];
    let model = model(nodes, &[weight("w")], &["x", "w"], &["y", "a"]);
    let network = Network::of(&model).expect("a model");
    let names: Vec<&str> = network.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "late"]);
    let liveness = Liveness::of(&network);
    assert_eq!(liveness.crossing(1), ["a"]);
    assert_eq!(liveness.crossing(2), ["a", "b"]);
    let middle = partition(&network, &liveness, &value_infos(&network), 1..2).expect("a partition");
    assert_eq!(read_metadata(&middle, SENDS).as_deref(), Some("a\nb"));
    assert_eq!(read_metadata(&middle, LAST), None);
    let middle = decoded(&middle);
    let middle = Network::of(&middle).expect("a model");
    let outputs: Vec<&str> = middle.outputs.iter().map(ValueInfoProto::name).collect();
    assert_eq!(
        (
            outputs,
            middle.layers.len(),
            middle.constants.len(),
            middle.weights.len()
        ),
        (vec!["b"], 1, 1, 1)
    );
}

fn value_infos(network: &Network<'_>) -> BTreeMap<String, ValueInfo> {
    let sample = |name: &str| Tensor {
        name: name.into(),
        element: Element::F32,
        shape: vec![1],
        data: vec![0; 4],
    };
    let liveness = Liveness::of(network);
    let info = |name: &str| (name.to_owned(), ValueInfo::of_input(&sample(name), 1));
    liveness.all().map(info).collect()
}

/// Layers that read some of the values before them: numbers modulo how many there are.
fn random() -> impl Strategy<Value = (Vec<Vec<usize>>, Vec<usize>)> {
    (vec(vec(0..1000_usize, 1..4), 1..25), vec(0..1000_usize, 1..4))
}

/// Two inputs, one weight, one constant node, and the layers.
fn build(layers: &[Vec<usize>], wanted: &[usize]) -> ModelProto {
    let name = |value: usize| match value {
        0 => "x".to_owned(),
        1 => "w".to_owned(),
        2 => "c".to_owned(),
        3 => "x2".to_owned(),
        value => format!("v{}", value - 4),
    };
    let mut nodes = vec![node("constant", "Neg", &["w"], &["c"])];
    for (index, reads) in layers.iter().enumerate() {
        // The first is a layer for certain.
        let mut reads: Vec<String> = reads.iter().map(|read| name(read % (index + 4))).collect();
        reads.push("x".to_owned());
        let reads: Vec<&str> = reads.iter().map(String::as_str).collect();
        nodes.push(node(&format!("n{index}"), "Sum", &reads, &[&name(index + 4)]));
    }
    let mut outputs: Vec<String> = wanted
        .iter()
        .map(|value| name(4 + value % layers.len()))
        .collect();
    outputs.sort();
    outputs.dedup();
    let outputs: Vec<&str> = outputs.iter().map(String::as_str).collect();
    model(nodes, &[weight("w")], &["x", "x2"], &outputs)
}

proptest! {
    #[test]
    fn partitions_receive_all_that_they_read_and_together_give_the_outputs(
        (layers, wanted) in random(),
        cuts in vec(0..1000_usize, 0..5),
    ) {
        let model = build(&layers, &wanted);
        let network = Network::of(&model).expect("a model");
        let (liveness, value_infos) = (Liveness::of(&network), value_infos(&network));
        let count = network.layers.len();
        let mut ends: BTreeSet<usize> = cuts.iter().map(|cut| 1 + cut % count).collect();
        ends.insert(count);
        let mut there: BTreeSet<String> = ["x".to_owned(), "x2".to_owned()].into();
        let (mut from, mut ran) = (0, Vec::new());
        for end in ends {
            let bytes = partition(&network, &liveness, &value_infos, from..end).expect("a partition");
            let piece = decoded(&bytes);
            let piece = Network::of(&piece).expect("a partition is a model");
            for input in &piece.inputs {
                prop_assert!(there.contains(input.name()), "{} was not sent", input.name());
            }
            let given: BTreeSet<&str> = piece.outputs.iter().map(ValueInfoProto::name).collect();
            ran.extend(piece.layers.iter().map(|layer| layer.name.clone()));
            let sends = read_metadata(&bytes, SENDS).expect("says what it sends");
            let sends: BTreeSet<String> = sends.lines().map(str::to_owned).collect();
            for name in &sends {
                prop_assert!(given.contains(name.as_str()) || there.contains(name), "{name} is not there");
            }
            prop_assert_eq!(read_metadata(&bytes, LAST).is_some(), end == count);
            there = sends;
            from = end;
        }
        let all: Vec<String> = network.layers.iter().map(|layer| layer.name.clone()).collect();
        let outputs: BTreeSet<String> = network.outputs.iter().map(|output| output.name().to_owned()).collect();
        prop_assert_eq!((ran, there), (all, outputs));
    }
}
