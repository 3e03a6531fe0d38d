//! Cameras as processes, for tests of several crates: each serves a clip over RTSP, and can be killed and frozen.

#![allow(dead_code, reason = "each test program needs some of it")]
#![allow(clippy::unwrap_used, reason = "a test fails where it cannot go on")]
#![allow(clippy::print_stdout, reason = "a test that skips says so")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Debian's own Python: what its packages bring is not found by one that stands before it in `PATH`.
const PYTHON: &str = "/usr/bin/python3";

/// The program of a camera.
const SCRIPT: &str = include_str!("camera.py");

/// Name, frame rate, size in pixels and sound of a clip.
#[derive(Clone, Copy)]
pub(crate) struct ClipSpec {
    pub(crate) name: &'static str,
    pub(crate) fps: u32,
    pub(crate) size: (u32, u32),
    pub(crate) sound: bool,
}

/// Writes two minutes of H.264 with a key picture each second, which take next to no time to make and to decode.
pub(crate) fn write_clip(folder: &Path, spec: ClipSpec) -> PathBuf {
    let ClipSpec {
        name,
        fps,
        size: (width, height),
        sound,
    } = spec;
    let [short, long] = ["short", "long"].map(|kind| folder.join(format!("{name}-{kind}.mp4")));
    let pictures = format!("testsrc2=size={width}x{height}:rate={fps}");
    ffmpeg(
        &["-f", "lavfi", "-i", &pictures, "-t", "4", "-c:v", "libx264"],
        |command| {
            command.args([
                "-preset",
                "ultrafast",
                "-pix_fmt",
                "yuv420p",
                "-g",
                &fps.to_string(),
            ]);
            command.arg(&short)
        },
    );
    ffmpeg(&["-stream_loop", "29", "-i"], |command| {
        command.arg(&short);
        if sound {
            command.args([
                "-f",
                "lavfi",
                "-i",
                "sine=sample_rate=16000",
                "-t",
                "120",
                "-c:a",
                "aac",
            ]);
        }
        command.args(["-c:v", "copy"]).arg(&long)
    });
    long
}

fn ffmpeg(arguments: &[&str], finish: impl FnOnce(&mut Command) -> &mut Command) {
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-nostdin", "-y"]).args(arguments);
    let made = finish(&mut command).status();
    assert!(made.is_ok_and(|status| status.success()), "no clip by ffmpeg");
}

/// Whether cameras can be started on this machine; if not, prints that the test is skipped.
pub(crate) fn are_available() -> bool {
    let import =
        "import gi; gi.require_version('GstRtspServer', '1.0'); from gi.repository import GstRtspServer";
    let found = Command::new(PYTHON)
        .args(["-c", import])
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success());
    if !found {
        println!("skipped: {PYTHON} has no GstRtspServer; `make setup` installs it");
    }
    found
}

/// A running camera; it is killed when this is dropped.
pub(crate) struct Camera {
    process: Child,
    pub(crate) port: u16,
}

impl Camera {
    /// Starts a camera that shows `clip`, and waits until it listens. `words` are those of the script.
    pub(crate) fn start(clip: &Path, words: &[&str]) -> Self {
        let mut process = Command::new(PYTHON)
            .args(["-c", SCRIPT])
            .arg(clip)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let read = process
            .stdout
            .as_mut()
            .map(|out| BufReader::new(out).read_line(&mut line));
        let port = line.trim().parse();
        assert!(port.is_ok(), "the camera said {line:?}: {read:?}");
        Self {
            process,
            port: port.unwrap(),
        }
    }

    /// Kills the process, as a power cut does.
    pub(crate) fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Freezes the process: its connections stay.
    pub(crate) fn freeze(&self) {
        self.signal("-STOP");
    }

    /// Ends [`Camera::freeze`].
    pub(crate) fn thaw(&self) {
        self.signal("-CONT");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill")
            .args([signal, &self.process.id().to_string()])
            .status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Camera {
    fn drop(&mut self) {
        self.kill();
    }
}
