//! Outputs of a run never replace its inputs, another output, or an earlier file by accident.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;
use weir_flow::{Delivery, Frame, Image, Settings, StopFlag};
use weir_operators::media::{SourceOptions, source};
use weir_operators::sinks::sink;

use crate::common::{refuses, signal, stderr};

/// One module on an emulated device, event lines and a video: needs no model.
const GRAPH: &str = r#"
[app]
name = "outputs"
slo = "10s"

[sources.camera]
uri = "${CLIP:-clip.mp4}"

[models.any]
device = "emulated:any"
profile = "profile.toml"

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
path = "${VIDEO}"
inputs = ["look"]
"#;

/// A folder with the graph, its profile and a clip.
struct Place(TempDir);

impl Place {
    fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap());
        std::fs::write(place.at("graph.toml"), GRAPH).unwrap();
        std::fs::write(place.at("profile.toml"), "[durations]\n1 = \"1ms\"\n").unwrap();
        place.clip("clip.mp4", 20);
        place
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn clip(&self, name: &str, frames: u64) {
        let path = weir_flow::Value::Text(self.at(name).display().to_string());
        let settings = Settings([("path".to_owned(), path)].into());
        let mut sink = sink("mp4", &settings).unwrap().open().unwrap();
        for index in 0..frames {
            let image = Image::from_rgb(64, 48, vec![(index * 7 % 256) as u8; 64 * 48 * 3]);
            let delivery = Delivery::new("clip", Frame::new(index, index as f64 * 40.0, image));
            sink.accept(&delivery).unwrap();
        }
        sink.finish().unwrap();
    }

    fn command(&self, arguments: &str, variables: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
        command
            .args(arguments.split(' '))
            .current_dir(self.0.path())
            .env("XDG_CACHE_HOME", self.at("cache"))
            .env_remove("WEIR_MODEL_MIRROR")
            .env_remove("RUST_LOG")
            .env("VIDEO", "out/{stream}.mp4")
            .envs(variables.iter().copied());
        command
    }

    fn weir(&self, arguments: &str, variables: &[(&str, &str)]) -> Output {
        self.command(arguments, variables).output().unwrap()
    }

    fn done(&self, arguments: &str, variables: &[(&str, &str)]) {
        let output = self.weir(arguments, variables);
        assert!(output.status.success(), "{}", stderr(&output));
    }

    /// All files with their bytes, by path.
    fn files(&self) -> Vec<(PathBuf, Vec<u8>)> {
        fn walk(folder: &Path, found: &mut Vec<(PathBuf, Vec<u8>)>) {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    walk(&path, found);
                } else {
                    let bytes = std::fs::read(&path).unwrap();
                    found.push((path, bytes));
                }
            }
        }
        let mut found = Vec::new();
        walk(self.0.path(), &mut found);
        found.sort();
        found
    }

    /// The command is refused with these words, and changes no file.
    fn keeps(&self, arguments: &str, variables: &[(&str, &str)], words: &[&str]) {
        let before = self.files();
        let said = refuses(&self.weir(arguments, variables), words);
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(self.files(), before, "{arguments}");
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.at(name)).unwrap();
        text.lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }

    fn frames(&self, name: &str) -> u64 {
        let path = self.at(name);
        let factory = source(path.to_str().unwrap(), SourceOptions::default());
        let mut source = factory.open(&StopFlag::default()).unwrap();
        let mut frames = 0;
        while source.next().unwrap().is_some() {
            frames += 1;
        }
        frames
    }
}

const FAST: &str = "replay graph.toml clip.mp4 --speed max";

#[test]
fn no_output_is_written_over_an_input() {
    let place = Place::new();
    symlink("clip.mp4", place.at("soft.mp4")).unwrap();
    std::fs::hard_link(place.at("clip.mp4"), place.at("hard.jsonl")).unwrap();
    std::fs::write(place.at("weir.toml"), "sink_events = 100\n").unwrap();
    let choose = "choose another path";
    // The finding: a sink whose name for the stream is that of the clip, in the folder of the clip.
    let words = ["sink video", "clip.mp4", "source clip", choose];
    place.keeps(&format!("{FAST} --out ."), &[], &words);
    place.clip("camera.mp4", 5);
    let camera = [("VIDEO", "{stream}.mp4"), ("CLIP", "camera.mp4")];
    place.keeps(
        "run graph.toml",
        &camera,
        &["sink video", "camera.mp4", "source camera"],
    );
    place.keeps(
        "run graph.toml",
        &[("VIDEO", "./x/../clip.mp4")],
        &["sink video", "source camera"],
    );
    place.keeps(
        "run graph.toml",
        &[("VIDEO", "soft.mp4")],
        &["soft.mp4", "as", "clip.mp4"],
    );
    place.keeps(
        "run graph.toml",
        &[("EVENTS", "hard.jsonl")],
        &["sink events", "source camera"],
    );
    place.keeps(
        "run graph.toml",
        &[("EVENTS", "graph.toml")],
        &["sink events", "the graph"],
    );
    place.keeps(
        "run graph.toml",
        &[("EVENTS", "profile.toml")],
        &["sink events", "the graph"],
    );
    place.keeps(
        "run graph.toml",
        &[("EVENTS", "weir.toml")],
        &["sink events", "the settings file"],
    );
    for option in ["--report", "--record"] {
        for (input, what) in [
            ("clip.mp4", "source clip"),
            ("graph.toml", "the graph"),
            ("weir.toml", "settings"),
        ] {
            place.keeps(&format!("{FAST} {option} {input}"), &[], &[option, what, choose]);
        }
    }
    let truth = "score graph.toml clip.mp4 --truth truth.jsonl --report truth.jsonl";
    let header = r#"{"truth":1,"world":"card","seed":1,"width":64,"height":48,"fps":25.0,"frames":1}"#;
    let frame = r#"{"frame":0,"pts_ms":0.0,"objects":[]}"#;
    std::fs::write(place.at("truth.jsonl"), format!("{header}\n{frame}\n")).unwrap();
    place.keeps(truth, &[], &["--report", "truth.jsonl", choose]);
    std::fs::write(place.at("lines.jsonl"), "").unwrap();
    let events = "score --events lines.jsonl --truth truth.jsonl --report lines.jsonl";
    place.keeps(events, &[], &["--report", "lines.jsonl", choose]);
}

