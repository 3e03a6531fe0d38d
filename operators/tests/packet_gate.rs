//! Packets that a gate holds back, on real clips: what comes out is what a full decode gives, in the same place.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use weir_flow::PacketGate;

use crate::common::{open, samples_hash, shipped};

/// Wants the packets of `moves` in each `of`, and of the others every second key frame.
#[derive(Debug, Default)]
struct Pattern {
    moves: u64,
    of: u64,
    packets: AtomicU64,
    keys: AtomicU64,
}

impl PacketGate for Pattern {
    fn wants(&self, bytes: u64, key: bool, _at_ms: f64) -> bool {
        assert!(bytes > 0);
        let packet = self.packets.fetch_add(1, Ordering::Relaxed);
        if packet % self.of < self.moves {
            return true;
        }
        key && self.keys.fetch_add(1, Ordering::Relaxed).is_multiple_of(2)
    }
}

/// Index, media time and samples of each picture that comes out, and the frames that were still.
fn decode(path: &Path, gate: Option<Pattern>) -> (Vec<(u64, f64, u64)>, u64) {
    let mut source = open(path);
    if let Some(gate) = gate {
        source.gate_packets(Arc::new(gate));
    }
    let mut seen = Vec::new();
    while let Some(frame) = source.next().unwrap() {
        assert!(!frame.concealed, "{frame:?}");
        seen.push((frame.index, frame.pts_ms, samples_hash(&frame)));
    }
    let counts = source.counts();
    assert_eq!((counts.damaged, counts.not_decoded), (0, 0));
    (seen, counts.still)
}

fn check(path: &Path) {
    let (full, still) = decode(path, None);
    assert_eq!(still, 0);
    for (moves, of) in [(0, 1), (1, 1), (1, 40), (20, 90), (77, 200), (3, 500)] {
        let pattern = Pattern {
            moves,
            of,
            ..Pattern::default()
        };
        let (seen, still) = decode(path, Some(pattern));
        let case = format!("{}: {moves} of {of}", path.display());
        assert_eq!(seen.len() as u64 + still, full.len() as u64, "{case}");
        assert!(seen.is_sorted_by(|one, next| one.0 < next.0), "{case}");
        for picture in &seen {
            assert_eq!(Some(picture), full.get(picture.0 as usize), "{case}");
        }
        assert_eq!(still == 0, moves == of, "{case}");
    }
}

#[test]
fn pictures_after_packets_that_were_held_back_are_those_of_a_full_decode() {
    check(&shipped());
}

/// A public clip with bidirectional frames and key frames eight seconds apart.
#[test]
fn bidirectional_frames_that_were_held_back_come_out_in_their_places() {
    let Ok(assets) = std::env::var("WEIR_ASSETS") else {
        println!("skipped: WEIR_ASSETS is not set");
        return;
    };
    check(&Path::new(&assets).join("videos/o4n_traffic_city_640x360.mp4"));
}
