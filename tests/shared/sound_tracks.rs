//! Tracks of a video with sound, as ffprobe reads them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;
use std::process::Command;

/// Longest time between the begins of two tracks that are in step, and between their ends, in seconds: two frames of AAC at 8 kHz.
pub(crate) const STEP_S: f64 = 0.26;

/// A track of a file.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) codec: String,
    /// Begin of each packet and its bytes, by time.
    pub(crate) packets: Vec<(f64, u64)>,
    /// Time at which the last packet ends.
    pub(crate) end_s: f64,
}

impl Track {
    pub(crate) fn begin_s(&self) -> f64 {
        self.packets.first().map_or(f64::NAN, |(at_s, _)| *at_s)
    }

    /// Longest time between the begins of two packets.
    pub(crate) fn longest_step_s(&self) -> f64 {
        let steps = self.packets.windows(2).map(|pair| pair[1].0 - pair[0].0);
        steps.fold(0.0, f64::max)
    }
}

fn ffprobe(path: &Path, select: &str, entries: &str) -> String {
    let probed = Command::new("ffprobe")
        .args(["-v", "error", "-select_streams", select, "-show_entries", entries])
        .args(["-of", "csv=p=0"])
        .arg(path)
        .output()
        .unwrap_or_else(|error| panic!("ffprobe: {error}; make setup installs it"));
    let said = String::from_utf8_lossy(&probed.stderr);
    assert!(said.trim().is_empty(), "{}: {said}", path.display());
    String::from_utf8(probed.stdout).unwrap()
}

/// The track of the video (`v`) or of the sound (`a`); `None` if the file has none.
pub(crate) fn track(path: &Path, select: &str) -> Option<Track> {
    let codec = ffprobe(path, select, "stream=codec_name").trim().to_owned();
    if codec.is_empty() {
        return None;
    }
    let text = ffprobe(path, select, "packet=pts_time,duration_time,size");
    let numbers = text.lines().map(|line| {
        let mut parts = line.split(',').map(|part| part.parse().unwrap_or(0.0));
        let mut next = || parts.next().unwrap_or(0.0);
        (next(), next(), next())
    });
    let mut packets: Vec<(f64, f64, f64)> = numbers.collect();
    packets.sort_by(|one, other| one.0.total_cmp(&other.0));
    let end_s = packets.iter().map(|(at_s, duration_s, _)| at_s + duration_s);
    Some(Track {
        codec,
        end_s: end_s.fold(0.0, f64::max),
        packets: packets
            .iter()
            .map(|(at_s, _, bytes)| (*at_s, *bytes as u64))
            .collect(),
    })
}

/// Pictures and sound of a file, which have to begin and end together, without a gap in the sound.
pub(crate) fn in_step(path: &Path) -> (Track, Track) {
    let (video, sound) = (track(path, "v").unwrap(), track(path, "a").unwrap());
    let shown = path.display();
    let apart = [video.begin_s() - sound.begin_s(), video.end_s - sound.end_s];
    assert!(
        apart.iter().all(|apart_s| apart_s.abs() <= STEP_S),
        "{shown}: {apart:?}"
    );
    let longest_s = sound.longest_step_s();
    assert!(longest_s <= 0.13, "{shown}: a gap of {longest_s} s in the sound");
    (video, sound)
}