#[test]
fn no_two_outputs_are_one_file() {
    let place = Place::new();
    let both = ["would both write", "give each a file of its own"];
    place.keeps(&format!("{FAST} --report r.json --record r.json"), &[], &both);
    place.keeps(
        &format!("{FAST} --record ./r.json"),
        &[("EVENTS", "r.json")],
        &both,
    );
    std::fs::create_dir(place.at("a")).unwrap();
    symlink("a", place.at("b")).unwrap();
    place.keeps(&format!("{FAST} --report b/r"), &[("EVENTS", "a/r")], &both);
    // The name that a video has until it is complete is an output as well.
    place.keeps(FAST, &[("VIDEO", "x.mp4"), ("EVENTS", "x.mp4.part")], &both);
}

#[test]
fn a_start_that_fails_changes_nothing() {
    let place = Place::new();
    place.done(&format!("{FAST} --report report.json --record record.jsonl"), &[]);
    std::fs::write(place.at("text.mp4"), "this is no video").unwrap();
    let kept = |arguments: &str, variables: &[(&str, &str)], words: &[&str]| {
        place.keeps(
            &format!("{arguments} --report report.json --record record.jsonl"),
            variables,
            words,
        );
    };
    // Nothing to read from: this once was found only after its sinks had been emptied.
    kept(
        "replay graph.toml text.mp4",
        &[("VIDEO", "out/clip.mp4")],
        &["no video in it"],
    );
    kept("run graph.toml", &[("CLIP", "text.mp4")], &["no video in it"]);
    // The last sink cannot be opened.
    kept(FAST, &[("VIDEO", "/dev/null")], &["/dev/null"]);
    // An event log was asked for in the place of something else.
    std::fs::write(place.at("notes.txt"), "to be kept").unwrap();
    place.keeps(
        &format!("{FAST} --record notes.txt"),
        &[],
        &["notes.txt", "no event log"],
    );
}

#[test]
fn a_second_run_adds_to_events_and_numbers_videos() {
    let place = Place::new();
    place.done(FAST, &[]);
    let first = std::fs::read(place.at("out/clip.mp4")).unwrap();
    let second = place.weir(FAST, &[]);
    let said = stderr(&second);
    assert!(
        second.status.success() && said.contains("clip.mp4 is there already: the video is"),
        "{said}"
    );
    let lines = place.lines("out/events.jsonl");
    let headers: Vec<usize> = (0..lines.len())
        .filter(|&line| lines[line]["type"] == "header")
        .collect();
    assert_eq!((lines.len(), &headers[..]), (42, &[0, 21][..]));
    assert_ne!(lines[0]["run"], lines[21]["run"]);
    assert_eq!(std::fs::read(place.at("out/clip.mp4")).unwrap(), first);
    assert_eq!(place.frames("out/clip-2.mp4"), 20);

    let graph = GRAPH.replace("type = \"mp4\"", "type = \"mp4\"\noverwrite = true");
    std::fs::write(place.at("graph.toml"), graph).unwrap();
    place.clip("clip.mp4.new", 9);
    std::fs::rename(place.at("clip.mp4.new"), place.at("clip.mp4")).unwrap();
    place.done(FAST, &[]);
    assert_eq!(place.frames("out/clip.mp4"), 9, "asked for by overwrite = true");
    assert_eq!(std::fs::read_dir(place.at("out")).unwrap().count(), 3);
}

