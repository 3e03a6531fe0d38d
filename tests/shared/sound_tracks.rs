//! Videos with a tone, and the tracks of a video with sound as ffprobe reads them.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(dead_code, reason = "each test program needs some of it")]

use std::path::Path;
use std::process::Command;

/// Longest time between the begins of two tracks that are in step, and between their ends, in seconds: two frames of AAC at 8 kHz.
pub(crate) const STEP_S: f64 = 0.26;

/// Bytes of a packet with a tone; one of silence has fewer.
const MIN_TONE: u64 = 40;

/// Options of the encoder for sound as AAC, and as G.711.
pub(crate) const AAC: &[&str] = &["-c:a", "aac"];
pub(crate) const ALAW: &[&str] = &["-c:a", "pcm_alaw", "-ar", "8000"];

/// Writes the pictures of a video with a tone of twelve seconds. `input` are options of the tone, such as when it begins, and
/// `encoder` those of its encoder.
pub(crate) fn write_with_tone(pictures: &Path, (input, encoder): (&[&str], &[&str]), to: &Path) {
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-nostdin", "-y", "-i"])
        .arg(pictures)
        .args(input)
        .args([
            "-f",
            "lavfi",
            "-i",
            "sine=frequency=440:sample_rate=16000:duration=12",
        ])
        .args(["-map", "0:v", "-map", "1:a", "-c:v", "copy"])
        .args(encoder)
        .arg(to)
        .status()
        .unwrap_or_else(|error| panic!("ffmpeg: {error}; make setup installs it"));
    assert!(made.success(), "{}", to.display());
}

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

    /// Begins of the packets with a tone.
    pub(crate) fn tones_s(&self) -> impl Iterator<Item = f64> {
        let heard = self.packets.iter().filter(|(_, bytes)| *bytes >= MIN_TONE);
        heard.map(|(at_s, _)| *at_s)
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
