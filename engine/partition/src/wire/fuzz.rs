//! Edited messages on the readers of the wire.

#[path = "../../../../tests/shared/edited.rs"]
mod edited;

use std::io::Cursor;

use edited::{MemoryBound, fuzz};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;

use super::tests::{message, written};
use super::*;
use crate::carrier::Header;

/// Reading allocates a megabyte ahead at most, and a list has room for twice its entries.
const BOUND: MemoryBound = MemoryBound {
    base: 4 << 20,
    per_byte: 64,
};

/// Messages of all kinds, as they are written.
fn seeds() -> Vec<Vec<u8>> {
    let (mut runner, messages) = (TestRunner::deterministic(), message());
    let draw = |_| messages.new_tree(&mut runner).expect("a message").current();
    (0..120).map(draw).map(|message| written(&message)).collect()
}

#[test]
fn fuzz_wire() {
    let limits = Limits {
        max_message_bytes: 8 << 20,
        max_small_bytes: 1 << 10,
    };
    fuzz("wire", 2_000, BOUND, seeds(), &[], |bytes| {
        let mut from = Cursor::new(bytes);
        while let Ok(message) = read_message(&mut from, limits) {
            let again = written(&message);
            assert_eq!(wire_bytes(&message), again.len() as u64);
            let read = read_message(&mut Cursor::new(again), Limits::default());
            assert_eq!(read.expect("what was read can be sent"), message);
        }
    });
}

#[test]
fn fuzz_wire_preamble() {
    let mut preamble = Vec::new();
    write_preamble(&mut preamble).unwrap();
    let header = Header {
        connection: 7,
        number: 1,
        is_urgent: true,
        is_last: false,
    };
    let seeds = vec![preamble.clone(), header.bytes()];
    fuzz("wire-preamble", 500, BOUND, seeds, &[], |bytes| {
        if read_preamble(&mut Cursor::new(bytes)).is_ok() {
            assert!(bytes.starts_with(&preamble));
        }
        if let Some(header) = Header::read(bytes) {
            assert_eq!(header.bytes(), bytes);
        }
    });
}
