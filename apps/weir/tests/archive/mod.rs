//! A graph with a queue, clips, and what comes of them.

#![allow(dead_code, reason = "some of it is for queues on a server alone, a feature")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;
use weir_flow::StopFlag;
use weir_operators::media::{Encoding, Rgb, SourceOptions, VideoFile, source};

const SIZE: (u32, u32) = (96, 64);

/// `{place}` stands for the folder of the queue and of the results.
const GRAPH: &str = r#"
[app]
name = "archive"
slo = "400ms"
[sources.archive]
mode = "queued"
queue = "{place}jobs"
slo = "10m"
segment = "400ms"
[devices."emulated:a"]
slots = 1
[models.first]
device = "emulated:a"
batch = [1, 2]
profile = { "1" = "3ms", "2" = "4ms" }
[modules.find]
operator = "emulate"
model = "first"
inputs = ["archive"]
[sinks.events]
type = "jsonl"
path = "{place}out/{stream}.jsonl"
inputs = ["find"]
[sinks.video]
type = "mp4"
path = "{place}out/{stream}.mp4"
inputs = ["find"]
"#;

/// The graph with its queue and results in `place`, which is empty or ends with a slash.
pub(crate) fn graph(place: &str) -> String {
    GRAPH.replace("{place}", place)
}

/// A clip whose key frames are ten frames apart, with B-frames between them: an MP4, or a Matroska file by its name.
pub(crate) fn clip(path: &Path, frames: u32, shade: u8) {
    if path.extension().is_some_and(|extension| extension == "mkv") {
        let whole = path.with_extension("mp4");
        clip(&whole, frames, shade);
        let mut program = Command::new("ffmpeg");
        program.args(["-v", "error", "-y", "-i"]).arg(&whole);
        assert!(program.args(["-c", "copy"]).arg(path).status().unwrap().success());
        return fs::remove_file(whole).unwrap();
    }
    let encoding = Encoding {
        gop: 10,
        b_frames: 2,
        live: false,
        ..Encoding::live(23.0)
    };
    let mut video = VideoFile::create(path, SIZE, encoding).unwrap();
    for frame in 0..frames {
        let sample = |at: u32| (at.wrapping_mul(7) + frame * 5) as u8 ^ shade;
        let samples: Vec<u8> = (0..SIZE.0 * SIZE.1 * 3).map(sample).collect();
        let picture = Rgb {
            width: SIZE.0,
            height: SIZE.1,
            samples: &samples,
        };
        video.write(picture, f64::from(frame) * 40.0).unwrap();
    }
    video.finish().unwrap();
}

/// Clips in a folder, every second one a Matroska file.
pub(crate) fn clips(folder: &Path, count: usize, frames: u32) -> Vec<PathBuf> {
    let made = (0..count).map(|number| {
        let extension = if number % 2 == 0 { "mp4" } else { "mkv" };
        let path = folder.join(format!("{number}.{extension}"));
        clip(&path, frames, (number * 31) as u8);
        path
    });
    made.collect()
}

pub(crate) fn weir(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).current_dir(folder);
    command
}

pub(crate) fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

pub(crate) fn run(folder: &Path) -> Output {
    let output = weir(folder, &["run", "graph.toml", "--report", "report.json"]).output();
    output.unwrap()
}

pub(crate) fn succeed(output: &Output) {
    assert!(output.status.success(), "{}", words(output));
}

pub(crate) fn report(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

/// Submits one job a clip to the queue in `place`.
pub(crate) fn submit(folder: &Path, place: &str, clips: &[PathBuf]) {
    let queue = format!("{place}jobs");
    for clip in clips {
        let clip = clip.to_str().unwrap();
        let args = ["submit", &queue, "--graph", "graph.toml", "--within", "10m", clip];
        succeed(&weir(folder, &args).output().unwrap());
    }
}

/// A folder with the graph and one job a clip.
pub(crate) fn submitted(clips: &[PathBuf]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.toml"), graph("")).unwrap();
    submit(folder.path(), "", clips);
    folder
}

/// A folder where the jobs of the clips were done without any trouble.
pub(crate) fn undisturbed(clips: &[PathBuf], frames: u32) -> tempfile::TempDir {
    let folder = submitted(clips);
    succeed(&run(folder.path()));
    let whole = report(folder.path());
    assert_eq!(whole["jobs"]["done"], clips.len(), "{whole}");
    assert_eq!(whole["jobs"]["frames"], u64::from(frames) * clips.len() as u64);
    assert_eq!(whole["jobs"]["repeated"], 0);
    folder
}

/// Event lines of a job without what differs between runs; `place` has the results.
pub(crate) fn events(place: &Path, job: usize) -> Vec<Value> {
    let path = place.join(format!("out/archive-{job}-1.jsonl"));
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| {
        let mut line: Value = serde_json::from_str(line).unwrap();
        let keys = line.as_object_mut().unwrap();
        for key in ["time", "latency_ms", "run", "version"] {
            keys.remove(key);
        }
        line
    });
    lines.collect()
}

/// Time and a hash of the picture of each frame.
fn pictures(path: &Path) -> Vec<(u64, u64)> {
    let factory = source(path.to_str().unwrap(), SourceOptions::default());
    let mut video = factory.open(&StopFlag::default()).unwrap();
    let mut found = Vec::new();
    while let Some(frame) = video.next().unwrap() {
        let (luma, stride) = frame.image.planes.plane(0);
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        for row in luma.chunks(stride).take(frame.image.height as usize) {
            for sample in &row[..frame.image.width as usize] {
                hash = (hash ^ u64::from(*sample)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        found.push((frame.pts_ms.round() as u64, hash));
    }
    found
}

/// Results in `place` are those of an undisturbed run, frame for frame.
pub(crate) fn assert_same(place: &Path, undisturbed: &Path, jobs: usize, frames: u32, what: &str) {
    for job in 1..=jobs {
        let (own, other) = (events(place, job), events(undisturbed, job));
        let headers = own.iter().filter(|line| line["type"] == "header").count();
        assert_eq!(headers, 1, "{what}, job {job}");
        assert_eq!(own.len(), frames as usize + 1, "{what}, job {job}");
        // The header names the folder of the clip, which is the same.
        assert!(own == other, "{what}, job {job}: {own:#?}\n{other:#?}");
        let video = |place: &Path| pictures(&place.join(format!("out/archive-{job}-1.mp4")));
        let (own, other) = (video(place), video(undisturbed));
        assert_eq!(own.len(), frames as usize, "{what}, job {job}");
        assert!(own == other, "{what}, job {job}");
    }
}

/// A number below `bound`.
pub(crate) fn random(seed: &mut u64, bound: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % bound
}

pub(crate) fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}
