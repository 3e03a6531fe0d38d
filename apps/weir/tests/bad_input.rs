//! Bad input, as a clumsy user brings it: each gives one clear error or a counted loss, never a crash or a hang.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use weir_flow::StopFlag;
use weir_operators::media::{SourceOptions, source};

use crate::common::place::{GRAPH, Place, refused};
use crate::common::{asks_to_stop, signal, stderr};

/// Frames of a video that is read to its end without an error.
fn frames(path: &Path) -> u64 {
    let factory = source(path.to_str().unwrap(), SourceOptions::default());
    let mut source = factory.open(&StopFlag::default()).unwrap();
    let mut frames = 0;
    while source.next().unwrap().is_some() {
        frames += 1;
    }
    assert_eq!(source.counts().damaged, 0);
    frames
}

fn count(value: &serde_json::Value, name: &str) -> u64 {
    value[name].as_u64().unwrap()
}

/// `arrived = delivered + late + dropped + in_flight`, for the whole run and each stream, and nothing is left in flight.
fn adds_up(report: &serde_json::Value) {
    let streams = report["streams"].as_object().unwrap().values();
    let of_streams: Vec<&serde_json::Value> = streams.map(|stream| &stream["requests"]).collect();
    for requests in of_streams.iter().copied().chain([&report["requests"]]) {
        let ended = ["delivered", "late", "dropped", "in_flight"].map(|name| count(requests, name));
        assert_eq!(
            count(requests, "arrived"),
            ended.iter().sum::<u64>(),
            "{requests}"
        );
        assert_eq!(count(requests, "in_flight"), 0);
    }
    let arrived: u64 = of_streams.iter().map(|requests| count(requests, "arrived")).sum();
    assert_eq!(count(&report["requests"], "arrived"), arrived);
}

#[test]
fn videos_that_are_none() {
    let place = Place::new();
    std::fs::write(place.at("text.mp4"), "this is no video\n").unwrap();
    std::fs::write(place.at("empty.mp4"), "").unwrap();
    place.clip("whole.mp4", 60);
    let whole = std::fs::read(place.at("whole.mp4")).unwrap();
    std::fs::write(place.at("head.mp4"), &whole[..20]).unwrap();
    let check = |video: &str, words: &[&str]| {
        let arguments = ["replay", "graph.toml", video, "--speed", "max"];
        refused(&place.weir(&arguments), words);
    };
    check("nothing.mp4", &["there is no video nothing.mp4"]);
    check("text.mp4", &["text.mp4", "no video in it"]);
    check("empty.mp4", &["empty.mp4", "the file is empty"]);
    check("head.mp4", &["head.mp4", "cut off"]);
    check("http://127.0.0.1:1/live", &["http://127.0.0.1:1/live", "refused"]);
    check(".", &["no .jpg, .jpeg or .png image"]);
    refused(
        &place.weir(&["run", "graph.toml"]),
        &["graph.toml:7", "not-there.mp4"],
    );
}

#[test]
fn a_video_that_was_cut_off_gives_what_it_holds() {
    let place = Place::new();
    place.clip("whole.mp4", 400);
    let whole = std::fs::read(place.at("whole.mp4")).unwrap();
    let fragments: Vec<usize> = whole
        .windows(4)
        .enumerate()
        .filter(|(_, name)| name == b"mdat")
        .map(|(at, _)| at)
        .collect();
    let middle = fragments[fragments.len() / 2];
    std::fs::write(place.at("cut.mp4"), &whole[..middle + 40]).unwrap();
    let replay = |video: &str| {
        let arguments = [
            "replay",
            "graph.toml",
            video,
            "--speed",
            "max",
            "--report",
            "report.json",
        ];
        place.weir(&arguments)
    };
    // In fragments: nothing says how many frames there were; the torn packet is counted.
    let output = replay("cut.mp4");
    assert!(output.status.success(), "{}", stderr(&output));
    let report = place.report();
    adds_up(&report);
    let delivered = count(&report["requests"], "delivered");
    assert!((50..400).contains(&delivered), "{delivered}");
    assert_eq!(place.lines() as u64, delivered);

    let Some((models, _)) = models() else { return };
    // With its index first: what is missing is known. Else it would be said, too, that a video is there.
    std::fs::remove_dir_all(place.at("out")).unwrap();
    let indexed = models.join("../videos/roboflow_example_426x240.mp4");
    let indexed = std::fs::read(indexed).unwrap();
    std::fs::write(place.at("indexed.mp4"), &indexed[..indexed.len() / 2]).unwrap();
    refused(&replay("indexed.mp4"), &["indexed.mp4", "of 431 frames"]);
    let report = place.report();
    adds_up(&report);
    assert!((50..431).contains(&count(&report["requests"], "delivered")));
}

