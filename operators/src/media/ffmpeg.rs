//! Whatever FFmpeg opens, decoded in presentation order. Every packet is decoded: what is dropped later is frames.

use std::sync::Arc;

use ffmpeg_next::codec::threading;
use ffmpeg_next::format::context::Input;
use ffmpeg_next::{Error, Packet, codec, decoder, format, frame, media};
use weir_flow::{DecodeLimit, Frame, Source, SourceCounts, SourceError, SourceInfo, StopFlag};

use super::orientation::Orientation;
use super::picture::Pictures;
use super::timeline::Timeline;
use super::{DEFAULT_FPS, SourceOptions, cannot_open, container, ffi, open};

/// Read errors in a row after which a source is given up. A demuxer that stands still reports errors for ever.
const MAX_ERRORS_IN_A_ROW: u64 = 10_000;

/// A video stream.
pub struct FfmpegSource {
    uri: String,
    input: Input,
    decoder: decoder::Video,
    stream: usize,
    /// Milliseconds of a tick of the stream's time stamps.
    tick_ms: f64,
    info: SourceInfo,
    options: SourceOptions,
    stop: StopFlag,
    limit: Option<Arc<dyn DecodeLimit>>,
    pictures: Pictures,
    /// How the container says that pictures are to be turned.
    orientation: Option<Orientation>,
    timeline: Option<Timeline>,
    stamped: bool,
    /// What is missing of the file.
    truncation: Option<String>,
    /// Pictures that were decoded.
    index: u64,
    /// Packets of the stream that were read.
    packets: u64,
    counts: SourceCounts,
    state: State,
}

/// Reading -> Draining -> Ended; a break goes from Draining over Broken to Ended.
enum State {
    /// Packets come; so many read errors since the last good one.
    Reading { errors: u64 },
    /// No more packets; the decoder gives what it held back. Then it breaks off for this reason, or ends.
    Draining { reason: Option<String> },
    /// Nothing more comes.
    Ended,
}

impl FfmpegSource {
    /// Opens a file or an address.
    ///
    /// # Errors
    /// [`SourceError::Open`] with the reason.
    pub fn open(uri: &str, options: SourceOptions, stop: &StopFlag) -> Result<Self, SourceError> {
        let input = open::open(uri, options, stop)?;
        let stream = input
            .streams()
            .best(media::Type::Video)
            .filter(|stream| {
                !stream
                    .disposition()
                    .contains(format::stream::Disposition::ATTACHED_PIC)
            })
            .ok_or_else(|| cannot_open(uri, "it holds no video stream: name a file that does"))?;
        let fail = |error: Error| cannot_open(uri, format!("its video cannot be decoded: {error}"));
        let mut context = codec::Context::from_parameters(stream.parameters()).map_err(fail)?;
        // One thread means none beside the caller's, and no frames of delay.
        let kind = if options.threads > 1 {
            threading::Type::Frame
        } else {
            threading::Type::None
        };
        context.set_threading(threading::Config {
            kind,
            count: options.threads.max(1),
            ..threading::Config::default()
        });
        let decoder = context.decoder().video().map_err(fail)?;
        let time_base = stream.time_base();
        let stamped = !open::lacks_timestamps(&input);
        let frames = u64::try_from(stream.frames()).ok().filter(|frames| *frames > 0);
        let declared = rate(stream.avg_frame_rate()).or_else(|| rate(stream.rate()));
        let fps = if stamped {
            declared
        } else {
            options.fps.or(declared).or(Some(DEFAULT_FPS))
        };
        let matrix = ffi::display_matrix(&stream);
        let orientation = matrix.and_then(|matrix| Orientation::of_matrix(&matrix));
        let (width, height) = orientation
            .unwrap_or_default()
            .size((decoder.width(), decoder.height()));
        let truncation =
            open::local_path(uri).and_then(|path| container::truncation(path, input.format().name()));
        let info = SourceInfo {
            width,
            height,
            fps,
            frames,
            live: open::is_live(uri, &input),
            stamped: open::has_own_clock(&input),
        };
        Ok(Self {
            uri: uri.to_owned(),
            tick_ms: 1000.0 * f64::from(time_base.numerator()) / f64::from(time_base.denominator().max(1)),
            stream: stream.index(),
            input,
            decoder,
            info,
            options,
            stop: stop.clone(),
            limit: None,
            pictures: Pictures::default(),
            orientation,
            timeline: None,
            stamped,
            truncation,
            index: 0,
            packets: 0,
            counts: SourceCounts::default(),
            state: State::Reading { errors: 0 },
        })
    }

    /// A picture that the decoder has ready.
    fn receive_frame(&mut self) -> Option<Frame> {
        loop {
            let mut picture = frame::Video::empty();
            let received = decode_limited(self.limit.as_deref(), || self.decoder.receive_frame(&mut picture));
            match received {
                Ok(()) => {
                    let index = self.index;
                    self.index += 1;
                    let pts_ms = self.frame_time_ms(&picture);
                    // What the decoder made up from its neighbours is shown, marked and counted.
                    let concealed = picture.is_corrupt() || picture.has_decode_errors();
                    let orientation = self.orientation_of(&picture);
                    let Some(image) = self.pictures.image(picture, orientation) else {
                        self.counts.damaged += 1;
                        continue;
                    };
                    self.counts.concealed += u64::from(concealed);
                    let mut frame = Frame::new(index, pts_ms, image);
                    frame.concealed = concealed;
                    return Some(frame);
                }
                // The decoder wants more, or has given all.
                Err(Error::Other { .. } | Error::Eof) => return None,
                Err(_) => {
                    self.counts.damaged += 1;
                    if matches!(self.state, State::Draining { .. })
                        && self.counts.damaged > MAX_ERRORS_IN_A_ROW
                    {
                        return None;
                    }
                }
            }
        }
    }

