//! The clip of a room that ships, and graphs that find persons in it.

use std::path::{Path, PathBuf};

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

/// A graph whose text has CLIP for the clip, with the modules `objects` and `tracks` and the transform `here` of a source.
pub(crate) fn graph(text: &str, source: &str) -> String {
    text.replace("CLIP", clip().to_str().unwrap()) + &PERSONS.replace("SOURCE", source)
}
