//! Sources that FFmpeg opens, decoded in presentation order. Every packet is decoded unless a level of decoding is set.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use ffmpeg_next::{Discard, Error, Packet, codec, format, frame, media, picture};
use weir_flow::{
    DecodeLevel, DecodeLimit, Frame, FrameSkip, GroupCounts, Joined, PacketFormat, PacketGate, PacketKind,
    PacketTap, Source, SourceCounts, SourceError, SourceInfo, StopFlag,
};

use super::access::is_remote;
use super::damage::Damage;
use super::driver_thread::DriverThread;
use super::hardware::warn_of_cpu;
use super::held_group::{HeldGroup, HeldUse};
use super::limited::decode_watched;
use super::orientation::Orientation;
use super::packet_input::{Packets, read_on};
use super::packet_reader::{PacketReader, packet_format};
use super::packet_selection::{LeftOut, PacketSelection, PacketUse};
use super::packet_times::{PacketTimes, tick_ms};
use super::picture::{Pictures, square_size};
use super::played::{Played, Resumption};
use super::sound::Sound;
use super::stream_decoder::StreamDecoder;
use super::timeline::Timeline;
use super::{DEFAULT_FPS, SourceOptions, cannot_open, container, ffi, open};

/// Frames of a recording among which it is joined: minutes, however long it is.
const MAX_JOINED: u64 = 9_000;

/// Consecutive read errors after which a source is abandoned. A stuck demuxer reports errors without end.
const MAX_ERRORS_IN_A_ROW: u64 = 10_000;

/// Packets, also of other streams, that are read ahead to find the next of this one.
const MAX_AHEAD: usize = 256;

