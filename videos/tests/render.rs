//! `render` as its caller sees it, and what the project's own source reads of the clips.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stderr, reason = "a test that skips says so")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use weir_flow::{Source, StopFlag};
use weir_operators::media::{SourceOptions, VideoCodec, source};
use weir_truth::Truth;

fn render(folder: &Path, arguments: &str) -> Output {
    Command::new(env!("CARGO_BIN_EXE_render"))
        .args(arguments.split(' '))
        .current_dir(folder)
        .env_remove("RUST_LOG")
        .output()
        .expect("the program starts")
}

fn renders(folder: &Path, arguments: &str) {
    let output = render(folder, arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments}: {said}");
    assert!(said.is_empty(), "{arguments}: {said}");
}

/// Checks that the program fails with exit status 2 and one error line that contains `word`, and that it
/// leaves no files.
fn refuses(arguments: &str, word: &str) {
    let folder = tempfile::tempdir().unwrap();
    let output = render(folder.path(), arguments);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
    assert!(said.contains(word), "\"{word}\" is not in: {said}");
    assert_eq!(said.matches("error: ").count(), 1, "{said}");
    assert_eq!(
        files(folder.path()),
        Vec::<String>::new(),
        "{arguments} left files behind"
    );
}

/// Names in a folder.
fn files(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).expect("a folder");
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The time of a frame that was read, and its size.
type Shown = (f64, (u32, u32));

/// Frames of a clip as a source reads them: timestamp and size.
fn read(path: &Path) -> Vec<Shown> {
    let factory = source(path.to_str().unwrap(), SourceOptions::default());
    let mut source: Box<dyn Source> = factory.open(&StopFlag::default()).expect("a video");
    let mut frames = Vec::new();
    while let Ok(Some(frame)) = source.next() {
        frames.push((frame.pts_ms, (frame.image.width, frame.image.height)));
    }
    frames
}

fn truth(path: &Path) -> Truth {
    let file = fs::File::open(path).expect("a truth file");
    Truth::read(std::io::BufReader::new(file)).expect("well formed")
}

/// Renders about a second of the test card; returns the frames that a source reads, and the ground truth.
fn card(options: &str) -> (Vec<Shown>, Truth) {
    let folder = tempfile::tempdir().unwrap();
    renders(folder.path(), &format!("card --seed 5 --out clip.mp4 {options}"));
    assert_eq!(files(folder.path()), ["clip.mp4", "clip.truth.jsonl"]);
    let truth = truth(&folder.path().join("clip.truth.jsonl"));
    assert_eq!(truth.clip.frames, truth.frames.len() as u64);
    let numbers = truth.frames.iter().map(|frame| frame.frame);
    assert!(numbers.eq(0..truth.clip.frames));
    (read(&folder.path().join("clip.mp4")), truth)
}

/// Each frame of the clip must be there at the time that the truth says.
fn agree(options: &str) -> Truth {
    let (frames, truth) = card(options);
    assert_eq!(frames.len(), truth.frames.len(), "{options}");
    for ((pts_ms, _), said) in frames.iter().zip(&truth.frames) {
        assert!(
            (pts_ms - said.pts_ms).abs() < 0.001,
            "{options}: {pts_ms} {}",
            said.pts_ms
        );
    }
    truth
}

#[test]
fn the_same_seed_gives_the_same_bytes_whatever_the_threads() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| fs::read(folder.path().join(name)).unwrap();
    let options = "card --seconds 0.6 --b-frames 2";
    renders(folder.path(), &format!("{options} --out a.mp4 --threads 1"));
    renders(folder.path(), &format!("{options} --out new/b.mp4 --threads 3"));
    renders(folder.path(), &format!("{options} --out other.mp4 --seed 1"));
    renders(folder.path(), &format!("{options} --out part.mp4 --part train"));
    assert_eq!(at("a.mp4"), at("new/b.mp4"));
    assert_eq!(at("a.truth.jsonl"), at("new/b.truth.jsonl"));
    for other in ["other", "part"] {
        assert_ne!(at("a.mp4"), at(&format!("{other}.mp4")));
        assert_ne!(at("a.truth.jsonl"), at(&format!("{other}.truth.jsonl")));
    }
    // Once more over what is there.
    renders(folder.path(), &format!("{options} --out other.mp4"));
    assert_eq!(at("a.mp4"), at("other.mp4"));
}

#[test]
fn a_clip_is_read_as_its_truth_says() {
    for options in [
        "--seconds 1",
        "--seconds 1 --fps 29.97 --gop 7",
        "--seconds 1 --b-frames 3",
    ] {
        let truth = agree(options);
        assert!(
            (truth.clip.frames as f32 - truth.clip.fps).abs() < 1.0,
            "{options}"
        );
        assert_eq!((truth.clip.world.as_str(), truth.clip.seed), ("card", 5));
    }
}

