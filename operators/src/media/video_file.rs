//! Pictures into an MP4 file, through a `.part` file beside it.
//!
//! Live pictures make a fragmented file, so that a killed process leaves a playable `.part` file. It has no B-frames:
//! they need an edit list, which is written too late for that. Other pictures make a file with its index at the front,
//! which cannot be played before it is finished.

use std::path::{Path, PathBuf};

use ffmpeg_next::format::context::Output;
use ffmpeg_next::{Dictionary, Error, Packet, Rational, encoder, format};
use weir_flow::SinkError;

use super::encoder::{Encoding, Headers, TICKS, encoder};
use super::fragments::Form;
use super::init_ffmpeg;
use super::rgb_converter::RgbConverter;
use super::video_place::{Naming, VideoPlace};
use crate::sinks::target::{disk_full, failed, io_failed};

/// A picture to encode: rows of red, green, blue, `width * height * 3` samples.
#[derive(Debug, Clone, Copy)]
pub struct Rgb<'a> {
    /// Width in pixels.
    pub width: u32,
    /// Height in pixels.
    pub height: u32,
    /// Rows from the top.
    pub samples: &'a [u8],
}

/// A video being written.
pub struct VideoFile {
    place: VideoPlace,
    encoding: Encoding,
    output: Output,
    encoder: encoder::Video,
    converter: RgbConverter,
    last_tick: Option<i64>,
    /// The last packet, kept until the next one determines its duration.
    held: Option<Packet>,
    /// Duration in ticks of a packet without a successor.
    duration: i64,
    /// Packets received from the encoder.
    packets: u64,
}

impl VideoFile {
    /// Starts a video that replaces `path` when complete, of the given size rounded down to even. Creates missing
    /// folders.
    ///
    /// # Errors
    /// [`SinkError`] if no file can be written there, or this FFmpeg lacks the encoder.
    pub fn create(path: &Path, size: (u32, u32), encoding: Encoding) -> Result<Self, SinkError> {
        Self::begin(VideoPlace::claim(path, Naming::Replace)?, size, encoding)
    }

    /// Starts a video at a claimed place.
    ///
    /// # Errors
    /// As [`VideoFile::create`].
    pub fn begin(
        mut place: VideoPlace,
        (width, height): (u32, u32),
        encoding: Encoding,
    ) -> Result<Self, SinkError> {
        let path = place.path().to_owned();
        let path = path.as_path();
        let (width, height) = (width & !1, height & !1);
        if width == 0 || height == 0 {
            return Err(failed(path, "the frames are smaller than two pixels"));
        }
        let fail = |error: Error| sink_error(path, error);
        init_ffmpeg().map_err(fail)?;
        let name = encoding.codec.encoder();
        if !encoding.codec.is_available() {
            return Err(failed(
                path,
                format!("this FFmpeg has no {name}: install one that has it"),
            ));
        }
        let encoder = encoder(&encoding, (width, height), Headers::Container)
            .map_err(|error| failed(path, format!("FFmpeg's {name} does not start: {error}")))?;
        let mut output = format::output_as(place.part_path(), "mp4").map_err(fail)?;
        place.begin();
        let mut stream = output.add_stream(encoding.codec.id()).map_err(fail)?;
        stream.set_parameters(&encoder);
        stream.set_time_base(Rational::new(1, TICKS));
        output.write_header_with(muxer_options(&encoding)).map_err(fail)?;
        Ok(Self {
            place,
            encoding,
            output,
            encoder,
            converter: RgbConverter::new((width, height)),
            last_tick: None,
            held: None,
            duration: (f64::from(TICKS) / encoding.fps) as i64,
            packets: 0,
        })
    }

    /// Appends a picture shown from `pts_ms` on, scaled to the size of the video.
    ///
    /// # Errors
    /// [`SinkError`] of the encoder or the disk.
    pub fn write(&mut self, picture: Rgb<'_>, pts_ms: f64) -> Result<(), SinkError> {
        let mut picture = self
            .converter
            .convert(picture)
            .map_err(|error| sink_error(self.place.path(), error))?;
        let tick = (pts_ms * f64::from(TICKS) / 1000.0).round() as i64;
        // Times must increase for players.
        let tick = self.last_tick.map_or(tick, |last| tick.max(last + 1));
        self.last_tick = Some(tick);
        picture.set_pts(Some(tick));
        let sent = self.encoder.send_frame(&picture).and_then(|()| self.mux());
        sent.map_err(|error| sink_error(self.place.path(), error))
    }

