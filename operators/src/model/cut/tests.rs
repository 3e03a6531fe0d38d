//! Cutting without a runtime: small files made here, and random ones.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::prelude::*;
use weir_flow::{Element, Tensor};

use super::graph::Network;
use super::liveness::Liveness;
use super::partition::partition;
use super::value_info::ValueInfo;
use super::{CutError, LAST, SENDS, fields as field, read_metadata};
use crate::model::protobuf::{Field, Message};

fn message(fields: Vec<Field<'_>>) -> Vec<u8> {
    Message { fields }.write()
}

fn node(name: &str, op: &str, inputs: &[&str], outputs: &[&str]) -> Vec<Field<'static>> {
    let mut fields: Vec<Field<'static>> = Vec::new();
    for input in inputs {
        fields.push(Field::bytes(field::NODE_INPUT, input.as_bytes().to_vec()));
    }
    for output in outputs {
        fields.push(Field::bytes(field::NODE_OUTPUT, output.as_bytes().to_vec()));
    }
    fields.push(Field::bytes(field::NODE_NAME, name.as_bytes().to_vec()));
    fields.push(Field::bytes(field::NODE_OP, op.as_bytes().to_vec()));
    fields
}

fn named(number: u32, name: &str) -> Vec<u8> {
    message(vec![Field::bytes(number, name.as_bytes())])
}

/// A file of nodes, weights, inputs and outputs.
fn model(nodes: Vec<Vec<Field<'static>>>, weights: &[Vec<u8>], inputs: &[&str], outputs: &[&str]) -> Vec<u8> {
    let mut fields: Vec<Field<'_>> = Vec::new();
    for node in nodes {
        fields.push(Field::bytes(field::GRAPH_NODE, message(node)));
    }
    for weight in weights {
        fields.push(Field::bytes(field::GRAPH_INITIALIZER, weight.clone()));
    }
    for input in inputs {
        fields.push(Field::bytes(field::GRAPH_INPUT, named(field::VALUE_NAME, input)));
    }
    for output in outputs {
        fields.push(Field::bytes(
            field::GRAPH_OUTPUT,
            named(field::VALUE_NAME, output),
        ));
    }
    message(vec![Field::bytes(field::MODEL_GRAPH, message(fields))])
}

fn weight(name: &str) -> Vec<u8> {
    named(field::TENSOR_NAME, name)
}

fn error(bytes: &[u8]) -> String {
    Network::read(bytes).map(|_| ()).expect_err("refused").to_string()
}

#[test]
fn a_model_that_cannot_be_cut_is_one_error_with_the_cause() {
    let plain = || node("a", "Relu", &["x"], &["y"]);
    let with_attribute = |number| {
        let mut choice = node("choice", "If", &["x"], &["y"]);
        let inner = message(vec![Field::bytes(number, Vec::new())]);
        choice.push(Field::bytes(field::NODE_ATTRIBUTE, inner));
        model(vec![choice], &[], &["x"], &["y"])
    };
    for number in [field::ATTRIBUTE_GRAPH, field::ATTRIBUTE_GRAPHS] {
        assert_eq!(
            error(&with_attribute(number)),
            "node choice (If) holds a graph of its own: a model with control flow cannot be cut"
        );
    }
    let away = message(vec![
        Field::bytes(field::TENSOR_NAME, &b"w"[..]),
        Field::varint(field::TENSOR_LOCATION, field::EXTERNAL),
    ]);
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
        assert_eq!(error(bytes), CutError::NoModel.to_string(), "{bytes:?}");
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
    let bytes = model(nodes, &[weight("w")], &["x", "w"], &["y", "a"]);
    let network = Network::read(&bytes).expect("a model");
    let names: Vec<&str> = network.layers.iter().map(|layer| layer.name.as_str()).collect();
    assert_eq!(names, ["first", "second", "late"]);
    let liveness = Liveness::of(&network);
    assert_eq!(liveness.crossing(1), ["a"]);
    assert_eq!(liveness.crossing(2), ["a", "b"]);
    let middle = partition(&network, &liveness, &value_infos(&network), 1..2).expect("a partition");
    assert_eq!(read_metadata(&middle, SENDS).as_deref(), Some("a\nb"));
    assert_eq!(read_metadata(&middle, LAST), None);
    let middle = Network::read(&middle).expect("a model");
    let outputs: Vec<&str> = middle.outputs.iter().map(|(name, _)| *name).collect();
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
fn build(layers: &[Vec<usize>], wanted: &[usize]) -> Vec<u8> {
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
        let bytes = build(&layers, &wanted);
        let network = Network::read(&bytes).expect("a model");
        let (liveness, value_infos) = (Liveness::of(&network), value_infos(&network));
        let count = network.layers.len();
        let mut ends: BTreeSet<usize> = cuts.iter().map(|cut| 1 + cut % count).collect();
        ends.insert(count);
        let mut there: BTreeSet<String> = ["x".to_owned(), "x2".to_owned()].into();
        let (mut from, mut ran) = (0, Vec::new());
        for end in ends {
            let bytes = partition(&network, &liveness, &value_infos, from..end).expect("a partition");
            let piece = Network::read(&bytes).expect("a partition is a model");
            for (input, _) in &piece.inputs {
                prop_assert!(there.contains(*input), "{input} was not sent");
            }
            let given: BTreeSet<&str> = piece.outputs.iter().map(|(name, _)| *name).collect();
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
        let outputs: BTreeSet<String> = network.outputs.iter().map(|(name, _)| (*name).to_owned()).collect();
        prop_assert_eq!((ran, there), (all, outputs));
    }
}
