//! Clips that ship, whose truth says which objects of two frames are the same: tracked, they have about as many tracks as
//! objects, and an object keeps its track, with all frames and with half of them missing.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::sync::Arc;

use weir_analytics::{Detection, FrameTime, TrackIds, Tracker, TrackerSettings};
use weir_flow::Rect;
use weir_truth::{Truth, TruthObject};

use crate::common::half;

/// Classes of objects that a tracker can follow: neither parts of objects nor objects on a display.
const FOLLOWED: &[&str] = &[
    "person", "car", "van", "bus", "bicycle", "player", "vehicle", "crate",
];

#[derive(Debug, Default)]
struct Tracked {
    /// Ids of the truth that were seen in two frames or more.
    objects: BTreeSet<u64>,
    tracks: BTreeSet<u64>,
    /// Number of times that an object continued in another track.
    switches: usize,
    /// Objects in all frames, with a track or without.
    seen: usize,
}

/// Follows the objects of a clip that are plain to see, in the frames that are `kept`.
fn track(clip: &str, kept: impl Fn(u64) -> bool) -> Tracked {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../videos/{clip}.truth.jsonl"));
    let truth = Truth::read(BufReader::new(File::open(path).unwrap())).unwrap();
    let (mut tracker, mut ids) = (Tracker::new(TrackerSettings::default()), TrackIds::default());
    let mut result = Tracked::default();
    let mut last: BTreeMap<u64, u64> = BTreeMap::new();
    for frame in truth.frames.iter().filter(|frame| kept(frame.frame)) {
        let is_followed = |object: &&TruthObject| !object.ignore && FOLLOWED.contains(&&*object.class);
        let objects: Vec<&TruthObject> = frame.objects.iter().filter(is_followed).collect();
        let classes: Vec<Arc<str>> = objects
            .iter()
            .map(|object| object.class.as_str().into())
            .collect();
        let detection = |(object, class): (&&TruthObject, _)| {
            let [x0, y0, x1, y1] = object.r#box;
            Detection {
                rect: Rect::new(x0, y0, x1, y1),
                score: 1.0,
                class,
                appearance: None,
                candidate: false,
            }
        };
        let detections: Vec<Detection<'_>> = objects.iter().zip(&classes).map(detection).collect();
        let time = FrameTime {
            pts_ms: frame.pts_ms,
            time_ms: frame.pts_ms as u64,
        };
        let (tracks, _) = tracker.on_frame(time, &detections, &mut ids);
        result.seen += objects.len();
        for (object, track) in objects.iter().zip(tracks) {
            let Some(id) = track.and_then(|track| tracker.id(track)) else {
                continue;
            };
            result.objects.insert(object.id);
            result.tracks.insert(id);
            let before = last.insert(object.id, id);
            result.switches += usize::from(before.is_some_and(|before| before != id));
        }
    }
    result
}

/// At most so many tracks more than objects, and so many switches.
#[track_caller]
fn check(clip: &str, kept: impl Fn(u64) -> bool, more: usize, switches: usize) {
    let result = track(clip, kept);
    assert!(result.objects.len() > 20 && result.seen > 2000, "{result:?}");
    assert!(
        result.tracks.len() <= result.objects.len() + more && result.switches <= switches,
        "{clip}: {} tracks of {} objects, {} switches",
        result.tracks.len(),
        result.objects.len(),
        result.switches
    );
}

#[test]
fn objects_of_the_game_keep_their_tracks() {
    check("game-match", |_| true, 2, 4);
    check("game-match", half, 2, 6);
}

#[test]
fn objects_of_the_street_keep_their_tracks_but_where_they_are_hidden_for_long() {
    check("street-day", |_| true, 8, 18);
    check("street-day", half, 8, 18);
}
