//! However the text of a graph is garbled, reading it gives a graph or problems, never a panic.

use crate::common::{VALID, read};

/// SplitMix64: enough to garble bytes, and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound.max(1) as u64) as usize
    }
}

/// Bytes that mean something to TOML, to variables or to paths, and some that do not.
const BYTES: &[u8] = b"[]{}\"'=.,#\\\n\t -_$:/0159aetz\xc3\xa9\x00\xff";

fn garble(text: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = text.to_vec();
    for _ in 0..=random.below(6) {
        let at = random.below(bytes.len());
        let end = (at + 1 + random.below(40)).min(bytes.len());
        match random.below(5) {
            0 => drop(bytes.drain(at..end)),
            1 => {
                let twice = bytes[at..end].to_vec();
                bytes.splice(at..at, twice);
            }
            2 => {
                let moved: Vec<u8> = bytes.drain(at..end).collect();
                let to = random.below(bytes.len());
                bytes.splice(to..to, moved);
            }
            3 => {
                let byte = BYTES[random.below(BYTES.len())];
                bytes.insert(at.min(bytes.len()), byte);
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = BYTES[random.below(BYTES.len())];
                }
            }
        }
    }
    bytes
}

#[test]
fn a_garbled_graph_never_panics() {
    for seed in 0..1_500 {
        let garbled = garble(VALID.as_bytes(), &mut Random(seed));
        let text = String::from_utf8_lossy(&garbled).into_owned();
        let outcome = std::panic::catch_unwind(|| match read(&text) {
            Ok(graph) => drop((graph.to_mermaid(), graph.to_dot())),
            Err(problems) => {
                assert!(problems.count() > 0);
                let lines = text.split('\n').count();
                assert!(
                    problems
                        .iter()
                        .all(|problem| problem.line >= 1 && problem.line <= lines)
                );
            }
        });
        assert!(outcome.is_ok(), "seed {seed}:\n{text}");
    }
}

#[test]
fn omitting_or_repeating_any_line_never_panics() {
    let lines: Vec<&str> = VALID.lines().collect();
    for at in 0..lines.len() {
        let mut fewer = lines.clone();
        fewer.remove(at);
        drop(read(&fewer.join("\n")));
        let mut more = lines.clone();
        more.insert(at, lines[at]);
        drop(read(&more.join("\n")));
        drop(read(&lines[..at].join("\n")));
    }
}

#[test]
fn deep_nesting_is_refused() {
    for open in ["[", "{a="] {
        let toml = VALID.replacen("slots = 2", &format!("slots = {}", open.repeat(50_000)), 1);
        assert!(read(&toml).is_err());
    }
}
