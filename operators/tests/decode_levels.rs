//! Levels of decoding on real clips: what comes out is what a full decode gives, in the same place.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use weir_flow::{DecodeLevel, Frame, FrameSkip, GroupCounts};

use crate::common::{open, samples_hash, shipped};

/// Place, time and samples of a frame.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Seen {
    index: u64,
    pts_ms: f64,
    samples: u64,
}

impl Seen {
    fn new(frame: &Frame) -> Self {
        Self {
            index: frame.index,
            pts_ms: frame.pts_ms,
            samples: samples_hash(frame),
        }
    }
}

struct Decoded {
    seen: Vec<Seen>,
    not_decoded: u64,
    groups: GroupCounts,
}

/// Reads a clip with the level that `level` gives for the number of frames that came out so far.
fn decode(path: &Path, level: impl Fn(usize) -> DecodeLevel) -> Decoded {
    let mut source = open(path);
    let mut seen = Vec::new();
    source.set_decode_level(level(0));
    while let Some(frame) = source.next().unwrap() {
        assert!(!frame.concealed, "{frame:?}");
        seen.push(Seen::new(&frame));
        source.set_decode_level(level(seen.len()));
    }
    let counts = source.counts();
    assert_eq!(counts.damaged, 0);
    Decoded {
        seen,
        not_decoded: counts.not_decoded,
        groups: source.group_counts().unwrap(),
    }
}

/// Decodes `path` at `level`; what comes out must be in `full`, and what does not is counted.
fn check(path: &Path, full: &[Seen], level: impl Fn(usize) -> DecodeLevel) -> Decoded {
    let decoded = decode(path, level);
    for seen in &decoded.seen {
        assert_eq!(Some(seen), full.get(seen.index as usize), "{}", path.display());
    }
    assert!(decoded.seen.is_sorted_by(|one, next| one.index < next.index));
    assert_eq!(decoded.seen.len() as u64 + decoded.not_decoded, full.len() as u64);
    decoded
}

const NON_REFERENCE: DecodeLevel = DecodeLevel {
    skip: FrameSkip::NonReference,
    ..DecodeLevel::ALL
};

fn prefix(skip: FrameSkip, frames: u32) -> DecodeLevel {
    DecodeLevel {
        skip,
        prefix: Some(frames),
        ..DecodeLevel::ALL
    }
}

#[test]
fn a_clip_without_bidirectional_frames_is_cut_by_its_groups() {
    let path = shipped();
    let full = decode(&path, |_| DecodeLevel::ALL);
    assert_eq!((full.seen.len(), full.not_decoded), (300, 0));
    assert_eq!((full.groups.frames, full.groups.bidirectional), (300, 0));
    let all = check(&path, &full.seen, |_| NON_REFERENCE);
    assert_eq!((all.seen.len(), all.groups.left_out), (300, 0));
    let group = full.groups.longest_group;
    let half = check(&path, &full.seen, |_| prefix(FrameSkip::Nothing, group / 2));
    assert!((100..=200).contains(&half.seen.len()), "{}", half.seen.len());
    let keys = check(&path, &full.seen, |_| prefix(FrameSkip::NonReference, 1));
    assert!(keys.seen.len() as u32 <= 300 / group + 2, "{}", keys.seen.len());
    assert_eq!(keys.seen[0], full.seen[0]);
}

#[test]
fn a_level_may_change_at_any_frame() {
    let path = shipped();
    let full = decode(&path, |_| DecodeLevel::ALL).seen;
    let levels = [
        DecodeLevel::ALL,
        prefix(FrameSkip::Nothing, 20),
        NON_REFERENCE,
        prefix(FrameSkip::NonReference, 1),
        DecodeLevel {
            every: 2,
            ..DecodeLevel::ALL
        },
    ];
    for step in [1, 3, 17] {
        check(&path, &full, |frames| levels[frames / step % levels.len()]);
    }
}

/// A public clip with bidirectional frames, some of which others refer to.
#[test]
fn a_clip_with_bidirectional_frames_is_thinned_evenly() {
    let Ok(assets) = std::env::var("WEIR_ASSETS") else {
        println!("skipped: WEIR_ASSETS is not set");
        return;
    };
    let path = Path::new(&assets).join("videos/o4n_traffic_city_640x360.mp4");
    let full = decode(&path, |_| DecodeLevel::ALL);
    assert_eq!((full.seen.len(), full.groups.bidirectional), (693, 508));
    let thinned = check(&path, &full.seen, |_| NON_REFERENCE);
    assert_eq!(thinned.seen.len(), 352);
    assert_eq!(
        (thinned.groups.offered, thinned.groups.left_out),
        (693, 693 - 352)
    );
    let gaps = thinned.seen.windows(2).map(|pair| pair[1].index - pair[0].index);
    assert!(gaps.max() <= Some(3));
    for level in [
        prefix(FrameSkip::Nothing, 50),
        prefix(FrameSkip::NonReference, 50),
        prefix(FrameSkip::NonReference, 1),
    ] {
        check(&path, &full.seen, |_| level);
    }
    let levels = [
        DecodeLevel::ALL,
        NON_REFERENCE,
        prefix(FrameSkip::NonReference, 30),
    ];
    check(&path, &full.seen, |frames| levels[frames / 5 % 3]);
}