/// A decoded video stream.
pub struct FfmpegSource {
    uri: String,
    packets: Packets,
    /// Packets that were read ahead of their turn.
    ahead: VecDeque<Result<Packet, Error>>,
    times: PacketTimes,
    /// When it was opened: packets of a camera arrive in time.
    opened: Instant,
    /// Continuation of the opening before; `None` where the source cannot continue.
    resumption: Option<Resumption>,
    /// Of a decoder that does not say which pictures it made up.
    damage: Option<Damage>,
    decoder: StreamDecoder,
    stream: usize,
    /// Milliseconds per tick of the stream's timestamps.
    tick_ms: f64,
    /// Of its packets, or why they cannot be observed.
    format: Result<PacketFormat, String>,
    sound: Option<Sound>,
    info: SourceInfo,
    options: SourceOptions,
    stop: StopFlag,
    limit: Option<Arc<dyn DecodeLimit>>,
    tap: Option<PacketReader>,
    pictures: Pictures,
    /// Rotation and mirroring declared by the container.
    orientation: Option<Orientation>,
    timeline: Option<Timeline>,
    stamped: bool,
    /// Description of the truncation, if the file was cut off.
    truncation: Option<String>,
    /// Pictures decoded and frames left out so far.
    index: u64,
    /// Packets read from the stream so far.
    packets_read: u64,
    /// Packets after which it ends, where that is before the end of the file.
    end: Option<u64>,
    counts: SourceCounts,
    selection: PacketSelection,
    gate: Option<Arc<dyn PacketGate>>,
    held: HeldGroup,
    /// Packets that were held back, to be decoded before any other.
    resumed: VecDeque<Packet>,
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
        let format = packet_format(&stream, stamped, sound.as_ref());
        let tick_ms = tick_ms(stream.time_base());
        let times = PacketTimes::new(tick_ms, info.fps.unwrap_or(DEFAULT_FPS), info.live);
        let is_resumable = stamped && info.live && open::comes_in_segments(&input);
        let damage = (stream.parameters().id() == codec::Id::HEVC).then(Damage::default);
        let packets = if open::is_capture(uri) {
            Packets::OfDriver(
                read_on(driver, input, stop).map_err(|error| cannot_open(uri, error.to_string()))?,
            )
        } else {
            Packets::Here(input)
        };
        #[expect(
            clippy::disallowed_methods,
            reason = "silence of the other side is measured, whatever the engine's clock is"
        )]
        let opened = Instant::now();
        Ok(Self {
            uri: uri.to_owned(),
            tick_ms,
            stream: stream_index,
            format,
            sound,
            packets,
            ahead: VecDeque::new(),
            times,
            opened,
            resumption: is_resumable.then(|| Resumption::new(Arc::clone(played))),
            damage,
            decoder,
            info,
            options: options.clone(),
            stop: stop.clone(),
            limit: None,
            tap: None,
            pictures: Pictures::of_gpu(gpu).with_aspect(aspect),
            orientation,
            timeline: None,
            stamped,
            truncation,
            index: 0,
            packets_read: 0,
            end: None,
            counts: SourceCounts::default(),
            selection: PacketSelection::default(),
            gate: None,
            held: HeldGroup::default(),
            resumed: VecDeque::new(),
            state: State::Reading { errors: 0 },
        })
    }

    /// The next picture that the decoder has ready.
    fn receive_frame(&mut self) -> Option<Frame> {
        loop {
            let mut picture = frame::Video::empty();
            let received = decode_watched(self.limit.as_deref(), &mut self.damage, || {
                self.decoder.receive_frame(&mut picture)
            });
            match received {
                Ok(()) => {
                    let bidirectional = picture.kind() == picture::Type::B;
                    let pts = picture.pts().or_else(|| picture.timestamp());
                    if self.gate.is_some() && !self.held.gives(pts) {
                        continue;
                    }
                    let left_out = self.selection.on_picture(pts, bidirectional);
                    self.pass_over(&left_out);
                    let made_up = self.damage.as_mut().is_some_and(|damage| damage.is_made_up(pts));
                    if self
                        .resumption
                        .as_mut()
                        .is_some_and(|before| before.is_repeat(pts))
                    {
                        continue;
                    }
                    let index = self.index;
                    self.index += 1;
                    let pts_ms = self.frame_time_ms(&picture);
                    let stamp_ms = self.stamp_ms(&picture);
                    if let (Some(resumption), Some(stamp_ms)) = (&self.resumption, stamp_ms) {
                        resumption.on_given(pts, stamp_ms, pts_ms);
                    }
                    // Pictures with concealed errors are delivered, marked and counted.
                    let concealed = picture.is_corrupt() || picture.has_decode_errors() || made_up;
                    let orientation = self.orientation_of(&picture);
                    let misses_device = self.decoder.misses_device(&picture);
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
            && let Some(device) = self.decoder.device_name()
        {
            let codec = self.info.codec.unwrap_or("video");
            warn_of_cpu(&self.uri, &format!("{device} does not decode this {codec}"));
        }
    }

    /// Gives frames that were left out their places, so that later ones have those that they would have had.
    fn pass_over(&mut self, left_out: &LeftOut) {
        let count = left_out.times.len() as u64;
        self.index += count;
        self.counts.not_decoded += count - left_out.still;
        self.counts.still += left_out.still;
        if let Some(timeline) = &mut self.timeline {
            for stamp in &left_out.times {
                timeline.next(Some(*stamp as f64 * self.tick_ms));
            }
        }
    }

    /// Rotation and mirroring of a picture: declared by the container, else by the picture.
    fn orientation_of(&self, picture: &frame::Video) -> Orientation {
        let of_picture = || {
            let data = picture.side_data(frame::side_data::Type::DisplayMatrix)?;
            Orientation::of_matrix(data.data())
        };
        self.orientation.or_else(of_picture).unwrap_or_default()
    }

    fn frame_time_ms(&mut self, picture: &frame::Video) -> f64 {
        let timeline = self.timeline.get_or_insert_with(|| {
            // The rate in the stream itself is known once its first picture is decoded.
            let stated = self.decoder.frame_rate().and_then(rate);
            let rate = if self.stamped {
                self.info.fps
            } else {
                self.options.fps.or(stated).or(self.info.fps)
            };
            let fps = rate.unwrap_or(DEFAULT_FPS);
            self.info.fps = self.info.fps.map(|known| if self.stamped { known } else { fps });
            let timeline = Timeline::new(fps, self.info.live);
            match self.resumption.as_ref().and_then(Resumption::goes_on_from) {
                Some((stamp_ms, time_ms)) => timeline.going_on_from(stamp_ms, time_ms),
                None => timeline,
            }
        });
        let stamp = if self.stamped { picture.timestamp() } else { None };
        timeline.next(stamp.map(|stamp| stamp as f64 * self.tick_ms))
    }

    /// The time that the container gives a picture.
    fn stamp_ms(&self, picture: &frame::Video) -> Option<f64> {
        let stamp = picture.timestamp().filter(|_| self.stamped)?;
        Some(stamp as f64 * self.tick_ms)
    }

    /// Reads one packet into the decoder, or ends the reading.
    fn feed(&mut self, errors: u64) {
        if let Some(packet) = self.resumed.pop_front() {
            self.state = self.decode(&packet);
            return;
        }
        if self.end.is_some_and(|end| self.packets_read >= end) {
            self.state = self.drain(None);
            return;
        }
        let Some(read) = self.read() else {
            self.state = State::Ended;
            return;
        };
        self.state = match read {
            Ok(mut packet) => {
                let is_picture = packet.stream() == self.stream;
                if let Some(limit) = &self.limit {
                    let key = packet.is_key();
                    limit.on_packet(if is_picture {
                        PacketKind::Picture { key }
                    } else {
                        PacketKind::Other
                    });
                }
                if is_picture {
                    self.correct(&mut packet);
                    self.on_packet(&packet)
                } else {
                    if let Some(tap) = &mut self.tap {
                        tap.on_other(&packet, self.times.offset_ms());
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

    /// The next packet of any stream; `None` once the source is stopped.
    fn read(&mut self) -> Option<Result<Packet, Error>> {
        match self.ahead.pop_front() {
            Some(read) => Some(read),
            None => self.packets.next(&self.stop),
        }
    }

    /// Corrects the time stamps of a packet. One of a recording that is suspect is judged by the packet after it.
    fn correct(&mut self, packet: &mut Packet) {
        if !self.stamped {
            return;
        }
        if self.times.wants_witness(packet) {
            while self.ahead.len() < MAX_AHEAD && self.witness().is_none() {
                let Some(read) = self.packets.next(&self.stop) else {
                    break;
                };
                let is_end = read.is_err();
                self.ahead.push_back(read);
                if is_end {
                    break;
                }
            }
        }
        let now_ms = self.opened.elapsed().as_secs_f64() * 1e3;
        let witness = self.witness();
        self.times.correct(packet, witness, now_ms);
    }

    /// The stamp of the next packet of the stream among those that were read ahead.
    fn witness(&self) -> Option<i64> {
        let packets = self.ahead.iter().flatten();
        let mut own = packets.filter(|packet| packet.stream() == self.stream);
        own.find_map(|packet| packet.dts().or(packet.pts()))
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
        if let Some(tap) = &mut self.tap {
            for packet in before.iter().chain([packet]) {
                tap.on_packet(packet, &mut self.times);
            }
        }
    }

    /// Gives a packet of the stream to the decoder, or leaves it out.
    fn on_packet(&mut self, packet: &Packet) -> State {
        self.packets_read += 1;
        self.show(packet);
        let held = self.is_held(packet);
        let packet_use = self.selection.on_packet(packet.is_key(), packet.pts(), held);
        if packet_use == PacketUse::Decode {
            if !self.resumed.is_empty() {
                self.resumed.push_back(packet.clone());
                return State::Reading { errors: 0 };
            }
            return self.decode(packet);
        }
        if let Some(limit) = &self.limit {
            limit.on_left_out();
        }
        if packet_use == PacketUse::EndGroup {
            // Fails only if it was sent before.
            let _ = self.decoder.send_eof();
            return State::EndingGroup;
        }
        let left_out = self.selection.take_waiting(false);
        self.pass_over(&left_out);
        State::Reading { errors: 0 }
    }

    /// Whether the gate holds a packet back. Where it wants one after others that it held back, those are decoded first.
    fn is_held(&mut self, packet: &Packet) -> bool {
        let Some(gate) = &self.gate else {
            return false;
        };
        let Some(stamp) = packet.pts().or_else(|| packet.dts()) else {
            return false;
        };
        let wanted = gate.wants(packet.size() as u64, packet.is_key(), stamp as f64 * self.tick_ms);
        match self.held.on_packet(packet, wanted, self.tick_ms) {
            HeldUse::Decode => false,
            HeldUse::Hold => true,
            HeldUse::Resume(packets) => {
                self.resumed = packets.into();
                self.selection.on_resumed();
                false
            }
        }
    }

    fn decode(&mut self, packet: &Packet) -> State {
        if let Some(damage) = &mut self.damage {
            damage.on_packet(packet.is_key(), packet.pts());
        }
        let sent = decode_watched(self.limit.as_deref(), &mut self.damage, || {
            self.decoder.send_packet(packet)
        });
        if sent.is_err() {
            self.counts.damaged += 1;
        }
        State::Reading { errors: 0 }
    }

    /// Why none of its pictures was decoded, if there were any.
    fn undecoded_reason(&self) -> Option<String> {
        let pictures = self.packets_read;
        let (width, height) = self.decoder.size();
        let has_no_size = width == 0 || height == 0;
        if pictures == 0 || self.index > 0 || !has_no_size {
            return None;
        }
        let why = match self.decoder.id() {
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
        let there = self.packets_read;
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
        let is_mp4 = matches!(&self.packets, Packets::Here(input) if input.format().name().contains("mp4"));
        if there == 0 && is_mp4 && is_remote(&self.uri) {
            let reason = "its index is at its end, and the server does not give parts of a file (Range): write the MP4 with its \
                          index at the front (ffmpeg -movflags +faststart)";
            return Some(reason.to_owned());
        }
        let named = self
            .info
            .frames
            .filter(|frames| self.counts.damaged > 0 && self.packets_read < *frames)?;
        Some(format!(
            "the file was cut off, it holds {there} of {named} frames: record or download it again"
        ))
    }

    fn drain(&mut self, reason: Option<String>) -> State {
        // Fails only if it was sent before.
        let _ = self.decoder.send_eof();
        if let Some(tap) = &mut self.tap {
            tap.on_end();
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
                    self.decoder.flush();
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

    fn join_at(&mut self, fraction: f64) -> Option<Joined> {
        let frames = self.info.frames.filter(|_| self.stamped && !self.info.live)?;
        open::local_path(&self.uri)?;
        let place = (fraction * frames.min(MAX_JOINED) as f64) as u64;
        while !self.stop.is_raised() {
            let Some(Ok(packet)) = self.packets.next(&self.stop) else {
                break;
            };
            if packet.stream() != self.stream {
                continue;
            }
            if self.packets_read >= place && packet.is_key() {
                self.ahead.push_back(Ok(packet));
                break;
            }
            self.packets_read += 1;
        }
        Some(Joined {
            passed: self.packets_read,
            waited: self.packets_read.saturating_sub(place),
        })
    }

    fn end_at(&mut self, frames: u64) {
        self.end = Some(frames);
    }

    fn tap_packets(&mut self, tap: Arc<PacketTap>) {
        tap.on_open(self.format.clone());
        let (format, sound) = (self.format.clone().ok(), self.sound.take());
        self.tap = format.map(|format| PacketReader::new(tap, format, self.tick_ms, sound));
    }

    fn set_decode_level(&mut self, level: DecodeLevel) {
        // Without times of its frames nothing tells which of them are missing.
        if !self.stamped {
            return;
        }
        self.selection.set_level(level);
        self.decoder.skip_frame(match level.skip {
            FrameSkip::Nothing => Discard::Default,
            FrameSkip::NonReference => Discard::NonReference,
        });
    }

    fn gate_packets(&mut self, gate: Arc<dyn PacketGate>) {
        if self.stamped {
            self.gate = Some(gate);
        }
    }

    fn skip_group(&mut self) {
        if self.stamped {
            self.selection.skip_group();
        }
    }

    fn group_counts(&self) -> Option<GroupCounts> {
        self.stamped.then(|| self.selection.counts())
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
        let of_pictures = self.timeline.as_ref().map_or(0, Timeline::discontinuities);
        SourceCounts {
            discontinuities: of_pictures + self.times.discontinuities(),
            ..self.counts
        }
    }
}
