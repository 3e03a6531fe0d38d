//! The clip of a room that ships, and graphs that find persons in it.

use std::path::{Path, PathBuf};

/// The clip as a source of five frames a second, none of which is dropped.
const ROOM: &str = r#"
[app]
name = "room"
slo = "10s"

[sources.room]
uri = "CLIP"
mode = "lossless"
sample = "5fps"
"#;

/// Detector, tracker and a zone of the whole picture.
const PERSONS: &str = r#"
[models.detector]
model = "embedded:live-detector"
batch = [1, 2, 4]

[modules.objects]
operator = "detect"
model = "detector"
inputs = ["SOURCE"]

[modules.tracks]
operator = "track"
inputs = ["objects"]

[transforms.here]
type = "zone"
inputs = ["tracks"]
classes = ["person"]
points = [[0, 0], [1, 0], [1, 1], [0, 1]]
"#;

pub(crate) fn clip() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../videos/live-room.mp4")
}

/// A graph of the clip as the source `room`. `text` may begin with more keys of that source.
pub(crate) fn of_room(text: &str) -> String {
    graph(&[ROOM, text].concat(), "room")
}

/// A graph whose text has CLIP for the clip, with the modules `objects` and `tracks` and the transform `here` of a source.
pub(crate) fn graph(text: &str, source: &str) -> String {
    text.replace("CLIP", clip().to_str().unwrap()) + &PERSONS.replace("SOURCE", source)
}
