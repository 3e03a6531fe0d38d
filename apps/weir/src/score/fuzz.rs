//! Edited lines on the readers of events and of ground truth.

use weir_truth::Truth;

use super::event::read_events;
use crate::edited::{MemoryBound, fuzz};

/// Values of JSON in trees, and pieces of lines.
const LINES: MemoryBound = MemoryBound {
    base: 1 << 20,
    per_byte: 400,
};

#[test]
fn fuzz_event_lines() {
    let frame = r#"{"stream":"s","frame":0,"pts_ms":40.0,"objects":[{"class":"car","score":0.9,"box":[0,0,9,9],"track":{"id":7},
        "attributes":{"plate":{"text":"A1","score":0.5},"face":{"match":null,"cosine":null},"points":[{"at":{"x":1.0,"y":2.0},"score":0.5}]}}]}"#
        .replace('\n', "");
    let header = r#"{"type":"header","run":"a"}"#;
    let incident = r#"{"type":"incident","id":"s/z/1","transform":"z","phase":"began","time_ms":5}"#;
    let seeds = vec![
        format!("{header}\n{frame}\n{incident}\n"),
        format!(
            "{frame}\n{}\n{header}\n",
            frame.replace("\"frame\":0", "\"frame\":1")
        ),
    ];
    let seeds = seeds.into_iter().map(String::into_bytes).collect();
    let words: [&[u8]; 10] = [
        b"\n",
        b"\"",
        b"{",
        b"}",
        b"[",
        b"]",
        b"1e999",
        b"-1",
        b"18446744073709551616",
        b"null",
    ];
    fuzz("event-lines", 1_500, LINES, seeds, &words, |bytes| {
        if let Err(error) = read_events(bytes) {
            assert!(!error.to_string().is_empty());
        }
    });
}

#[test]
fn fuzz_truth_lines() {
    let truth = include_str!("../../../../videos/street-day.truth.jsonl");
    let few: Vec<&str> = truth.lines().take(3).collect();
    let seeds = vec![few.join("\n").into_bytes()];
    assert!(Truth::read(&seeds[0][..]).is_ok());
    let words: [&[u8]; 8] = [b"\n", b"\"", b"{", b"}", b"[", b"]", b"1e999", b"-1"];
    fuzz("truth-lines", 300, LINES, seeds, &words, |bytes| {
        if let Ok(truth) = Truth::read(bytes) {
            let mut again = Vec::new();
            truth.write(&mut again).expect("written");
            assert!(Truth::read(&again[..]).is_ok(), "what was read can be written");
        }
    });
}
