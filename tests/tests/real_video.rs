//! The applications on real video: real decoders, models, operators and sinks, through the engine to its event lines.

#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]

use std::path::{Path, PathBuf};

use serde_json::Value;
use weir::Zoo;
use weir_flow::{Settings, SourceFactory, StopFlag};
use weir_graph::{SourceMode, SourceNode};
use weir_operators::media::SourceOptions;
use weir_policy::Report;
use weir_runtime::{Assembly, Pace, RunOptions};

use crate::common::first_frames::FirstFrames;
use crate::common::{assets, run};

/// An application of this repository on a recording that is read without loss; files of its sinks go to `out`.
fn application(
    name: &str,
    assets: &Path,
    recording: &Path,
    out: &Path,
    variables: &[(&str, &Path)],
) -> Assembly {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../apps/{name}/graph.toml"));
    let zoo = Zoo::in_folder(assets.join("models")).unwrap();
    let variable = |name: &str| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| value.display().to_string())
    };
    let graph = match weir_graph::load(&file, &weir::catalog(&zoo), &variable) {
        Ok(graph) => graph,
        Err(problems) => panic!("{problems}"),
    };
    let graph = graph.with_streams(vec![SourceNode {
        mode: SourceMode::Lossless,
        mode_given: true,
        ..SourceNode::new("camera", recording.display().to_string())
    }]);
    weir::assemble(graph, &zoo, Some(out), None).unwrap()
}

fn as_fast_as_it_goes(assembly: Assembly) -> Report {
    let options = RunOptions {
        pace: Pace::Max,
        ..RunOptions::default()
    };
    run(assembly, &options)
}

/// The event lines, one a frame and in order.
fn events(out: &Path, frames: u64) -> Vec<Value> {
    let text = std::fs::read_to_string(out.join("events.jsonl")).unwrap();
    let events: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .filter(|line: &Value| line["type"] == "frame")
        .collect();
    let order: Vec<u64> = events
        .iter()
        .map(|event| event["frame"].as_u64().unwrap())
        .collect();
    assert_eq!(order, (0..frames).collect::<Vec<_>>());
    events
}

fn objects<'a>(event: &'a Value, class: &'a str) -> impl Iterator<Item = &'a Value> {
    let all = event["objects"].as_array().unwrap();
    all.iter().filter(move |object| object["class"] == class)
}

fn frames_of(video: &Path) -> u64 {
    let source = weir_operators::media::source(&video.display().to_string(), SourceOptions::default());
    let mut source = source.open(&StopFlag::default()).unwrap();
    let mut count = 0;
    while source.next().unwrap().is_some() {
        count += 1;
    }
    count
}

#[test]
fn every_frame_of_a_recording_has_its_event_and_its_picture() {
    let Some(assets) = assets() else { return };
    let out = tempfile::tempdir().unwrap();
    let recording = assets.join("videos/carnd_vd_test_1280x720.mp4");
    let assembly = application("traffic-monitoring", &assets, &recording, out.path(), &[]);
    let report = as_fast_as_it_goes(assembly);
    let requests = &report.requests;
    assert_eq!(
        (
            requests.arrived,
            requests.delivered + requests.late,
            requests.in_flight
        ),
        (38, 38, 0)
    );
    let events = events(out.path(), 38);
    let cars: usize = events.iter().map(|event| objects(event, "car").count()).sum();
    assert!(cars >= 38, "two cars drive ahead, {cars} were seen in 38 frames");
    let rising = events
        .windows(2)
        .all(|pair| pair[0]["pts_ms"].as_f64() < pair[1]["pts_ms"].as_f64());
    assert!(rising, "presentation times rise");
    assert_eq!(frames_of(&out.path().join("camera.mp4")), 38);
}

#[test]
fn faces_name_their_person_and_bear_what_every_branch_found() {
    let Some(assets) = assets() else { return };
    let out = tempfile::tempdir().unwrap();
    let recording = assets.join("videos/o4n_people_faces_800x450.mp4");
    let mut assembly = application("live-video", &assets, &recording, out.path(), &[]);
    assembly.sources = vec![assembly.sources.remove(0).map(|source| {
        let count = 6;
        Box::new(FirstFrames { count, source }) as Box<dyn SourceFactory>
    })];
    as_fast_as_it_goes(assembly);
    let mut poses = 0;
    for event in events(out.path(), 6) {
        let faces: Vec<&Value> = objects(&event, "face").collect();
        assert!(faces.len() >= 3, "{event}");
        for face in faces {
            let parent = &event["objects"][face["parent"].as_u64().unwrap() as usize];
            assert_eq!(parent["class"], "person");
            let wide = face["box"][2].as_f64().unwrap() - face["box"][0].as_f64().unwrap();
            if wide < 20.0 {
                continue;
            }
            for attribute in ["expression", "head_pose", "embedding"] {
                assert!(face["attributes"][attribute].is_object(), "{attribute}: {face}");
            }
        }
        poses += objects(&event, "person")
            .filter(|person| person["attributes"]["keypoints"].is_array())
            .count();
    }
    assert!(poses >= 6, "{poses} poses in 6 frames");
}

/// Copies portraits of the asset pack into a folder.
fn portraits(assets: &Path, folder: &Path, files: &[(&str, &str)]) -> PathBuf {
    std::fs::create_dir_all(folder).unwrap();
    for (from, to) in files {
        std::fs::copy(
            assets.join(format!("images/face_{from}.jpg")),
            folder.join(format!("{to}.jpg")),
        )
        .unwrap();
    }
    folder.to_owned()
}

#[test]
fn portraits_are_known_by_person_and_not_across() {
    let Some(assets) = assets() else { return };
    let work = tempfile::tempdir().unwrap();
    for (known, seen) in [("1", "2"), ("2", "1")] {
        let (out, work) = (work.path().join(format!("out{known}")), work.path());
        let name = |person: &str, number: &str| format!("{person}{number}");
        let (obama, biden) = (name("obama", known), name("biden", known));
        let gallery = portraits(
            &assets,
            &work.join(format!("gallery{known}")),
            &[(&obama, "obama_1"), (&biden, "biden_1")],
        );
        let (obama, biden) = (name("obama", seen), name("biden", seen));
        let pictures = portraits(
            &assets,
            &work.join(format!("seen{seen}")),
            &[(&biden, "a"), (&obama, "b")],
        );
        let mut assembly = application(
            "live-video",
            &assets,
            &pictures,
            &out,
            &[("WEIR_GALLERY", &gallery)],
        );
        // The pictures differ in size, so no video is made of them.
        let video = assembly
            .graph
            .sinks()
            .iter()
            .position(|sink| sink.kind == "mp4")
            .unwrap();
        assembly.sinks[video] = weir_operators::sinks::sink("null", &Settings::default()).unwrap();
        as_fast_as_it_goes(assembly);
        let events = events(&out, 2);
        for (event, person) in events.iter().zip(["biden", "obama"]) {
            let face = objects(event, "face")
                .max_by(|a, b| a["score"].as_f64().partial_cmp(&b["score"].as_f64()).unwrap())
                .unwrap();
            assert_eq!(face["attributes"]["embedding"]["match"], person, "{event}");
        }
    }
}
