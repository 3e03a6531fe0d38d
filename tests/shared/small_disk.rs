//! A small disk that tests of several crates fill.

#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(clippy::print_stdout, reason = "what is skipped is said")]

use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A disk in memory at a folder, until it is dropped.
pub(crate) struct SmallDisk(PathBuf);

impl SmallDisk {
    /// One of that size, as `mount` has it; `None` where the system lets a test mount none.
    pub(crate) fn mount(at: &Path, size: &str) -> Option<Self> {
        fs::create_dir_all(at).unwrap();
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", &format!("size={size}"), "tmpfs"])
            .arg(at)
            .output();
        let is_mounted = mounted.is_ok_and(|mounted| mounted.status.success());
        if !is_mounted {
            println!("skipped: this system mounts no disk for a test");
        }
        is_mounted.then(|| Self(at.to_owned()))
    }

    /// Takes all its room but for `left` bytes.
    pub(crate) fn fill(&self, left: u64) {
        let mut filler = File::create(self.filler()).unwrap();
        while filler.write_all(&[0; 4_096]).is_ok() {}
        let length = filler.metadata().unwrap().len();
        filler.set_len(length.saturating_sub(left)).unwrap();
    }

    /// Gives the room back that was taken.
    pub(crate) fn make_room(&self) {
        fs::remove_file(self.filler()).unwrap();
    }

    fn filler(&self) -> PathBuf {
        self.0.join("filler")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.0).output();
    }
}