#[test]
fn a_bad_video_does_not_keep_a_good_one_from_its_end() {
    let place = Place::new();
    place.clip("good.mp4", 40);
    std::fs::write(place.at("text.mp4"), "this is no video\n").unwrap();
    let output = place.weir(&[
        "replay",
        "graph.toml",
        "good.mp4",
        "text.mp4",
        "--speed",
        "max",
        "--report",
        "report.json",
    ]);
    refused(&output, &["stream text", "no video in it"]);
    let report = place.report();
    adds_up(&report);
    assert_eq!(count(&report["streams"]["good"]["requests"], "delivered"), 40);
    assert!(report["streams"]["text"]["error"].is_string());
    assert_eq!((place.lines(), frames(&place.at("out/video.mp4"))), (40, 40));
}

#[test]
fn one_video_twice_into_one_sink_gives_two_files() {
    let place = Place::new();
    place.clip("clip.mp4", 20);
    let output = place.weir(&[
        "replay",
        "graph.toml",
        "clip.mp4",
        "--streams",
        "2",
        "--speed",
        "max",
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let videos = std::fs::read_dir(place.at("out")).unwrap();
    let videos = videos.map(|entry| entry.unwrap().path());
    let videos: Vec<PathBuf> = videos
        .filter(|path| path.extension().is_some_and(|end| end == "mp4"))
        .collect();
    assert_eq!(videos.len(), 2, "{videos:?}");
    assert!(videos.iter().all(|video| frames(video) == 20));
}

#[test]
fn places_that_cannot_be_written() {
    let place = Place::new();
    place.clip("clip.mp4", 20);
    std::fs::write(place.at("file"), "in the way").unwrap();
    let replay = ["replay", "graph.toml", "clip.mp4", "--speed", "max"];
    let with = |more: &[&str], name: &str, value: &str| {
        let arguments: Vec<&str> = replay.iter().chain(more).copied().collect();
        place.command(&arguments).env(name, value).output().unwrap()
    };
    refused(&with(&[], "EVENTS", "file/events.jsonl"), &["file/events.jsonl"]);
    refused(&with(&[], "VIDEO", "file/video.mp4"), &["file/video.mp4"]);
    refused(
        &with(&[], "VIDEO", "/dev/null"),
        &["/dev/null", "choose another name"],
    );
    let unwritable = ["--report", "file/report.json"];
    refused(
        &with(&unwritable, "UNUSED", ""),
        &["cannot write the report file/report.json"],
    );
    let unwritable = ["--record", "file/record.jsonl"];
    refused(
        &with(&unwritable, "UNUSED", ""),
        &["cannot record to file/record.jsonl"],
    );
    refused(&with(&["--out", "file"], "UNUSED", ""), &["folder file"]);
    if Path::new("/dev/full").exists() {
        let report = ["--report", "report.json"];
        refused(
            &with(&report, "EVENTS", "/dev/full"),
            &["sink events lost 20 of 20", "disk is full"],
        );
        let report = place.report();
        adds_up(&report);
        assert_eq!(count(&report["requests"], "delivered"), 20);
        let sinks = &report["sinks"];
        assert_eq!(
            (count(&sinks["events"], "lost"), count(&sinks["video"], "written")),
            (20, 20)
        );
        // Else it would be said, too, that the video of the run before is there.
        refused(
            &with(&["--record", "/dev/full"], "VIDEO", "out/other.mp4"),
            &["cannot record to /dev/full"],
        );
    }
}

#[test]
fn arguments_that_mean_nothing() {
    let place = Place::new();
    place.clip("clip.mp4", 2);
    let check = |option: &str, value: &str, word: &str| {
        refused(
            &place.weir(&["replay", "graph.toml", "clip.mp4", option, value]),
            &[word],
        );
    };
    check("--streams", "0", "not in 1..=4096");
    check("--speed", "0", "a factor from 0.01");
    check("--speed", "-1", "a factor from 0.01");
    check("--speed", "abc", "a factor from 0.01");
    check("--drop", "sometimes", "unknown variant `sometimes`");
    check("--order", "random", "unknown variant `random`");
    check("--duration", "ten", "is not a duration");
}

#[test]
fn five_mistakes_are_five_reports() {
    let place = Place::new();
    let text = GRAPH
        .replace("slo = \"10s\"", "slo = \"soon\"")
        .replace("operator = \"emulate\"", "operator = \"emulat\"")
        .replace("model = \"any\"", "model = \"anny\"")
        .replace("type = \"jsonl\"", "type = \"json\"")
        .replace("inputs = [\"camera\"]", "inputs = [\"camra\"]");
    std::fs::write(place.at("graph.toml"), text).unwrap();
    place.clip("clip.mp4", 2);
    for arguments in [
        &["check", "graph.toml"][..],
        &["replay", "graph.toml", "clip.mp4"],
        &["run", "graph.toml"],
    ] {
        let output = place.command(arguments).env("CLIP", "clip.mp4").output().unwrap();
        assert_eq!(output.status.code(), Some(2));
        let said = stderr(&output);
        let reports = said.lines().filter(|line| line.contains("graph.toml:"));
        assert_eq!(reports.count(), 5, "{said}");
        for word in ["soon", "emulat", "anny", "json", "camra"] {
            assert!(said.contains(word), "{said}");
        }
    }
}

#[test]
fn videos_take_the_place_of_sources_that_are_not_there() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    let replay = ["replay", "graph.toml", "clip.mp4", "--speed", "max"];
    let output = place.weir(&replay);
    assert!(output.status.success(), "{}", stderr(&output));
    let unset = GRAPH.replace("${CLIP:-not-there.mp4}", "${NO_SUCH_CAMERA_EVER}");
    std::fs::write(place.at("graph.toml"), &unset).unwrap();
    let output = place.weir(&replay);
    assert!(output.status.success(), "{}", stderr(&output));
    refused(
        &place.weir(&["replay", "graph.toml"]),
        &["NO_SUCH_CAMERA_EVER is not set"],
    );
    // Everything else is checked as ever.
    std::fs::write(
        place.at("graph.toml"),
        unset.replace("model = \"any\"", "model = \"anny\""),
    )
    .unwrap();
    refused(&place.weir(&replay), &["anny"]);
}

#[test]
fn a_reader_that_goes_away_is_no_crash() {
    let place = Place::new();
    place.clip("clip.mp4", 400);
    // Without an end of its own: it ends because its output has no reader.
    let arguments = "replay graph.toml clip.mp4 --loop --report report.json";
    let mut run = place
        .command(&arguments.split(' ').collect::<Vec<_>>())
        .env("EVENTS", "-")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
    let header = lines.next().unwrap().unwrap();
    assert!(header.contains(r#""type":"header""#), "{header}");
    assert!(lines.next().unwrap().unwrap().contains(r#""type":"frame""#));
    drop(lines);
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()));
    let report = place.report();
    adds_up(&report);
    let events = &report["sinks"]["events"];
    assert_eq!(events["closed"], true);
    let ended = count(&report["requests"], "delivered");
    assert_eq!(count(events, "written") + count(events, "lost"), ended);
    assert!(
        frames(&place.at("out/video.mp4")) > 0,
        "other files are completed"
    );
}

/// Waits until there are event lines, at most as long as a test may take in all.
fn wait_for_lines(place: &Place, run: &mut Child) {
    for _ in 0..3_000 {
        if place.lines() >= 5 {
            return;
        }
        assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = run.kill();
    panic!("no event lines came");
}

#[test]
fn an_interrupted_replay_completes_its_files_and_accounts_for_every_frame() {
    for (asked, _) in asks_to_stop() {
        let place = Place::new();
        place.clip("clip.mp4", 50);
        let arguments =
            "replay graph.toml clip.mp4 --loop --streams 2 --report report.json --record record.jsonl";
        let mut run = place
            .command(&arguments.split(' ').collect::<Vec<_>>())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        wait_for_lines(&place, &mut run);
        signal(&run, asked);
        let output = run.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        assert!(stderr(&output).starts_with("stopping:"), "{}", stderr(&output));

        let report = place.report();
        adds_up(&report);
        let delivered = count(&report["requests"], "delivered");
        assert!(delivered >= 5);
        assert_eq!(place.lines() as u64, delivered);
        let first = frames(&place.at("out/video.mp4"));
        let videos = std::fs::read_dir(place.at("out")).unwrap();
        let second = videos
            .map(|entry| entry.unwrap().path())
            .find(|path| path.to_string_lossy().contains("video-clip"));
        let second = second.map_or(0, |path| frames(&path));
        assert_eq!(first + second, delivered, "both videos play to their end");
        let verified = weir_runtime::verify(&place.at("record.jsonl")).unwrap();
        assert!(verified.steps > 0);
    }
}

#[test]
fn a_second_interrupt_leaves_at_once() {
    let place = Place::new();
    place.clip("clip.mp4", 50);
    // One batch takes longer than the run may.
    let text = GRAPH.replace("\"1ms\"", "\"60s\"").replace("\"10s\"", "\"100s\"");
    std::fs::write(place.at("graph.toml"), text).unwrap();
    let arguments = "replay graph.toml clip.mp4 --loop --speed 10 --record record.jsonl";
    let mut run = place
        .command(&arguments.split(' ').collect::<Vec<_>>())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The log comes in blocks, so that frames have come and the first batch has begun when it holds anything.
    let began = || std::fs::metadata(place.at("record.jsonl")).is_ok_and(|file| file.len() > 0);
    for _ in 0..3_000 {
        if began() {
            break;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(began(), "nothing was recorded");
    signal(&run, "-INT");
    let mut said = BufReader::new(run.stderr.take().unwrap());
    let mut line = String::new();
    said.read_line(&mut line).unwrap();
    assert!(line.starts_with("stopping:"), "{line}");
    // Again, until it has left: what comes right after the first counts as the same.
    let code = loop {
        if let Some(status) = run.try_wait().unwrap() {
            break status.code();
        }
        signal(&run, "-INT");
        std::thread::sleep(Duration::from_millis(100));
    };
    assert_eq!(code, Some(130));
}

/// The models folder of the asset pack and the library of ONNX Runtime; `None`, with a message, if one is
/// missing.
fn models() -> Option<(PathBuf, PathBuf)> {
    let assets = std::env::var_os("WEIR_ASSETS").map(PathBuf::from);
    let Some(models) = assets
        .map(|assets| assets.join("models"))
        .filter(|models| models.is_dir())
    else {
        println!("skipped: WEIR_ASSETS names no folder with models");
        return None;
    };
    match weir_operators::find_runtime() {
        Ok(runtime) => Some((models, std::path::absolute(runtime).unwrap())),
        Err(missing) => {
            println!("skipped: {missing}");
            None
        }
    }
}

const WITH_MODEL: &str = r#"
[app]
name = "bad-model"
slo = "10s"

[sources.camera]
uri = "clip.mp4"

[models.any]
model = "${MODEL}"
head = "${HEAD}"

[modules.look]
operator = "detect"
model = "any"
inputs = ["camera"]

[sinks.nowhere]
type = "null"
inputs = ["look"]
"#;

#[test]
fn models_that_are_none_or_other_ones() {
    let place = Place::new();
    std::fs::write(place.at("graph.toml"), WITH_MODEL).unwrap();
    place.clip("clip.mp4", 2);
    std::fs::write(place.at("empty.onnx"), "").unwrap();
    std::fs::write(place.at("text.onnx"), "this is no model\n").unwrap();
    let run = |model: &Path, head: &str, runtime: &Path| {
        let mut command = place.command(&["run", "graph.toml"]);
        command.env("MODEL", model).env("HEAD", head);
        command.env("ORT_DYLIB_PATH", runtime).output().unwrap()
    };
    let none = place.at("nothing.so");
    refused(
        &run(Path::new("nothing.onnx"), "yolox", &none),
        &["there is no file", "nothing.onnx"],
    );
    refused(
        &run(Path::new("empty.onnx"), "yollox", &none),
        &["yollox", "did you mean"],
    );
    let Some((models, runtime)) = models() else { return };
    let whole = models.join("yolox_nano_416.onnx");
    refused(
        &run(&whole, "yolox", &none),
        &["ORT_DYLIB_PATH", "nothing.so", "make setup"],
    );
    let refuses = |model: &Path, head: &str, words: &[&str]| refused(&run(model, head, &runtime), words);
    refuses(
        Path::new("empty.onnx"),
        "yolox",
        &["empty.onnx", "the file is empty"],
    );
    refuses(Path::new("text.onnx"), "yolox", &["text.onnx", "no ONNX file"]);
    let part = std::fs::read(&whole).unwrap();
    std::fs::write(place.at("part.onnx"), &part[..part.len() / 2]).unwrap();
    refuses(Path::new("part.onnx"), "yolox", &["part.onnx", "damaged"]);
    let keypoints = models.join("hand_keypoint_classifier.onnx");
    refuses(&keypoints, "yolox", &["the input is [?, 42]", "expects an image"]);
    for head in [
        "nanodet",
        "yolov8",
        "fastestdet",
        "yunet",
        "ultraface",
        "plate-corners",
    ] {
        refuses(&whole, head, &["yolox_nano_416.onnx", "cannot load model any"]);
    }
}

#[test]
fn a_mirror_that_is_not_there() {
    let place = Place::new();
    let text = WITH_MODEL
        .replace("${MODEL}", "zoo:yolox-nano")
        .replace("${HEAD}", "yolox");
    std::fs::write(place.at("graph.toml"), text).unwrap();
    place.clip("clip.mp4", 2);
    let mut command = place.command(&["run", "graph.toml"]);
    let output = command
        .env("WEIR_MODEL_MIRROR", place.at("nowhere"))
        .output()
        .unwrap();
    refused(&output, &["nowhere"]);
}

#[cfg(target_os = "linux")]
#[test]
fn a_limit_on_the_size_of_files_is_an_error_of_the_file() {
    let place = Place::new();
    place.clip("clip.mp4", 400);
    let run = Command::new("sh")
        .args([
            "-c",
            "ulimit -f 16 && exec \"$0\" replay graph.toml clip.mp4 --speed max --report report.json",
        ])
        .arg(env!("CARGO_BIN_EXE_weir"))
        .current_dir(place.at(""))
        .output()
        .unwrap();
    refused(&run, &["sink events", "events.jsonl"]);
    let report = place.report();
    adds_up(&report);
    assert!(count(&report["sinks"]["events"], "lost") > 0);
}

#[test]
fn a_report_to_a_dash_goes_to_the_standard_output() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    let run = place.weir(&[
        "replay",
        "graph.toml",
        "clip.mp4",
        "--speed",
        "max",
        "--report",
        "-",
    ]);
    assert!(run.status.success(), "{}", stderr(&run));
    let report: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(count(&report["requests"], "delivered"), 10);
    assert!(!place.at("-").exists());
}

#[cfg(target_os = "linux")]
#[test]
fn a_standard_output_that_takes_nothing_is_named() {
    let place = Place::new();
    place.clip("clip.mp4", 10);
    let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
    let run = place
        .command(&["replay", "graph.toml", "clip.mp4", "--speed", "max"])
        .stdout(full)
        .stderr(Stdio::piped())
        .spawn()
        .and_then(Child::wait_with_output)
        .unwrap();
    refused(&run, &["standard output", "the disk is full"]);
}
