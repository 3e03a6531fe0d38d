//! A folder with a graph that needs no model, and clips made on the spot.

use std::path::PathBuf;
use std::process::{Command, Output};

use tempfile::TempDir;
use weir_flow::{Delivery, Frame, Image, Settings, Value};
use weir_operators::sinks::sink;

use super::refuses;

/// One module on an emulated device, event lines and a video: needs no model.
pub(crate) const GRAPH: &str = r#"
[app]
name = "bad-input"
slo = "10s"

[sources.camera]
uri = "${CLIP:-not-there.mp4}"

[models.any]
device = "emulated:any"
profile = { "1" = "1ms" }

[modules.look]
operator = "emulate"
model = "any"
inputs = ["camera"]

[sinks.events]
type = "jsonl"
path = "${EVENTS:-out/events.jsonl}"
inputs = ["look"]

[sinks.video]
type = "mp4"
path = "${VIDEO:-out/video.mp4}"
inputs = ["look"]
"#;

/// A folder with the graph in it and the clips that a test wants.
pub(crate) struct Place(TempDir);

impl Place {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
        Self(folder)
    }

    pub(crate) fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A good clip of `frames` pictures.
    pub(crate) fn clip(&self, name: &str, frames: u64) {
        let path = Value::Text(self.at(name).display().to_string());
        let settings = Settings([("path".to_owned(), path)].into());
        let mut sink = sink("mp4", &settings).unwrap().open().unwrap();
        for index in 0..frames {
            let shade = (index * 7 % 256) as u8;
            let image = Image::from_rgb(64, 48, vec![shade; 64 * 48 * 3]);
            let delivery = Delivery::new("clip", Frame::new(index, index as f64 * 40.0, image));
            sink.accept(&delivery).unwrap();
        }
        sink.finish().unwrap();
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(arguments)
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", self.at("cache"))
            .env_remove("WEIR_MODEL_MIRROR")
            .env_remove("RUST_LOG");
        command
    }

    pub(crate) fn weir(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    pub(crate) fn report(&self) -> serde_json::Value {
        super::report(&self.at("report.json"))
    }

    /// Lines of delivered frames, of all runs.
    pub(crate) fn lines(&self) -> usize {
        let text = std::fs::read_to_string(self.at("out/events.jsonl")).unwrap_or_default();
        text.lines()
            .filter(|line| line.contains(r#""type":"frame""#))
            .count()
    }
}

/// One line that begins with "error:", has all the words, and the exit code of what the user can mend.
pub(crate) fn refused(output: &Output, words: &[&str]) {
    let said = refuses(output, words);
    assert!(said.starts_with("error: "), "{said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
