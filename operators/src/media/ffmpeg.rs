//! Sources that FFmpeg opens, decoded in presentation order. Every packet is decoded unless a level of decoding is set.

use std::sync::{Arc, Mutex};

use ffmpeg_next::{Discard, Error, Packet, codec, format, frame, media, picture};
use weir_flow::{
    DecodeLevel, DecodeLimit, Frame, FrameSkip, GroupCounts, Joined, PacketGate, PacketKind, PacketTap,
    Source, SourceCounts, SourceError, SourceInfo, StopFlag,
};

use super::access::is_remote;
use super::driver_thread::DriverThread;
use super::hardware::warn_of_cpu;
use super::held_group::GatedPackets;
use super::limited::LimitedDecoder;
use super::orientation::Orientation;
use super::packet_input::{Packets, read_on};
use super::packet_reader::TappedPackets;
use super::packet_selection::{LeftOut, PacketSelection, PacketUse};
use super::packet_times::{PacketTimes, tick_ms};
use super::picture::{Pictures, square_size};
use super::picture_times::PictureTimes;
use super::played::{Played, Resumption};
use super::stream_decoder::StreamDecoder;
use super::stream_packets::StreamPackets;
use super::timeline::Timeline;
use super::{DEFAULT_FPS, SourceOptions, cannot_open, container, ffi, open};

/// Frames of a recording among which it is joined: minutes, however long it is.
const MAX_JOINED: u64 = 9_000;

/// Consecutive read errors after which a source is abandoned. A stuck demuxer reports errors without end.
const MAX_ERRORS_IN_A_ROW: u64 = 10_000;

/// A decoded video stream.
pub struct FfmpegSource {
    uri: String,
    info: SourceInfo,
    options: SourceOptions,
    stop: StopFlag,
    packets: StreamPackets,
    /// Continuation of the opening before; `None` where the source cannot continue.
    resumption: Option<Resumption>,
    selection: PacketSelection,
    gated: GatedPackets,
    decoding: LimitedDecoder,
    times: PictureTimes,
    pictures: Pictures,
    /// Rotation and mirroring declared by the container.
    orientation: Option<Orientation>,
    tapped: TappedPackets,
    /// Description of the truncation, if the file was cut off.
    truncation: Option<String>,
    counts: SourceCounts,
    state: State,
}

/// Reading <-> EndingGroup; Reading -> Draining -> Ended. A failure is carried through Draining as its reason.
enum State {
    /// Packets are read; `errors` counts read errors since the last good packet.
    Reading { errors: u64 },
    /// The rest of a group of pictures is left out: the decoder returns its buffered pictures, and is reset.
    EndingGroup,
    /// No more packets; the decoder returns its buffered pictures. Then the source breaks off with `reason`, or ends.
    Draining { reason: Option<String> },
    /// No more frames.
    Ended,
}

impl FfmpegSource {
    /// Opens a file or an address.
    ///
    /// # Errors
    /// [`SourceError::Open`] with the reason.
    pub fn open(uri: &str, options: &SourceOptions, stop: &StopFlag) -> Result<Self, SourceError> {
        Self::open_on(&DriverThread::default(), &Arc::default(), uri, options, stop)
    }

