//! Jobs of recorded videos come out as of an undisturbed run, however often the engine is killed; what cannot be done is said
//! once and clearly. `make crash-jobs` kills it 100 times.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use weir_flow::StopFlag;
use weir_operators::media::{Encoding, Rgb, SourceOptions, VideoFile, source};

const SIZE: (u32, u32) = (96, 64);

const GRAPH: &str = r#"
[app]
name = "archive"
slo = "400ms"
[sources.archive]
mode = "queued"
queue = "jobs"
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
path = "out/{stream}.jsonl"
inputs = ["find"]
[sinks.video]
type = "mp4"
path = "out/{stream}.mp4"
inputs = ["find"]
"#;

/// A clip whose key frames are ten frames apart, with B-frames between them.
fn clip(path: &Path, frames: u32, shade: u8) {
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

fn weir(folder: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_weir"));
    command.args(args).current_dir(folder);
    command
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn run(folder: &Path) -> Output {
    let output = weir(folder, &["run", "graph.toml", "--report", "report.json"]).output();
    output.unwrap()
}

fn succeed(output: &Output) {
    assert!(output.status.success(), "{}", words(output));
}

fn report(folder: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(folder.join("report.json")).unwrap()).unwrap()
}

/// A folder with the graph and one job a clip.
fn submitted(clips: &[PathBuf]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("graph.toml"), GRAPH).unwrap();
    for clip in clips {
        let clip = clip.to_str().unwrap();
        let args = ["submit", "jobs", "--graph", "graph.toml", "--within", "10m", clip];
        succeed(&weir(folder.path(), &args).output().unwrap());
    }
    folder
}

/// Event lines without what differs between runs.
fn events(folder: &Path, job: usize) -> Vec<Value> {
    let path = folder.join(format!("out/archive-{job}-1.jsonl"));
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

fn assert_same(folder: &Path, undisturbed: &Path, jobs: usize, frames: u32, seed: u64) {
    for job in 1..=jobs {
        let (own, other) = (events(folder, job), events(undisturbed, job));
        let headers = own.iter().filter(|line| line["type"] == "header").count();
        assert_eq!(headers, 1, "seed {seed}, job {job}");
        assert_eq!(own.len(), frames as usize + 1, "seed {seed}, job {job}");
        // The header names the folder of the clip, which is the same.
        assert!(own == other, "seed {seed}, job {job}: {own:#?}\n{other:#?}");
        let video = |folder: &Path| pictures(&folder.join(format!("out/archive-{job}-1.mp4")));
        let (own, other) = (video(folder), video(undisturbed));
        assert_eq!(own.len(), frames as usize, "seed {seed}, job {job}");
        assert!(own == other, "seed {seed}, job {job}");
    }
}

/// A number below `bound`.
fn random(seed: &mut u64, bound: u64) -> u64 {
    *seed = seed
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407);
    (*seed >> 33) % bound
}

fn number(variable: &str, default: u64) -> u64 {
    let given = std::env::var(variable).ok().and_then(|text| text.parse().ok());
    given.unwrap_or(default)
}

