//! Recordings that are joined while they are played: the rest, and then what came before, are all of their frames.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_flow::{Joined, Source};

use crate::common::{open, samples_hash, shipped};

/// Hashes of the samples of all frames that come.
fn frames(source: &mut dyn Source) -> Vec<u64> {
    std::iter::from_fn(|| source.next().unwrap())
        .map(|frame| samples_hash(&frame))
        .collect()
}

fn join(path: &Path, fraction: f64) -> (Joined, Vec<u64>) {
    let mut source = open(path);
    let joined = source.join_at(fraction).unwrap();
    (joined, frames(&mut *source))
}

#[test]
fn what_is_played_from_a_place_and_then_up_to_it_is_the_whole_clip() {
    let path = shipped();
    let full = frames(&mut *open(&path));
    assert_eq!(full.len(), 300);
    let mut places = Vec::new();
    for tenths in 0..9 {
        let fraction = f64::from(tenths) / 10.0 + 0.03;
        let (Joined { passed, waited }, rest) = join(&path, fraction);
        let place = (fraction * 300.0) as u64;
        assert_eq!(passed - waited, place, "the time until a key frame passes");
        let mut source = open(&path);
        source.end_at(passed);
        let before = frames(&mut *source);
        assert_eq!(before.len() as u64, passed, "{fraction}");
        assert_eq!([before, rest].concat(), full, "{fraction}");
        places.push(passed);
    }
    places.dedup();
    assert!(places.len() > 2, "the clip has several key frames: {places:?}");
}

#[test]
fn a_place_without_a_key_frame_after_it_passes_over_everything() {
    let (joined, rest) = join(&shipped(), 0.999);
    assert_eq!((joined.passed, joined.waited), (300, 1));
    assert!(rest.is_empty());
}