#[test]
fn time_stamps_may_be_uneven_and_frames_out_of_order() {
    let truth = agree("--seconds 2 --variable-rate --b-frames 2");
    assert!(truth.frames.len() < 50);
    let steps: Vec<f64> = truth
        .frames
        .windows(2)
        .map(|pair| pair[1].pts_ms - pair[0].pts_ms)
        .collect();
    assert!(steps.iter().any(|step| *step < 35.0) && steps.iter().any(|step| *step > 60.0));
}

#[test]
fn hevc_is_read_alike() {
    if !VideoCodec::Hevc.is_available() {
        eprintln!("skipped: this FFmpeg has no libx265");
        return;
    }
    agree("--seconds 1 --codec hevc --b-frames 2");
}

#[test]
fn a_stream_may_change_its_size() {
    let (frames, truth) = card("--seconds 1.2 --resize-at 0.6");
    assert_eq!(frames.len(), 30);
    for ((pts_ms, size), said) in frames.iter().zip(&truth.frames) {
        assert!((pts_ms - said.pts_ms).abs() < 0.001);
        let late = *pts_ms >= 600.0;
        assert_eq!(*size, if late { (640, 360) } else { (960, 540) }, "{pts_ms}");
        let [x0, _, x1, _] = said.objects[0].r#box;
        assert!((x1 - x0 - if late { 64.0 } else { 96.0 }).abs() < 0.01);
    }
}

#[test]
fn lost_packets_leave_frames_out_and_the_others_at_their_times() {
    let (frames, truth) = card("--seconds 2 --lose 6 --gop 12");
    assert!((30..50).contains(&frames.len()), "{}", frames.len());
    for (pts_ms, _) in &frames {
        let near = |frame: &weir_videos::FrameTruth| (frame.pts_ms - pts_ms).abs() < 0.001;
        assert!(truth.frames.iter().any(near), "{pts_ms}");
    }
}

#[test]
fn the_colours_that_are_read_are_those_of_the_truth() {
    let folder = tempfile::tempdir().unwrap();
    renders(
        folder.path(),
        "card --seconds 0.2 --out clip.mp4 --crf 12 --seed 2",
    );
    let truth = truth(&folder.path().join("clip.truth.jsonl"));
    let clip = folder.path().join("clip.mp4");
    let mut source = source(clip.to_str().unwrap(), SourceOptions::default())
        .open(&StopFlag::default())
        .unwrap();
    let frame = source.next().unwrap().expect("a frame");
    let mut seen = Vec::new();
    weir_operators::pixels::Sampler::new().rgb(&frame.image, &mut seen);
    let kind = weir_videos::WorldKind::Card;
    let seed = weir_videos::Seed::new(weir_videos::Part::Clip, 2);
    let world = weir_videos::world(kind, seed, weir_videos::Light::Day);
    let (drawn, _) = world.at(0.0);
    let [x0, y0, x1, y1] = truth.frames[0].objects[0].r#box;
    let centre = ((y0 + y1) as usize / 2 * 960 + (x0 + x1) as usize / 2) * 3;
    for (seen, drawn) in seen[centre..centre + 3].iter().zip(&drawn.rgb[centre..]) {
        assert!(seen.abs_diff(*drawn) <= 6, "{seen} was drawn as {drawn}");
    }
}

#[test]
fn stills_are_numbered_by_their_seeds() {
    let folder = tempfile::tempdir().unwrap();
    renders(folder.path(), "stills card --count 5 --first 3 --out new/train");
    renders(
        folder.path(),
        "stills card --count 2 --first 4 --out again --threads 1",
    );
    let (train, again) = (folder.path().join("new/train"), folder.path().join("again"));
    assert_eq!(
        files(&train),
        [
            "000003.jpg",
            "000004.jpg",
            "000005.jpg",
            "000006.jpg",
            "000007.jpg",
            "truth.jsonl"
        ]
    );
    assert_eq!(files(&folder.path().join("new")), ["train"]);
    let (all, some) = (
        truth(&train.join("truth.jsonl")),
        truth(&again.join("truth.jsonl")),
    );
    assert_eq!(all.frames[1..3], some.frames[..]);
    assert_eq!(
        fs::read(train.join("000004.jpg")).unwrap(),
        fs::read(again.join("000004.jpg")).unwrap()
    );
    let output = render(folder.path(), "stills card --count 1 --out new/train");
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("it is not empty"));
    assert_eq!(files(&train).len(), 6);
}

