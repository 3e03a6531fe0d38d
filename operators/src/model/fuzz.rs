//! Edited inputs on the readers of ONNX files and their metadata.

use std::fs;

use prost::Message;

use super::cut;
use super::edit::{Leading, free_batch};
use super::external::{has_external_data, with_weights};
use super::metadata::of_file;
use super::onnx::{
    AttributeProto, Dimension, EXTERNAL, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    StringStringEntryProto, TensorProto, TypeProto, ValueInfoProto, data_type,
};
use crate::edited::{MemoryBound, fuzz};
use crate::heads::names;

/// An empty tensor takes two bytes of a file and 352 of memory, in a list that doubles as it grows.
const FIELDS: MemoryBound = MemoryBound {
    base: 4 << 20,
    per_byte: 400,
};

/// A small net with metadata, weights within and beside the file, and a shape that fixes the batch.
fn net() -> Vec<u8> {
    let text = |text: &str| Some(text.to_owned());
    let value = |name| ValueInfoProto {
        name: text(name),
        r#type: Some(TypeProto::tensor(
            data_type::FLOAT,
            [1, 3, 8].map(Dimension::size).into(),
        )),
        ..ValueInfoProto::default()
    };
    let shape = TensorProto {
        dims: vec![2],
        data_type: Some(data_type::INT64),
        name: text("shape"),
        raw_data: Some([1_i64.to_le_bytes(), (-1_i64).to_le_bytes()].concat().into()),
        ..TensorProto::default()
    };
    let weights = TensorProto {
        dims: vec![3],
        data_type: Some(data_type::FLOAT),
        name: text("w"),
        external_data: [("location", "w.bin"), ("offset", "2"), ("length", "12")]
            .map(|(key, value)| StringStringEntryProto::new(key, value))
            .into(),
        data_location: Some(EXTERNAL),
        ..TensorProto::default()
    };
    let node = |op, name, inputs: [&str; 2], output: &str| NodeProto {
        input: inputs.map(str::to_owned).into(),
        output: vec![output.to_owned()],
        name: text(name),
        op_type: text(op),
        attribute: vec![AttributeProto {
            name: text("axis"),
            i: Some(1),
            r#type: Some(2),
            ..AttributeProto::default()
        }],
        ..NodeProto::default()
    };
    let graph = GraphProto {
        node: vec![
            node("Mul", "scale", ["images", "w"], "a"),
            node("Reshape", "flat", ["a", "shape"], "y"),
        ],
        name: text("g"),
        initializer: vec![shape, weights],
        input: vec![value("images")],
        output: vec![value("y")],
        value_info: vec![value("a")],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        producer_name: text("weir"),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            domain: text(""),
            version: Some(17),
        }],
        metadata_props: [
            ("names", "{0: 'person', 1: \"driver's cab\"}"),
            ("task", "detect"),
            ("character", "a\nb\nc"),
        ]
        .map(|(key, value)| StringStringEntryProto::new(key, value))
        .into(),
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

#[test]
fn fuzz_onnx() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("m.onnx");
    fs::write(&path, b"").unwrap();
    fs::write(folder.path().join("w.bin"), [5; 40]).unwrap();
    let seeds = vec![
        net(),
        net(),
        include_bytes!("../../../apps/weir/tests/data/probe/ends.onnx").to_vec(),
    ];
    assert!(with_weights(seeds[0].clone(), &path).is_ok());
    assert!(free_batch(&seeds[0], Leading::Keep).is_some());
    let words: [&[u8]; 5] = [
        b"w.bin",
        b"../w.bin",
        b"images",
        b"\x3a",
        b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    ];
    fuzz("onnx", 1_000, FIELDS, seeds, &words, |bytes| {
        if let Ok(model) = ModelProto::decode(bytes) {
            let again = model.encode_to_vec();
            let read = ModelProto::decode(&*again).unwrap();
            assert_eq!(read.encode_to_vec(), again);
        }
        let _ = of_file(bytes);
        let _ = cut::OnnxLayers::check(bytes);
        for leading in [Leading::Keep, Leading::Infer] {
            let _ = free_batch(bytes, leading);
        }
        let is_outside = has_external_data(bytes);
        if let Ok(inside) = with_weights(bytes.to_vec(), &path)
            && is_outside == Some(true)
        {
            assert_eq!(has_external_data(&inside), Some(false));
        }
    });
}

#[test]
fn fuzz_class_names() {
    let seeds = [
        "{0: 'person', 1: \"driver's cab\"}",
        "['it\\'s', 'b\\\\c', '\\u00e9\\x41']",
        "{'1': 'b', '0': 7, }",
    ];
    let words: Vec<&[u8]> = ["'", "\"", ":", ",", "\\", "\\u", "{", "}", "65535", "\u{1f697}"]
        .map(str::as_bytes)
        .into();
    let seeds = seeds.map(|seed| seed.as_bytes().to_vec()).to_vec();
    // A class without a name has an empty one.
    let bound = MemoryBound {
        base: 8 << 20,
        per_byte: 160,
    };
    fuzz("class-names", 4_000, bound, seeds, &words, |bytes| {
        if let Some(names) = names::parse(&String::from_utf8_lossy(bytes)) {
            assert!(
                names
                    .iter()
                    .all(|name| name.chars().count() <= 256 && !name.contains(char::is_control))
            );
        }
    });
}