#[test]
fn streams_and_sinks_keep_files_of_their_own_below_out() {
    let place = Place::new();
    place.clip("my clip.mp4", 20);
    place.clip("my_clip.mp4", 20);
    let mut command = place.command(
        "replay graph.toml --speed max --out new",
        &[("EVENTS", "x/{stream}/events.jsonl")],
    );
    let output = command.args(["my clip.mp4", "my_clip.mp4"]).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    for (folder, stream) in [
        ("my_clip/events.jsonl", "my clip"),
        ("my_clip/events-2.jsonl", "my_clip"),
    ] {
        let lines = place.lines(&format!("new/{folder}"));
        assert_eq!(lines.len(), 21);
        assert_eq!(lines[0]["streams"][0]["stream"], stream);
        assert!(lines[1..].iter().all(|line| line["stream"] == stream));
    }
    assert_eq!(
        (place.frames("new/my_clip.mp4"), place.frames("new/my_clip-2.mp4")),
        (20, 20)
    );
}

/// A run without an end that has delivered frames.
fn running(place: &Place) -> Child {
    let mut run = place
        .command(
            "replay graph.toml clip.mp4 --loop --report report.json --record record.jsonl",
            &[("EVENTS", "-")],
        )
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    // Two key frames further, a fragment of the video is written.
    for _ in 0..130 {
        lines.next().unwrap().unwrap();
    }
    // The reader goes on reading, or the run would end.
    std::thread::spawn(move || lines.for_each(drop));
    run
}

#[test]
fn a_second_run_at_the_same_time_is_kept_off() {
    let place = Place::new();
    let mut run = running(&place);
    let other = |arguments: &str, words: &[&str]| {
        refuses(&place.weir(arguments, &[("EVENTS", "other.jsonl")]), words);
        assert!(
            !place.at("other.jsonl").exists(),
            "it was made for a run that did not begin"
        );
    };
    other(FAST, &["out/clip.mp4", "another run"]);
    other(
        &format!("{FAST} --out new --report report.json"),
        &["report.json", "another run"],
    );
    other(
        &format!("{FAST} --out new --record record.jsonl"),
        &["record.jsonl", "another run"],
    );
    signal(&run, "-INT");
    assert!(run.wait().unwrap().success());
    place.done(&format!("{FAST} --report report.json --record record.jsonl"), &[]);
    assert!(place.frames("out/clip.mp4") > 20);
    assert_eq!(place.frames("out/clip-2.mp4"), 20);
}

#[test]
fn what_a_killed_run_left_is_kept_and_can_be_played() {
    let place = Place::new();
    let mut run = running(&place);
    run.kill().unwrap();
    run.wait().unwrap();
    let left = std::fs::read(place.at("out/clip.mp4.part")).unwrap();
    assert!(!place.at("out/clip.mp4").exists());
    // What cannot be played is of no run that is known here: it stays.
    std::fs::write(place.at("out/clip-2.mp4.part"), "something else").unwrap();
    // Half a line, as of a run that was killed while it wrote.
    std::fs::write(place.at("out/events.jsonl"), r#"{"type":"fra"#).unwrap();
    place.done(FAST, &[]);
    assert_eq!(std::fs::read(place.at("out/clip.mp4")).unwrap(), left);
    assert!(place.frames("out/clip.mp4") >= 50, "a fragment at least");
    let kept = std::fs::read(place.at("out/clip-2.mp4.part")).unwrap();
    assert_eq!(kept, b"something else");
    assert_eq!(place.frames("out/clip-3.mp4"), 20);
    let text = std::fs::read_to_string(place.at("out/events.jsonl")).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some(r#"{"type":"fra"#));
    assert!(lines.next().unwrap().starts_with(r#"{"type":"header""#));
    // The last run of the file is scored, whatever the ones before it left.
    let header = r#"{"truth":1,"world":"card","seed":1,"width":64,"height":48,"fps":25.0,"frames":20}"#;
    let frame = |index: usize| format!("{{\"frame\":{index},\"pts_ms\":0.0,\"objects\":[]}}\n");
    let truth = (0..20).map(frame).collect::<String>();
    std::fs::write(place.at("truth.jsonl"), format!("{header}\n{truth}")).unwrap();
    place.done("score --events out/events.jsonl --truth truth.jsonl", &[]);
    place.done(FAST, &[]);
    let scored = place.weir("score --events out/events.jsonl --truth truth.jsonl", &[]);
    assert!(scored.status.success(), "{}", stderr(&scored));
    assert!(
        stderr(&scored).contains("2 runs; the last one is scored"),
        "{}",
        stderr(&scored)
    );
}

#[test]
fn plans_profiles_and_experiments_are_not_written_over() {
    let place = Place::new();
    std::fs::write(place.at("exp.toml"), "[experiment]\ngraph = \"sim.toml\"\n").unwrap();
    let sim = GRAPH
        .replace("${CLIP:-clip.mp4}", "emulated:uniform?rate=10&frames=5")
        .split("[sinks.events]")
        .next()
        .unwrap()
        .to_owned();
    std::fs::write(place.at("sim.toml"), sim).unwrap();
    for input in ["exp.toml", "sim.toml", "profile.toml"] {
        place.keeps(
            &format!("simulate exp.toml --report {input}"),
            &[],
            &["--report", input, "the experiment"],
        );
    }
    let layers = "profile graph.toml --blocks 1 --layers graph.toml";
    place.keeps(layers, &[], &["--layers", "graph.toml", "the profile"]);
}