#[test]
fn mistakes_are_one_line() {
    refuses("moon --out a.mp4", "moon");
    refuses(
        "stills moon --count 1 --out a",
        "write street, live, game or card",
    );
    refuses("stills card --count 0 --out a", "--count");
    refuses(
        "stills street --count 1 --light noon --out a",
        "day, dusk, night or rain",
    );
    refuses("stills card --count 1 --light night --out a", "--light");
    refuses("card", "--out");
    refuses("card --seconds 0 --out a.mp4", "write a number from 0.01 to 3600");
    refuses("card --seconds NaN --out a.mp4", "write a number");
    refuses("card --fps -5 --out a.mp4", "write a number from 1 to 120");
    refuses("card --crf 60 --out a.mp4", "from 0 to 51");
    refuses("card --codec av1 --out a.mp4", "h264, hevc");
    refuses("card --lose 1 --out a.mp4", "--lose");
    refuses("card --part test --out a.mp4", "write train, validation or clip");
    refuses(
        "street --light noon --out a.mp4",
        "write day, dusk, night or rain",
    );
    refuses("card --light dusk --out a.mp4", "--light");
    refuses("card --out a.avi", "ends with .mp4");
    refuses("card --out ..", "ends with .mp4");
    refuses("stills card --count 1 --out ..", "");
    refuses("card --seconds 2 --resize-at 2 --out a.mp4", "not before the end");
    refuses(
        "card --b-frames 2 --resize-at 1 --out a.mp4",
        "cannot be used with",
    );
}

#[test]
fn a_place_that_cannot_be_written_to_is_said_before_anything_is_rendered() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "here").unwrap();
    fs::create_dir(folder.path().join("a.mp4")).unwrap();
    fs::create_dir(folder.path().join("b.truth.jsonl")).unwrap();
    for arguments in [
        "card --seconds 3600 --out file/a.mp4",
        "card --seconds 3600 --out a.mp4",
        "card --seconds 3600 --out b.mp4",
        "stills card --count 1000000 --out file",
        "stills card --count 1000000 --out file/a",
    ] {
        let output = render(folder.path(), arguments);
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments}: {said}");
        assert!(said.starts_with("error: cannot write"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(files(folder.path()), ["a.mp4", "b.truth.jsonl", "file"]);
    }
}

/// Contents of the files in a folder, by name.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let names = files(folder).into_iter();
    names
        .map(|name| (name.clone(), fs::read(folder.join(name)).unwrap()))
        .collect()
}

/// The program must not render to `clip.mp4`, say why, and leave everything as it is.
fn keeps(folder: &Path, words: &[&str]) {
    let before = contents(folder);
    let output = render(folder, "card --seconds 3600 --out clip.mp4");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    for word in words {
        assert!(said.contains(word), "\"{word}\" is not in: {said}");
    }
    assert!(contents(folder) == before, "{said}");
}

#[test]
fn only_what_was_rendered_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("clip.mp4"), "notes that were called so").unwrap();
    keeps(
        folder.path(),
        &[
            "cannot write clip.mp4: it is there already",
            "no MP4 video",
            "choose another name",
        ],
    );

    // An empty file, such as one of mktemp, may be replaced.
    fs::write(at("clip.mp4"), "").unwrap();
    renders(folder.path(), "card --seconds 0.2 --out clip.mp4");
    fs::rename(at("clip.truth.jsonl"), at("kept")).unwrap();
    // A filmed video has no ground truth beside it.
    keeps(
        folder.path(),
        &[
            "cannot write clip.mp4: it is there already",
            "its truth is not beside it",
        ],
    );

    let by_hand = r#"{"truth":1,"world":"front door","seed":0,"width":64,"height":48,"fps":25.0,"frames":0}"#;
    let words = [
        "clip.truth.jsonl: it is there already",
        "not the truth of a rendered clip",
    ];
    for text in [by_hand, "{}\n", "once upon a time"] {
        fs::write(at("clip.truth.jsonl"), text).unwrap();
        keeps(folder.path(), &words);
    }
    fs::remove_file(at("clip.mp4")).unwrap();
    keeps(folder.path(), &words);

    fs::rename(at("kept"), at("clip.truth.jsonl")).unwrap();
    renders(folder.path(), "card --seconds 0.2 --out clip.mp4");
    renders(folder.path(), "card --seconds 0.2 --out clip.mp4 --seed 1");
    assert_eq!(truth(&at("clip.truth.jsonl")).clip.seed, 1);
}

#[test]
fn a_clip_and_its_truth_are_two_files() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    renders(folder.path(), "card --seconds 0.2 --out clip.mp4");
    fs::remove_file(at("clip.truth.jsonl")).unwrap();
    fs::hard_link(at("clip.mp4"), at("clip.truth.jsonl")).unwrap();
    keeps(folder.path(), &["the clip and its truth would both write"]);
}

#[test]
fn an_interrupted_rendering_leaves_nothing_behind() {
    for arguments in [
        "card --seconds 3600 --out clip.mp4",
        "stills card --count 1000000 --out train",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut run = Command::new(env!("CARGO_BIN_EXE_render"))
            .args(arguments.split(' '))
            .current_dir(folder.path())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while files(folder.path()).is_empty() {
            assert!(run.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        let sent = Command::new("kill")
            .args(["-INT", &run.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
        let output = run.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(
            said.ends_with("error: interrupted: nothing was written\n"),
            "{said}"
        );
        assert_eq!(files(folder.path()), Vec::<String>::new());
    }
}
