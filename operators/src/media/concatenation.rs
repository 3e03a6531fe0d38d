//! Videos of one encoder, one after the other, as one file: packets are copied, not encoded again.

use std::path::{Path, PathBuf};

use ffmpeg_next::{Codec, Dictionary, Error, Packet, Rational, format, media};
use weir_flow::SinkError;

use super::fragments::{self, Form};
use super::init_ffmpeg;
use super::video_place::part_path;
use crate::sinks::target::{disk_full, failed, io_failed, make_folder};

/// Writes the videos `from`, each with the time of its first picture in milliseconds, into `target`. It is written beside it
/// first, and replaces what is there when it is complete. The videos have no B-frames.
///
/// # Errors
/// [`SinkError`]: a file cannot be read or written, or one has another size or encoding than the first.
pub fn concatenate(from: &[(f64, PathBuf)], target: &Path) -> Result<(), SinkError> {
    make_folder(target)?;
    let part = part_path(target);
    let written = write(from, &part).map_err(|(path, error)| match error {
        Error::Other {
            errno: ffmpeg_next::error::ENOSPC,
        } => disk_full(target),
        error => failed(&path, error),
    });
    let done = written.and_then(|()| {
        let sync = || std::fs::File::open(&part)?.sync_all();
        sync().map_err(|error| io_failed(&part, &error))?;
        // FFmpeg does not always say that the end of a file found no room.
        let is_complete = fragments::is_complete(&part, Form::Indexed);
        if !is_complete.map_err(|error| io_failed(&part, &error))? {
            return Err(disk_full(target));
        }
        std::fs::rename(&part, target).map_err(|error| io_failed(target, &error))
    });
    if done.is_err() {
        let _ = std::fs::remove_file(&part);
    }
    done
}

fn write(from: &[(f64, PathBuf)], part: &Path) -> Result<(), (PathBuf, Error)> {
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: Error| (path, error)
    };
    init_ffmpeg().map_err(at(part))?;
    let mut output = format::output_as(part, "mp4").map_err(at(part))?;
    let mut size = None;
    for (start_ms, path) in from {
        let mut input = format::input(path).map_err(at(path))?;
        let stream = input.streams().best(media::Type::Video);
        let stream = stream.ok_or(Error::StreamNotFound).map_err(at(path))?;
        let (index, time_base) = (stream.index(), stream.time_base());
        let (width, height, _) = super::ffi::video_parameters(&stream.parameters());
        match size {
            None => {
                let mut added = output.add_stream(None::<Codec>).map_err(at(part))?;
                added.set_parameters(stream.parameters());
                added.set_time_base(time_base);
                let mut options = Dictionary::new();
                options.set("movflags", "faststart");
                output.write_header_with(options).map(drop).map_err(at(part))?;
                size = Some((width, height));
            }
            Some(first) if first != (width, height) => return Err((path.clone(), Error::InvalidData)),
            Some(_) => {}
        }
        let to = output
            .stream(0)
            .map_or(Rational::new(1, 90_000), |stream| stream.time_base());
        let ticks =
            |ms: f64| (ms * f64::from(to.denominator()) / f64::from(to.numerator().max(1)) / 1000.0).round();
        // A fragmented file forgets when its first picture is shown.
        let mut offset = None;
        loop {
            let mut packet = Packet::empty();
            match packet.read(&mut input) {
                Ok(()) if packet.stream() == index => {
                    packet.set_stream(0);
                    packet.rescale_ts(time_base, to);
                    packet.set_position(-1);
                    let own = packet.dts().or(packet.pts()).unwrap_or(0);
                    let offset = *offset.get_or_insert(ticks(*start_ms) as i64 - own);
                    packet.set_dts(packet.dts().map(|dts| dts + offset));
                    packet.set_pts(packet.pts().map(|pts| pts + offset));
                    packet.write_interleaved(&mut output).map_err(at(part))?;
                }
                Ok(()) => {}
                Err(Error::Eof) => break,
                Err(error) => return Err((path.clone(), error)),
            }
        }
    }
    if size.is_some() {
        output.write_trailer().map_err(at(part))?;
    }
    Ok(())
}
