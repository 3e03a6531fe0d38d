//! Short clips for scenes of the page: fragments for players, and pictures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::common::run_ffmpeg;

/// Sample videos and the second that a clip begins at.
const SOURCES: [(&str, u32); 5] = [
    ("street-day", 4),
    ("street-dusk", 6),
    ("live-room", 2),
    ("live-evening", 2),
    ("game-match", 3),
];

/// Seconds of a clip.
pub(crate) const SECONDS: u64 = 3;

/// Parts of the picture that stand for objects: left and top, in parts of 4 and 3.
const PARTS: [(u32, u32); 3] = [(1, 1), (2, 1), (0, 2)];

/// See the module.
pub(crate) struct Clip {
    /// MIME type with the codec, as players need it.
    pub(crate) mime: String,
    pub(crate) header: Vec<u8>,
    /// One of each frame; the first one has the only key frame.
    pub(crate) fragments: Vec<Vec<u8>>,
    pub(crate) picture: Vec<u8>,
    /// Pictures of parts of it.
    pub(crate) parts: Vec<Vec<u8>>,
    pub(crate) file: PathBuf,
}

/// Clips, which are made once.
pub(crate) fn clips() -> &'static [Clip] {
    static CLIPS: OnceLock<Vec<Clip>> = OnceLock::new();
    CLIPS.get_or_init(|| {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("page-clips");
        std::fs::create_dir_all(&folder).unwrap();
        let clips = SOURCES.iter().map(|(name, begin)| make(&folder, name, *begin));
        clips.collect()
    })
}

/// Runs FFmpeg on a sample video from a second on.
fn ffmpeg(name: &str, begin: u32, args: &[&str], out: &Path) -> Vec<u8> {
    let video = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../videos/{name}.mp4"));
    let mut ffmpeg = Command::new("ffmpeg");
    ffmpeg.args(["-loglevel", "error", "-y", "-ss", &begin.to_string(), "-i"]);
    run_ffmpeg(ffmpeg.arg(video).args(args).arg(out));
    std::fs::read(out).unwrap()
}

fn make(folder: &Path, name: &str, begin: u32) -> Clip {
    let file = folder.join(format!("{name}.mp4"));
    let seconds = SECONDS.to_string();
    let video = [
        "-t",
        &seconds,
        "-an",
        "-vf",
        "scale=640:360,fps=10",
        "-c:v",
        "libx264",
        "-preset",
        "veryfast",
        "-bf",
        "0",
        "-g",
        "30",
        "-pix_fmt",
        "yuv420p",
        "-movflags",
        "empty_moov+default_base_moof+frag_every_frame",
        "-f",
        "mp4",
    ];
    let bytes = ffmpeg(name, begin, &video, &file);
    let still = |filter: &str, out: &str| {
        let out = folder.join(format!("{name}-{out}.jpg"));
        ffmpeg(name, begin, &["-frames:v", "1", "-vf", filter, "-q:v", "4"], &out)
    };
    let parts = PARTS.iter().enumerate().map(|(index, (x, y))| {
        let filter = format!("scale=960:540,crop=iw/4:ih/3:iw*{x}/4:ih*{y}/3");
        still(&filter, &index.to_string())
    });
    let (header, fragments) = split(&bytes);
    Clip {
        mime: mime(&header),
        header,
        fragments,
        picture: still("scale=960:540", "whole"),
        parts: parts.collect(),
        file,
    }
}

/// The header of a fragmented MP4, and its fragments (ISO/IEC 14496-12).
fn split(mp4: &[u8]) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (mut header, mut fragments, mut at) = (Vec::new(), Vec::<Vec<u8>>::new(), 0);
    while let Some(head) = mp4.get(at..at + 8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let whole = &mp4[at..at + length];
        match &head[4..] {
            b"moof" => fragments.push(whole.to_vec()),
            b"mdat" => fragments.last_mut().unwrap().extend_from_slice(whole),
            b"mfra" => {}
            _ => header.extend_from_slice(whole),
        }
        at += length;
    }
    (header, fragments)
}

/// The MIME type by the `avcC` record of a header.
fn mime(header: &[u8]) -> String {
    let at = header.windows(4).position(|kind| kind == b"avcC").unwrap() + 5;
    let [profile, compatible, level] = [header[at], header[at + 1], header[at + 2]];
    format!("video/mp4; codecs=\"avc1.{profile:02x}{compatible:02x}{level:02x}\"")
}
