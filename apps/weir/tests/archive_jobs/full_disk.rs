//! The disk of a queue and its results runs full.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::archive::{assert_same, clips, graph, report, run, submit, succeed, undisturbed, words};
use crate::small_disk::SmallDisk;

const FRAMES: u32 = 45;
const JOBS: usize = 2;

/// Nothing half-written is where results belong.
fn assert_whole(place: &Path, left: u64) {
    let Ok(files) = fs::read_dir(place.join("out")) else {
        return;
    };
    for file in files {
        let path = file.unwrap().path();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("jsonl") => {
                let text = fs::read_to_string(&path).unwrap();
                assert!(
                    text.is_empty() || text.ends_with('\n'),
                    "{left} bytes left: {path:?}"
                );
                for line in text.lines() {
                    let line: Result<Value, _> = serde_json::from_str(line);
                    line.unwrap();
                }
            }
            Some("mp4") => {
                let video = fs::read(&path).unwrap();
                assert!(video.windows(4).any(|name| name == b"moov"), "{path:?}");
            }
            _ => panic!("{left} bytes left: {path:?}"),
        }
    }
}

#[test]
fn a_full_disk_is_one_clear_error_and_with_room_again_results_are_those_of_an_undisturbed_run() {
    let folder = tempfile::tempdir().unwrap();
    let paths = clips(folder.path(), JOBS, FRAMES);
    let undisturbed = undisturbed(&paths, FRAMES);
    let mut refused = 0;
    // The less is left, the earlier it fails: in the store, in results of a segment, in lines, in whole videos.
    for left in [0, 12 << 10, 40 << 10, 57 << 10, 80 << 10, 160 << 10, 320 << 10] {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        let place = folder.join("disk");
        let Some(disk) = SmallDisk::mount(&place, "16m") else {
            return;
        };
        fs::write(folder.join("graph.toml"), graph("disk/")).unwrap();
        submit(folder, "disk/", &paths);
        disk.fill(left);
        let output = run(folder);
        let said = words(&output);
        println!("{left} bytes left: {:?}: {said}", output.status.code());
        if !output.status.success() {
            refused += 1;
            assert_eq!(output.status.code(), Some(2), "{left} bytes left: {said}");
            assert_eq!(
                said.matches("the disk is full").count(),
                1,
                "{left} bytes left: {said}"
            );
        }
        assert_whole(&place, left);
        disk.make_room();
        let output = run(folder);
        succeed(&output);
        let found = report(folder);
        assert_eq!(found["jobs"]["done"], JOBS, "{left} bytes left: {found}");
        assert_eq!(
            found["jobs"]["lost"],
            serde_json::json!([]),
            "{left} bytes left: {found}"
        );
        let frames = u64::from(FRAMES) * JOBS as u64;
        assert_eq!(found["jobs"]["frames"], frames, "{left} bytes left: {found}");
        let what = format!("{left} bytes left");
        assert_same(&place, undisturbed.path(), JOBS, FRAMES, &what);
    }
    assert!(refused >= 3, "{refused}");
}