#[test]
fn a_killed_engine_goes_on_where_it_was_and_its_results_are_those_of_an_undisturbed_run() {
    let (kills, jobs) = (number("WEIR_KILLS", 4), number("WEIR_KILL_JOBS", 2) as usize);
    let first_seed = number("WEIR_SEED", 26);
    let frames = 95;
    let clips = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = (0..jobs)
        .map(|job| clips.path().join(format!("{job}.mp4")))
        .collect();
    for (shade, path) in (0..).zip(&paths) {
        clip(path, frames, shade * 31);
    }
    let undisturbed = submitted(&paths);
    succeed(&run(undisturbed.path()));
    let whole = report(undisturbed.path());
    assert_eq!(whole["jobs"]["done"], jobs, "{whole}");
    assert_eq!(whole["jobs"]["frames"], u64::from(frames) * jobs as u64);
    assert_eq!(whole["jobs"]["repeated"], 0);

    let (mut seed, mut killed, mut rounds) = (first_seed, 0, 0);
    while killed < kills {
        rounds += 1;
        let folder = submitted(&paths);
        loop {
            let mut engine = weir(folder.path(), &["run", "graph.toml", "--report", "report.json"])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(200 + random(&mut seed, 1_500)));
            if killed >= kills || engine.try_wait().unwrap().is_some() {
                assert!(engine.wait().unwrap().success(), "seed {first_seed}");
                break;
            }
            engine.kill().unwrap();
            engine.wait().unwrap();
            killed += 1;
        }
        let found = report(folder.path());
        assert_eq!(found["jobs"]["done"], jobs, "seed {first_seed}: {found}");
        assert_eq!(
            found["jobs"]["frames"],
            u64::from(frames) * jobs as u64,
            "{found}"
        );
        assert_same(folder.path(), undisturbed.path(), jobs, frames, first_seed);
    }
    println!("seed {first_seed}: killed {killed} times in {rounds} rounds");
}

#[test]
fn what_cannot_be_done_is_one_clear_error_or_a_counted_outcome() {
    let clips = tempfile::tempdir().unwrap();
    let names = ["whole", "gone", "cut"];
    let paths: Vec<PathBuf> = names
        .iter()
        .map(|name| clips.path().join(format!("{name}.mp4")))
        .collect();
    paths.iter().for_each(|path| clip(path, 30, 0));
    let folder = submitted(&paths);
    let refused = |args: &[&str], part: &str| {
        let output = weir(folder.path(), args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", words(&output));
        assert!(words(&output).contains(part), "{args:?}: {}", words(&output));
    };
    refused(
        &["submit", "jobs", "--graph", "graph.toml", "none.mp4"],
        "none.mp4",
    );
    refused(
        &[
            "submit",
            "other",
            "--graph",
            "graph.toml",
            paths[0].to_str().unwrap(),
        ],
        "no source of the graph",
    );
    refused(&["jobs", "none"], "there is no queue");
    refused(&["jobs", "jobs", "--cancel", "9"], "no job 9");
    // A video that is gone, and one whose index is cut off with its end.
    fs::remove_file(&paths[1]).unwrap();
    let bytes = fs::read(&paths[2]).unwrap();
    fs::write(&paths[2], &bytes[..200]).unwrap();
    {
        let queue = weir_jobs::Queue::open(&folder.path().join("jobs")).unwrap();
        let _lock = queue.lock_for_engine().unwrap();
        refused(&["run", "graph.toml"], "another engine works on the queue");
    }
    let output = run(folder.path());
    assert_eq!(output.status.code(), Some(2), "{}", words(&output));
    let found = report(folder.path());
    assert_eq!(
        (&found["jobs"]["done"], &found["jobs"]["failed"]),
        (&1.into(), &2.into()),
        "{found}"
    );
    let reasons = found["jobs"]["reasons"].to_string();
    assert!(reasons.contains("the video cannot be read"), "{reasons}");

    // A job for a graph that changed since.
    let args = [
        "submit",
        "jobs",
        "--graph",
        "graph.toml",
        paths[0].to_str().unwrap(),
    ];
    succeed(&weir(folder.path(), &args).output().unwrap());
    fs::write(folder.path().join("graph.toml"), format!("{GRAPH}\n# changed\n")).unwrap();
    let output = run(folder.path());
    assert!(
        words(&output).contains("the graph changed since"),
        "{}",
        words(&output)
    );
    let listed = weir(folder.path(), &["jobs", "jobs", "--json"]).output().unwrap();
    succeed(&listed);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    let states: Vec<&str> = listed["jobs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|job| job["state"].as_str().unwrap())
        .collect();
    assert_eq!(states, ["done", "failed", "failed", "failed"]);
}
