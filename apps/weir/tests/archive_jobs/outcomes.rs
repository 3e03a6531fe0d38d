//! Outcomes of jobs that cannot be done, are late, or have a video in another container than MP4.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::archive::{clip, events, graph, report, run, submitted, succeed, weir, words};

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
        let queue = weir_jobs::FolderQueue::open(&folder.path().join("jobs")).unwrap();
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
    fs::write(
        folder.path().join("graph.toml"),
        format!("{}\n# changed\n", graph("")),
    )
    .unwrap();
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

#[test]
fn a_job_whose_objective_is_over_is_done_all_the_same_and_counted_as_late() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("late.mp4");
    clip(&path, 30, 0);
    let folder = submitted(&[]);
    let clip = path.to_str().unwrap();
    let submit = |within: &str| {
        let args = [
            "submit",
            "jobs",
            "--graph",
            "graph.toml",
            "--within",
            within,
            clip,
        ];
        weir(folder.path(), &args).output().unwrap()
    };
    let refused = submit("0s");
    assert_eq!(refused.status.code(), Some(2), "{}", words(&refused));
    assert!(words(&refused).contains("--within"), "{}", words(&refused));
    succeed(&submit("1ms"));
    succeed(&submit("10m"));
    succeed(&run(folder.path()));
    let found = report(folder.path());
    let jobs = &found["jobs"];
    assert_eq!((&jobs["done"], &jobs["late"]), (&2.into(), &1.into()), "{found}");
    assert_eq!(
        (&jobs["frames"], &jobs["late_frames"]),
        (&60.into(), &30.into()),
        "{found}"
    );
    for (job, late) in [(1, true), (2, false)] {
        let events = events(folder.path(), job);
        let frames = events.iter().filter(|line| line["type"] == "frame");
        let all: Vec<bool> = frames.map(|line| line["late"] == true).collect();
        assert_eq!(all, [late; 30], "job {job}");
    }
    let listed = weir(folder.path(), &["jobs", "jobs"]).output().unwrap();
    succeed(&listed);
    let row = words(&listed);
    let row = row
        .lines()
        .find(|row| row.trim_start().starts_with("1 "))
        .unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(cells, ["1", "done", "1/1", "3/3", "30", "30"]);
}

#[test]
fn a_matroska_video_is_cut_and_processed_as_the_same_video_in_an_mp4() {
    let folder = tempfile::tempdir().unwrap();
    let paths: Vec<PathBuf> = ["same.mp4", "same.mkv"]
        .iter()
        .map(|name| folder.path().join(name))
        .collect();
    // The one is made of the other, which is made again.
    clip(&paths[1], 55, 9);
    clip(&paths[0], 55, 9);
    let folder = submitted(&paths);
    succeed(&run(folder.path()));
    let found = report(folder.path());
    assert_eq!(found["jobs"]["done"], 2, "{found}");
    assert_eq!(
        (&found["jobs"]["segments"], &found["jobs"]["frames"]),
        (&12.into(), &110.into()),
        "{found}"
    );
    let said = |job: usize| -> Vec<Value> {
        let events = events(folder.path(), job);
        let frames = events.iter().filter(|line| line["type"] == "frame");
        let parts = frames.map(|line| serde_json::json!([line["frame"], line["pts_ms"], line["objects"]]));
        parts.collect()
    };
    assert_eq!(said(1).len(), 55);
    assert_eq!(said(1), said(2));
}