    /// As [`FfmpegSource::open`]; a capture device is opened, read and closed on the thread of its driver. `played` is what earlier
    /// openings gave.
    pub(super) fn open_on(
        driver: &DriverThread,
        played: &Arc<Mutex<Played>>,
        uri: &str,
        options: &SourceOptions,
        stop: &StopFlag,
    ) -> Result<Self, SourceError> {
        let input = open::open(driver, uri, options, stop)?;
        let stream = input
            .streams()
            .best(media::Type::Video)
            .filter(|stream| {
                !stream
                    .disposition()
                    .contains(format::stream::Disposition::ATTACHED_PIC)
            })
            .ok_or_else(|| cannot_open(uri, open::no_video_reason(uri, &input)))?;
        let fail = |error: Error| cannot_open(uri, format!("its video cannot be decoded: {error}"));
        let decoder = StreamDecoder::open(stream.parameters().clone(), uri, options).map_err(fail)?;
        let gpu = decoder.gpu();
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
        let aspect = ffi::sample_aspect(&stream);
        let square = square_size(decoder.size(), aspect.unwrap_or_else(|| decoder.aspect_ratio()));
        let (width, height) = orientation.unwrap_or_default().size(square);
        let truncation =
            open::local_path(uri).and_then(|path| container::truncation(path, input.format().name()));
        let info = SourceInfo {
            width,
            height,
            fps,
            codec: Some(stream.parameters().id().name()),
            frames,
            live: open::is_live(uri, &input),
            stamped: open::has_own_clock(&input),
        };
        let stream_index = stream.index();
        let sound = open::sound_of(&input, uri, options, info.live);
        let tick_ms = tick_ms(stream.time_base());
        let tapped = TappedPackets::new(&stream, tick_ms, stamped, sound);
        let packet_times = PacketTimes::new(tick_ms, info.fps.unwrap_or(DEFAULT_FPS), info.live);
        let is_resumable = stamped && info.live && open::comes_in_segments(&input);
        let decoding = LimitedDecoder::new(decoder, stream.parameters().id());
        let packets = if open::is_capture(uri) {
            Packets::OfDriver(
                read_on(driver, input, stop).map_err(|error| cannot_open(uri, error.to_string()))?,
            )
        } else {
            Packets::Here(input)
        };
        Ok(Self {
            uri: uri.to_owned(),
            info,
            options: options.clone(),
            stop: stop.clone(),
            packets: StreamPackets::new(packets, stream_index, packet_times, stamped),
            resumption: is_resumable.then(|| Resumption::new(Arc::clone(played))),
            selection: PacketSelection::default(),
            gated: GatedPackets::default(),
            decoding,
            times: PictureTimes::new(tick_ms, stamped),
            pictures: Pictures::of_gpu(gpu).with_aspect(aspect),
            orientation,
            tapped,
            truncation,
            counts: SourceCounts::default(),
            state: State::Reading { errors: 0 },
        })
    }

    /// The next picture that the decoder has ready.
    fn receive_frame(&mut self) -> Option<Frame> {
        loop {
            let mut picture = frame::Video::empty();
            match self.decoding.receive_frame(&mut picture) {
                Ok(()) => {
                    let bidirectional = picture.kind() == picture::Type::B;
                    let pts = picture.pts().or_else(|| picture.timestamp());
                    if !self.gated.gives(pts) {
                        continue;
                    }
                    let left_out = self.selection.on_picture(pts, bidirectional);
                    self.pass_over(&left_out);
                    let made_up = self.decoding.is_made_up(pts);
                    if self
                        .resumption
                        .as_mut()
                        .is_some_and(|before| before.is_repeat(pts))
                    {
                        continue;
                    }
                    let index = self.times.next_index();
                    let stamp_ms = self.times.stamp_ms(&picture);
                    let pts_ms = self.frame_time_ms(stamp_ms);
                    if let (Some(resumption), Some(stamp_ms)) = (&self.resumption, stamp_ms) {
                        resumption.on_given(pts, stamp_ms, pts_ms);
                    }
                    // Pictures with concealed errors are delivered, marked and counted.
                    let concealed = picture.is_corrupt() || picture.has_decode_errors() || made_up;
                    let orientation = self.orientation_of(&picture);
                    let misses_device = self.decoding.decoder.misses_device(&picture);
                    let Some(image) = self.pictures.image(picture, orientation) else {
                        self.counts.damaged += 1;
                        continue;
                    };
                    self.counts.concealed += u64::from(concealed);
                    if misses_device {
                        self.on_cpu_decoded();
                    }
                    let mut frame = Frame::new(index, pts_ms, image);
                    frame.concealed = concealed;
                    frame.stamp_ms = stamp_ms;
                    return Some(frame);
                }
                // The decoder needs more packets, or is empty.
                Err(Error::Other { .. } | Error::Eof) => return None,
                Err(_) => {
                    self.counts.damaged += 1;
                    if matches!(self.state, State::Draining { .. } | State::EndingGroup)
                        && self.counts.damaged > MAX_ERRORS_IN_A_ROW
                    {
                        return None;
                    }
                }
            }
        }
    }

    /// Counts a picture that the CPU decoded although a device is to. The first one is logged where the device left it to the CPU; that
    /// there is no device was logged before.
    fn on_cpu_decoded(&mut self) {
        self.counts.cpu_decoded += 1;
        if self.counts.cpu_decoded == 1
            && let Some(device) = self.decoding.decoder.device_name()
        {
            let codec = self.info.codec.unwrap_or("video");
            warn_of_cpu(&self.uri, &format!("{device} does not decode this {codec}"));
        }
    }

