//! H.264 into an MP4 file that plays even where writing it was cut short.
//!
//! The file is fragmented: what a fragment holds can be played from the moment it is written, so a killed process
//! leaves a good `.part` file. No B-frames: they would want an edit list, which is written too late for that.

use std::path::{Path, PathBuf};

use ffmpeg_next::codec::threading;
use ffmpeg_next::format::Pixel;
use ffmpeg_next::format::context::Output;
use ffmpeg_next::software::scaling::context::Definition;
use ffmpeg_next::{Dictionary, Error, Packet, Rational, codec, color, encoder, format, frame};
use weir_flow::SinkError;

use super::canvas::Canvas;
use crate::media::{Converter, prepare};
use crate::sinks::target::{failed, look_whether_file};

/// Ticks a second of the time stamps.
const TICKS: i32 = 90_000;

/// Frames from one key frame, and so from one fragment, to the next at most.
const KEY_FRAMES: u32 = 50;

/// One video being written.
pub(super) struct Encoder {
    path: PathBuf,
    part: PathBuf,
    output: Output,
    encoder: encoder::Video,
    width: u32,
    height: u32,
    converter: Option<Converter>,
    last_tick: Option<i64>,
    /// The last packet, held back until the next one says how long it is shown.
    held: Option<Packet>,
    /// How long a picture is shown where no next one says it, in ticks.
    duration: i64,
}

impl Encoder {
    /// Starts `path` as `path.part`, of the given size rounded down to even.
    pub(super) fn open(path: &Path, width: u32, height: u32, crf: f64) -> Result<Self, SinkError> {
        let part = part_of(path);
        look_whether_file(path, &part)?;
        if part.to_str().is_none_or(|name| name.contains('\0')) {
            return Err(failed(path, "the name is no UTF-8 text: choose another one"));
        }
        let (width, height) = (width & !1, height & !1);
        if width == 0 || height == 0 {
            return Err(failed(path, "the frames are smaller than two pixels"));
        }
        let fail = |error: Error| explain(path, error);
        prepare().map_err(fail)?;
        let mut output = format::output_as(&part, "mp4").map_err(fail)?;
        let encoder = h264(width, height, crf)
            .map_err(|error| failed(path, format!("FFmpeg's libx264 does not start: {error}")))?;
        let mut stream = output.add_stream(ffmpeg_next::codec::Id::H264).map_err(fail)?;
        stream.set_parameters(&encoder);
        stream.set_time_base(Rational::new(1, TICKS));
        let mut flags = Dictionary::new();
        // A fragment goes to the disk when it is complete, not when a buffer happens to be full.
        flags.set("flush_packets", "1");
        flags.set("movflags", "frag_keyframe+empty_moov+default_base_moof");
        output.write_header_with(flags).map_err(fail)?;
        let path = path.to_owned();
        Ok(Self {
            path,
            part,
            output,
            encoder,
            width,
            height,
            converter: None,
            last_tick: None,
            held: None,
            duration: i64::from(TICKS) / 25,
        })
    }

    /// Appends a picture that is shown from `pts_ms` on; scaled where its size is another one.
    pub(super) fn write(&mut self, canvas: &Canvas, pts_ms: f64) -> Result<(), SinkError> {
        let mut picture = self.convert(canvas).map_err(|error| explain(&self.path, error))?;
        let tick = (pts_ms * f64::from(TICKS) / 1000.0).round() as i64;
        // A player goes forwards only.
        let tick = self.last_tick.map_or(tick, |last| tick.max(last + 1));
        self.last_tick = Some(tick);
        picture.set_pts(Some(tick));
        let sent = self.encoder.send_frame(&picture).and_then(|()| self.mux());
        sent.map_err(|error| explain(&self.path, error))
    }