    /// How a picture is to be turned: as the container says, else as the picture says itself.
    fn orientation_of(&self, picture: &frame::Video) -> Orientation {
        let of_picture = || {
            let data = picture.side_data(frame::side_data::Type::DisplayMatrix)?;
            Orientation::of_matrix(data.data())
        };
        self.orientation.or_else(of_picture).unwrap_or_default()
    }

    fn frame_time_ms(&mut self, picture: &frame::Video) -> f64 {
        let timeline = self.timeline.get_or_insert_with(|| {
            // The rate that the stream itself states is known once its first picture is decoded.
            let stated = self.decoder.frame_rate().and_then(rate);
            let rate = if self.stamped {
                self.info.fps
            } else {
                self.options.fps.or(stated).or(self.info.fps)
            };
            let fps = rate.unwrap_or(DEFAULT_FPS);
            self.info.fps = self.info.fps.map(|known| if self.stamped { known } else { fps });
            Timeline::new(fps, self.info.live)
        });
        let stamp = if self.stamped { picture.timestamp() } else { None };
        timeline.next(stamp.map(|stamp| stamp as f64 * self.tick_ms))
    }

    /// Reads one packet into the decoder, or finds out that there are no more.
    fn feed(&mut self, errors: u64) {
        let mut packet = Packet::empty();
        self.state = match packet.read(&mut self.input) {
            Ok(()) => {
                if packet.stream() == self.stream {
                    self.packets += 1;
                    let sent = decode_limited(self.limit.as_deref(), || self.decoder.send_packet(&packet));
                    if sent.is_err() {
                        self.counts.damaged += 1;
                    }
                }
                State::Reading { errors: 0 }
            }
            Err(Error::Eof) => {
                let reason = self.truncation_reason();
                self.drain(reason)
            }
            Err(Error::Exit) if self.stop.is_raised() => State::Ended,
            Err(Error::Other {
                errno: ffmpeg_next::error::EAGAIN,
            }) => {
                std::thread::yield_now();
                State::Reading { errors }
            }
            Err(Error::InvalidData) if errors < MAX_ERRORS_IN_A_ROW => {
                self.counts.damaged += 1;
                State::Reading { errors: errors + 1 }
            }
            Err(error) => {
                let reason = self
                    .truncation_reason()
                    .unwrap_or_else(|| open::broken_reason(error, self.options));
                self.drain(Some(reason))
            }
        }
    }

    /// Whether the end came too early. An index may name more frames than an edit list shows, so fewer packets alone
    /// say nothing: reading must have failed as well. Containers without an index say how many bytes there were to be.
    fn truncation_reason(&self) -> Option<String> {
        let there = self.packets;
        if let Some(truncation) = &self.truncation {
            return Some(format!(
                "the file was cut off ({truncation}), it holds {there} frames: record or download it again"
            ));
        }
        if there == 0 && open::is_pipe(&self.uri) {
            let reason = "its index is at its end, which a pipe cannot be read from: write a fragmented MP4, or one with \
                          its index at the front";
            return Some(reason.to_owned());
        }
        let named = self
            .info
            .frames
            .filter(|frames| self.counts.damaged > 0 && self.packets < *frames)?;
        Some(format!(
            "the file was cut off, it holds {there} of {named} frames: record or download it again"
        ))
    }

    fn drain(&mut self, reason: Option<String>) -> State {
        // Fails only where it was sent before.
        let _ = self.decoder.send_eof();
        State::Draining { reason }
    }
}

/// Decodes when it is this source's turn.
fn decode_limited<T>(limit: Option<&dyn DecodeLimit>, mut decode: impl FnMut() -> T) -> T {
    let Some(limit) = limit else { return decode() };
    let mut result = None;
    limit.decode(&mut || result = Some(decode()));
    // A limit that never ran the work, of which there is none, costs the bound and not the frame.
    result.unwrap_or_else(decode)
}

/// A frame rate that can be one: timer ticks of 90,000 a second are not.
fn rate(rate: ffmpeg_next::Rational) -> Option<f64> {
    let fps = f64::from(rate.numerator()) / f64::from(rate.denominator());
    (fps.is_finite() && (0.01..=1000.0).contains(&fps)).then_some(fps)
}

impl Source for FfmpegSource {
    fn info(&self) -> SourceInfo {
        self.info.clone()
    }

    fn next(&mut self) -> Result<Option<Frame>, SourceError> {
        loop {
            if self.stop.is_raised() {
                return Ok(None);
            }
            if !matches!(self.state, State::Ended)
                && let Some(frame) = self.receive_frame()
            {
                return Ok(Some(frame));
            }
            match &mut self.state {
                State::Reading { errors } => {
                    let errors = *errors;
                    self.feed(errors);
                }
                State::Draining { reason } => {
                    let reason = reason.take();
                    self.state = State::Ended;
                    let Some(reason) = reason else { return Ok(None) };
                    return Err(SourceError::Broken {
                        uri: self.uri.clone(),
                        frames: self.index,
                        reason,
                    });
                }
                State::Ended => return Ok(None),
            }
        }
    }

    fn limit_decoding(&mut self, limit: Arc<dyn DecodeLimit>) {
        self.limit = Some(limit);
    }

    fn counts(&self) -> SourceCounts {
        SourceCounts {
            discontinuities: self.timeline.as_ref().map_or(0, Timeline::discontinuities),
            ..self.counts
        }
    }
}