    /// Gives frames that were left out their places, so that later ones have those that they would have had.
    fn pass_over(&mut self, left_out: &LeftOut) {
        let count = left_out.times.len() as u64;
        self.counts.not_decoded += count - left_out.still;
        self.counts.still += left_out.still;
        self.times.pass_over(left_out);
    }

    /// Rotation and mirroring of a picture: declared by the container, else by the picture.
    fn orientation_of(&self, picture: &frame::Video) -> Orientation {
        let of_picture = || {
            let data = picture.side_data(frame::side_data::Type::DisplayMatrix)?;
            Orientation::of_matrix(data.data())
        };
        self.orientation.or_else(of_picture).unwrap_or_default()
    }

    /// The time in milliseconds of the next picture, which has this time in the container.
    fn frame_time_ms(&mut self, stamp_ms: Option<f64>) -> f64 {
        let stamped = self.times.is_stamped();
        self.times.next_ms(stamp_ms, || {
            // The rate in the stream itself is known once its first picture is decoded.
            let stated = self.decoding.decoder.frame_rate().and_then(rate);
            let rate = if stamped {
                self.info.fps
            } else {
                self.options.fps.or(stated).or(self.info.fps)
            };
            let fps = rate.unwrap_or(DEFAULT_FPS);
            self.info.fps = self.info.fps.map(|known| if stamped { known } else { fps });
            let timeline = Timeline::new(fps, self.info.live);
            match self.resumption.as_ref().and_then(Resumption::goes_on_from) {
                Some((stamp_ms, time_ms)) => timeline.going_on_from(stamp_ms, time_ms),
                None => timeline,
            }
        })
    }

    /// Reads one packet into the decoder, or ends the reading.
    fn feed(&mut self, errors: u64) {
        if let Some(packet) = self.gated.pop_resumed() {
            self.state = self.decode(&packet);
            return;
        }
        if self.packets.is_at_end() {
            self.state = self.drain(None);
            return;
        }
        let Some(read) = self.packets.next(&self.stop) else {
            self.state = State::Ended;
            return;
        };
        self.state = match read {
            Ok(mut packet) => {
                if self.packets.is_of_pictures(&packet) {
                    let key = packet.is_key();
                    self.decoding.on_packet(PacketKind::Picture { key });
                    self.packets.on_picture(&mut packet, &self.stop);
                    self.on_packet(&packet)
                } else {
                    self.decoding.on_packet(PacketKind::Other);
                    if let Some(reader) = self.tapped.reader() {
                        reader.on_other(&packet, self.packets.times().offset_ms());
                    }
                    State::Reading { errors: 0 }
                }
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
                    .unwrap_or_else(|| open::broken_reason(error, &self.options));
                self.drain(Some(reason))
            }
        }
    }

    /// Hands a packet to those who observe packets. Of those that an earlier opening had read, the group of the first new one.
    fn show(&mut self, packet: &Packet) {
        let mut before = Vec::new();
        if let Some(resumption) = &mut self.resumption {
            if resumption.on_packet(packet) {
                return;
            }
            before = std::mem::take(&mut resumption.group);
        }
        if let Some(reader) = self.tapped.reader() {
            for packet in before.iter().chain([packet]) {
                reader.on_packet(packet, self.packets.times_mut());
            }
        }
    }

    /// Gives a packet of the stream to the decoder, or leaves it out.
    fn on_packet(&mut self, packet: &Packet) -> State {
        self.show(packet);
        let held = self
            .gated
            .is_held(packet, self.times.tick_ms(), &mut self.selection);
        let packet_use = self.selection.on_packet(packet.is_key(), packet.pts(), held);
        if packet_use == PacketUse::Decode {
            if self.gated.queue_behind_resumed(packet) {
                return State::Reading { errors: 0 };
            }
            return self.decode(packet);
        }
        self.decoding.on_left_out();
        if packet_use == PacketUse::EndGroup {
            // Fails only if it was sent before.
            let _ = self.decoding.decoder.send_eof();
            return State::EndingGroup;
        }
        let left_out = self.selection.take_waiting(false);
        self.pass_over(&left_out);
        State::Reading { errors: 0 }
    }

    fn decode(&mut self, packet: &Packet) -> State {
        if self.decoding.send_packet(packet).is_err() {
            self.counts.damaged += 1;
        }
        State::Reading { errors: 0 }
    }