    /// Changes the size of the following pictures, rounded down to even, as in a stream whose sender changes it. Not
    /// supported with B-frames, whose decoding order would cross the change.
    ///
    /// # Errors
    /// [`SinkError`] of the encoder or the disk.
    pub fn resize(&mut self, width: u32, height: u32) -> Result<(), SinkError> {
        let size = ((width & !1).max(2), (height & !1).max(2));
        let drained = self.encoder.send_eof().and_then(|()| self.mux());
        let next = drained.and_then(|()| encoder(&self.encoding, size, Headers::InBand));
        self.encoder = next.map_err(|error| sink_error(self.place.path(), error))?;
        self.converter = RgbConverter::new(size);
        Ok(())
    }

    /// Writes the packets that are ready, except the last.
    fn mux(&mut self) -> Result<(), Error> {
        loop {
            let mut packet = Packet::empty();
            match self.encoder.receive_packet(&mut packet) {
                Ok(()) => {
                    let held = self.held.as_ref().and_then(Packet::dts);
                    if let (Some(held), Some(next)) = (held, packet.dts()) {
                        self.duration = next - held;
                    }
                    let held = self.held.replace(packet);
                    self.append(held)?;
                }
                Err(
                    Error::Eof
                    | Error::Other {
                        errno: ffmpeg_next::error::EAGAIN,
                    },
                ) => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn append(&mut self, packet: Option<Packet>) -> Result<(), Error> {
        let Some(mut packet) = packet else { return Ok(()) };
        self.packets += 1;
        if self
            .encoding
            .drop_every
            .is_some_and(|every| self.packets.is_multiple_of(every))
        {
            return Ok(());
        }
        let time_base = self
            .output
            .stream(0)
            .map_or(Rational::new(1, TICKS), |stream| stream.time_base());
        packet.set_stream(0);
        packet.set_duration(self.duration);
        packet.rescale_ts(Rational::new(1, TICKS), time_base);
        packet.write_interleaved(&mut self.output)
    }

    /// Completes the file, renames it and returns its path. After a write error, the written fragments of a live video
    /// are kept.
    ///
    /// # Errors
    /// [`SinkError`] of the encoder or the disk.
    pub fn finish(mut self) -> Result<PathBuf, SinkError> {
        let drained = self.encoder.send_eof().and_then(|()| self.mux());
        let held = self.held.take();
        let drained = drained.and_then(|()| self.append(held));
        let closed = self.output.write_trailer();
        drop(self.output);
        let form = match self.encoding.live {
            true => Form::Fragmented,
            false => Form::Indexed,
        };
        let written = drained.and(closed);
        let written = written.map_err(|error| sink_error(self.place.path(), error));
        // FFmpeg does not always say that the end of a file found no room.
        let complete = written.and_then(|()| match self.place.is_complete(form) {
            Ok(true) => Ok(()),
            Ok(false) => Err(disk_full(self.place.path())),
            Err(error) => Err(io_failed(self.place.path(), &error)),
        });
        if let Err(SinkError { target, mut reason }) = complete {
            if self.encoding.live {
                reason = format!(
                    "{reason}; what was written is in {}",
                    self.place.part_path().display()
                );
            } else {
                self.place.discard();
            }
            return Err(SinkError { target, reason });
        }
        let path = self.place.path().to_owned();
        self.place.finish().map_err(|error| failed(&path, error))
    }

    /// Abandons the video and removes its file.
    pub fn discard(self) {
        drop(self.output);
        self.place.discard();
    }
}

/// Options of FFmpeg's muxer.
fn muxer_options(encoding: &Encoding) -> Dictionary<'static> {
    let mut flags = Dictionary::new();
    if encoding.live {
        // A fragment is flushed when it is complete, not when a buffer happens to be full.
        flags.set("flush_packets", "1");
        flags.set("movflags", "frag_keyframe+empty_moov+default_base_moof");
    } else {
        flags.set("movflags", "faststart");
    }
    flags
}

fn sink_error(path: &Path, error: Error) -> SinkError {
    match error {
        Error::Other {
            errno: ffmpeg_next::error::ENOSPC,
        } => disk_full(path),
        other => failed(path, other),
    }
}
