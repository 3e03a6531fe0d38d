//! Edited inputs on the readers of ONNX files and their metadata.

use std::fs;

use super::cut;
use super::edit::{Leading, free_batch};
use super::external::{has_external_data, with_weights};
use super::metadata::with_metadata;
use super::protobuf::{Field, Message};
use crate::edited::{MemoryBound, fuzz};
use crate::heads::names;

/// A field takes forty bytes where two were read, in each of some copies.
const FIELDS: MemoryBound = MemoryBound {
    base: 4 << 20,
    per_byte: 400,
};

fn message(fields: Vec<Field<'_>>) -> Vec<u8> {
    Message { fields }.write()
}

/// A small net with metadata, weights within and beside the file, and a shape that fixes the batch.
fn net() -> Vec<u8> {
    let text = |number, text: &'static str| Field::bytes(number, text.as_bytes());
    let entry = |number, key, value| Field::bytes(number, message(vec![text(1, key), text(2, value)]));
    let value = |number, name: &'static str| {
        let dims = [1, 3, 8].map(|size| Field::bytes(1, message(vec![Field::varint(1, size)])));
        let tensor = message(vec![Field::varint(1, 1), Field::bytes(2, message(dims.into()))]);
        let kind = message(vec![Field::bytes(1, tensor)]);
        Field::bytes(number, message(vec![text(1, name), Field::bytes(2, kind)]))
    };
    let shape = message(vec![
        Field::varint(1, 2),
        Field::varint(2, 7),
        text(8, "shape"),
        Field::bytes(9, [1_i64.to_le_bytes(), (-1_i64).to_le_bytes()].concat()),
    ]);
    let weights = message(vec![
        Field::varint(1, 3),
        Field::varint(2, 1),
        text(8, "w"),
        entry(13, "location", "w.bin"),
        entry(13, "offset", "2"),
        entry(13, "length", "12"),
        Field::varint(14, 1),
    ]);
    let node = |op, name, inputs: [&'static str; 2], output| {
        let attribute = Field::bytes(
            5,
            message(vec![text(1, "axis"), Field::varint(3, 1), Field::varint(20, 2)]),
        );
        let fields = vec![
            text(1, inputs[0]),
            text(1, inputs[1]),
            text(2, output),
            text(3, name),
            text(4, op),
            attribute,
        ];
        Field::bytes(1, message(fields))
    };
    let graph = message(vec![
        node("Mul", "scale", ["images", "w"], "a"),
        node("Reshape", "flat", ["a", "shape"], "y"),
        text(2, "g"),
        Field::bytes(5, shape),
        Field::bytes(5, weights),
        value(11, "images"),
        value(12, "y"),
        value(13, "a"),
    ]);
    message(vec![
        Field::varint(1, 8),
        text(2, "weir"),
        Field::bytes(7, graph),
        Field::bytes(8, message(vec![text(1, ""), Field::varint(2, 17)])),
        entry(14, "names", "{0: 'person', 1: \"driver's cab\"}"),
        entry(14, "task", "detect"),
        entry(14, "character", "a\nb\nc"),
    ])
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
        if let Some(message) = Message::read(bytes) {
            let again = message.write();
            assert_eq!(Message::read(&again).as_ref(), Some(&message));
        }
        let _ = with_metadata(&weir_flow::Settings::default(), bytes);
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