    /// Why none of its pictures was decoded, if there were any.
    fn undecoded_reason(&self) -> Option<String> {
        let pictures = self.packets.count();
        let decoder = &self.decoding.decoder;
        let (width, height) = decoder.size();
        let has_no_size = width == 0 || height == 0;
        if pictures == 0 || self.times.count() > 0 || !has_no_size {
            return None;
        }
        let why = match decoder.id() {
            codec::Id::H264 | codec::Id::HEVC => {
                "for their size (SPS, PPS) was not in it: set the camera to repeat its parameter sets before key pictures"
            }
            _ => "since it sends something else than it announces: check the path, the user and the password",
        };
        Some(format!("none of its {pictures} pictures can be decoded, {why}"))
    }

    /// Why the end came too early, if it did. An index may count more frames than an edit list shows, so fewer packets
    /// alone prove nothing: read errors are required as well. Containers without an index declare their size in bytes.
    fn truncation_reason(&self) -> Option<String> {
        let there = self.packets.count();
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
        if there == 0 && self.packets.is_mp4() && is_remote(&self.uri) {
            let reason = "its index is at its end, and the server does not give parts of a file (Range): write the MP4 with its \
                          index at the front (ffmpeg -movflags +faststart)";
            return Some(reason.to_owned());
        }
        let named = self
            .info
            .frames
            .filter(|frames| self.counts.damaged > 0 && there < *frames)?;
        Some(format!(
            "the file was cut off, it holds {there} of {named} frames: record or download it again"
        ))
    }

    fn drain(&mut self, reason: Option<String>) -> State {
        // Fails only if it was sent before.
        let _ = self.decoding.decoder.send_eof();
        if let Some(reader) = self.tapped.reader() {
            reader.on_end();
        }
        State::Draining { reason }
    }
}

/// A plausible frame rate in 1/s; 90,000 timer ticks per second are none.
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
                State::EndingGroup => {
                    self.decoding.decoder.flush();
                    self.state = State::Reading { errors: 0 };
                }
                State::Draining { reason } => {
                    let reason = reason.take();
                    let reason = self.undecoded_reason().or(reason);
                    self.state = State::Ended;
                    let left_out = self.selection.take_waiting(true);
                    self.pass_over(&left_out);
                    let Some(reason) = reason else { return Ok(None) };
                    return Err(SourceError::Broken {
                        uri: self.uri.clone(),
                        frames: self.times.count(),
                        reason,
                    });
                }
                State::Ended => return Ok(None),
            }
        }
    }

    fn limit_decoding(&mut self, limit: Arc<dyn DecodeLimit>) {
        self.decoding.set_limit(limit);
    }

    fn join_at(&mut self, fraction: f64) -> Option<Joined> {
        let frames = self
            .info
            .frames
            .filter(|_| self.times.is_stamped() && !self.info.live)?;
        open::local_path(&self.uri)?;
        let place = (fraction * frames.min(MAX_JOINED) as f64) as u64;
        Some(self.packets.join_at(place, &self.stop))
    }

    fn end_at(&mut self, frames: u64) {
        self.packets.end_at(frames);
    }

    fn tap_packets(&mut self, tap: Arc<PacketTap>) {
        self.tapped.set_tap(tap);
    }

    fn set_decode_level(&mut self, level: DecodeLevel) {
        // Without times of its frames nothing tells which of them are missing.
        if !self.times.is_stamped() {
            return;
        }
        self.selection.set_level(level);
        self.decoding.decoder.skip_frame(match level.skip {
            FrameSkip::Nothing => Discard::Default,
            FrameSkip::NonReference => Discard::NonReference,
        });
    }

    fn gate_packets(&mut self, gate: Arc<dyn PacketGate>) {
        if self.times.is_stamped() {
            self.gated.set_gate(gate);
        }
    }

    fn skip_group(&mut self) {
        if self.times.is_stamped() {
            self.selection.skip_group();
        }
    }

    fn group_counts(&self) -> Option<GroupCounts> {
        self.times.is_stamped().then(|| self.selection.counts())
    }

    fn comes_in_segments(&self) -> bool {
        self.resumption.is_some()
    }

    fn goes_on(&self) -> bool {
        self.resumption
            .as_ref()
            .is_some_and(|before| before.goes_on_from().is_some())
    }

    fn counts(&self) -> SourceCounts {
        SourceCounts {
            discontinuities: self.times.discontinuities() + self.packets.times().discontinuities(),
            ..self.counts
        }
    }
}
