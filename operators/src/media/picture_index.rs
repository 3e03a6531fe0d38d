//! The pictures of a recording by its packets, without decoding: when each is shown, and which are key frames.

use std::path::Path;

use ffmpeg_next::{Error, Packet, media};
use weir_flow::{SourceError, StopFlag};

use super::driver_thread::DriverThread;
use super::packet_times::tick_ms;
use super::timeline::Timeline;
use super::{DEFAULT_FPS, SourceOptions, cannot_open, container, open};

/// Pictures of one recording: four days at 25 a second, 130 MB of memory while they are read.
const MAX_PICTURES: usize = 8_640_000;

/// Consecutive read errors after which a file is taken to have ended.
const MAX_ERRORS_IN_A_ROW: u32 = 1_000;

/// The pictures of a recording, in the order of presentation.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PictureIndex {
    /// Media time in milliseconds, from 0, and whether it is a key frame.
    pub pictures: Vec<(f64, bool)>,
    /// Description of the truncation, if the file was cut off.
    pub truncation: Option<String>,
}

/// Reads all packets of the file.
///
/// # Errors
/// [`SourceError::Open`]: the file is not there, is no video, has no time stamps, or has too many pictures.
pub fn index_pictures(path: &Path, stop: &StopFlag) -> Result<PictureIndex, SourceError> {
    let uri = path.to_string_lossy();
    let mut input = open::open(&DriverThread::default(), &uri, &SourceOptions::default(), stop)?;
    let best = input.streams().best(media::Type::Video);
    let stream = best.ok_or_else(|| cannot_open(&uri, open::no_video_reason(&uri, &input)))?;
    if open::lacks_timestamps(&input) {
        let reason = "its pictures have no time stamps: put it into a container, such as MP4";
        return Err(cannot_open(&uri, reason));
    }
    let (index, tick_ms) = (stream.index(), tick_ms(stream.time_base()));
    let fps = f64::from(stream.avg_frame_rate());
    let named = stream.frames();
    let truncation = container::truncation(path, input.format().name());
    let (mut stamps, mut errors, mut damaged) = (Vec::new(), 0, false);
    while errors < MAX_ERRORS_IN_A_ROW && !stop.is_raised() {
        let mut packet = Packet::empty();
        match packet.read(&mut input) {
            Ok(()) => errors = 0,
            Err(Error::Eof) => break,
            Err(_) => {
                (errors, damaged) = (errors + 1, true);
                continue;
            }
        }
        if packet.stream() == index
            && let Some(stamp) = packet.pts().or(packet.dts())
        {
            stamps.push((stamp, packet.is_key()));
        }
        if stamps.len() > MAX_PICTURES {
            return Err(cannot_open(
                &uri,
                format!("it has more than {MAX_PICTURES} pictures: cut it into several"),
            ));
        }
    }
    stamps.sort_by_key(|(stamp, _)| *stamp);
    let mut timeline = Timeline::new(if fps.is_finite() { fps } else { DEFAULT_FPS }, false);
    let pictures: Vec<(f64, bool)> = stamps
        .iter()
        .map(|(stamp, key)| (timeline.next(Some(*stamp as f64 * tick_ms)), *key))
        .collect();
    let missing = damaged && i64::try_from(pictures.len()).is_ok_and(|there| there < named);
    let by_count = missing.then(|| format!("it holds {} of {named} frames", pictures.len()));
    Ok(PictureIndex {
        truncation: truncation.or(by_count),
        pictures,
    })
}
