//! The disk of a queue and its results runs full.

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::setting::{assert_same, clips, graph, report, run, submit, succeed, undisturbed, words};

const FRAMES: u32 = 45;
const JOBS: usize = 2;

/// A small disk at a folder, until it is dropped.
struct Disk(PathBuf);

impl Disk {
    /// `None` where the system lets a test mount none.
    fn mount(at: &Path) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=16m", "tmpfs"])
            .arg(at)
            .output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        is_mounted.then(|| Self(at.to_owned()))
    }

    /// Takes all its room but for `left` bytes.
    fn fill(&self, left: u64) {
        let mut filler = File::create(self.filler()).unwrap();
        while filler.write_all(&[0; 4_096]).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(left)).unwrap();
    }

    fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).status();
    }
}

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
        let Some(disk) = Disk::mount(&place) else {
            println!("skipped: this system mounts no disk for a test");
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