    fn convert(&mut self, canvas: &Canvas) -> Result<frame::Video, Error> {
        let size = |side: u32, own: u32| if side & !1 == own { own } else { side };
        let (width, height) = (
            size(canvas.width(), self.width),
            size(canvas.height(), self.height),
        );
        let from = Definition {
            format: Pixel::RGB24,
            width,
            height,
        };
        if self
            .converter
            .as_ref()
            .is_none_or(|converter| *converter.from() != from)
        {
            let to = Definition {
                format: Pixel::YUV420P,
                width: self.width,
                height: self.height,
            };
            self.converter = Converter::new(from, to);
        }
        let mut drawn = frame::Video::new(Pixel::RGB24, width, height);
        let (stride, bytes) = (drawn.stride(0), width as usize * 3);
        for (line, row) in drawn.data_mut(0).chunks_mut(stride).zip(canvas.rows()) {
            line[..bytes].copy_from_slice(&row[..bytes]);
        }
        let mut picture = frame::Video::empty();
        self.converter
            .as_mut()
            .ok_or(Error::InvalidData)?
            .run(&drawn, &mut picture)?;
        Ok(picture)
    }

    /// Writes the packets that are ready, but for the last.
    fn mux(&mut self) -> Result<(), Error> {
        loop {
            let mut packet = Packet::empty();
            match self.encoder.receive_packet(&mut packet) {
                Ok(()) => {
                    if let (Some(held), Some(next)) = (self.held.as_ref().and_then(Packet::pts), packet.pts())
                    {
                        self.duration = next - held;
                    }
                    let held = self.held.replace(packet);
                    self.append(held)?;
                }
                Err(Error::Other {
                    errno: ffmpeg_next::error::EAGAIN,
                }) => return Ok(()),
                Err(Error::Eof) => {
                    let held = self.held.take();
                    return self.append(held);
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn append(&mut self, packet: Option<Packet>) -> Result<(), Error> {
        let Some(mut packet) = packet else { return Ok(()) };
        let time_base = self
            .output
            .stream(0)
            .map_or(Rational::new(1, TICKS), |stream| stream.time_base());
        packet.set_stream(0);
        packet.set_duration(self.duration);
        packet.rescale_ts(Rational::new(1, TICKS), time_base);
        packet.write_interleaved(&mut self.output)
    }

    /// Completes the file and gives it its name. After an error of writing, what is there is kept as far as it goes.
    pub(super) fn finish(mut self) -> Result<(), SinkError> {
        let drained = self.encoder.send_eof().and_then(|()| self.mux());
        let closed = self.output.write_trailer();
        drop(self.output);
        if let Err(error) = drained.and(closed) {
            let SinkError { target, reason } = explain(&self.path, error);
            let reason = format!("{reason}; what was written is in {}", self.part.display());
            return Err(SinkError { target, reason });
        }
        std::fs::rename(&self.part, &self.path).map_err(|error| failed(&self.path, error))
    }
}

/// What a file is called while it is being written.
pub(super) fn part_of(path: &Path) -> PathBuf {
    let mut part = path.as_os_str().to_owned();
    part.push(".part");
    PathBuf::from(part)
}

fn h264(width: u32, height: u32, crf: f64) -> Result<encoder::Video, Error> {
    let codec = encoder::find_by_name("libx264").ok_or(Error::EncoderNotFound)?;
    let mut context = codec::Context::new_with_codec(codec);
    context.set_flags(codec::Flags::GLOBAL_HEADER);
    // Cores belong to the workers.
    context.set_threading(threading::Config {
        kind: threading::Type::None,
        count: 1,
        ..Default::default()
    });
    let mut video = context.encoder().video()?;
    video.set_width(width);
    video.set_height(height);
    video.set_format(Pixel::YUV420P);
    video.set_time_base(Rational::new(1, TICKS));
    video.set_frame_rate(Some(Rational::new(25, 1)));
    video.set_gop(KEY_FRAMES);
    video.set_max_b_frames(0);
    // As the conversion makes it, at any size; players guess by the size where this is not said.
    video.set_colorspace(color::Space::SMPTE170M);
    video.set_color_range(color::Range::MPEG);
    let mut options = Dictionary::new();
    options.set("preset", "veryfast");
    // No look-ahead: a camera that delivers now and then would keep dozens of pictures in its encoder for half a minute.
    options.set("tune", "zerolatency");
    options.set("crf", &format!("{:.1}", crf.clamp(0.0, 51.0)));
    video.open_with(options)
}

fn explain(path: &Path, error: Error) -> SinkError {
    match error {
        Error::Other {
            errno: ffmpeg_next::error::ENOSPC,
        } => failed(path, "the disk is full: make room or write elsewhere"),
        other => failed(path, other),
    }
}
