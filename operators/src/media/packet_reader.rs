//! Packets for the observers of a source: copies of its packets, with the times of the container.

use std::sync::Arc;

use ffmpeg_next::codec::Id;
use ffmpeg_next::codec::packet::side_data;
use ffmpeg_next::format::stream::Stream;
use ffmpeg_next::{Packet, codec};
use weir_flow::{PacketCodec, PacketFormat, PacketTap};

use super::packet_times::PacketTimes;
use super::sound::Sound;
use super::{ffi, parameter_sets};

/// Step in milliseconds after a packet without a time and without a duration.
const USUAL_STEP_MS: f64 = 40.0;

/// The format of the packets of a stream, or why they cannot be recorded or shown as they are.
pub(super) fn packet_format(
    stream: &Stream<'_>,
    stamped: bool,
    sound: Option<&Sound>,
) -> Result<PacketFormat, String> {
    let parameters = stream.parameters();
    if !stamped {
        return Err(
            "its packets have no time stamps: put the stream into a container, such as MP4".to_owned(),
        );
    }
    let codec = match parameters.id() {
        Id::H264 => PacketCodec::H264,
        Id::HEVC => PacketCodec::H265,
        other => {
            let name = codec::decoder::find(other).map_or_else(
                || format!("{other:?}").to_lowercase(),
                |codec| codec.name().to_owned(),
            );
            return Err(format!(
                "its video is {name}: only H.264 and H.265 are taken as they are, set the camera to one of them"
            ));
        }
    };
    let (width, height, extradata) = ffi::video_parameters(&parameters);
    let turn = ffi::display_matrix(stream).map(|bytes| {
        let (numbers, _) = bytes.as_chunks::<4>();
        std::array::from_fn(|index| numbers.get(index).map_or(0, |bytes| i32::from_ne_bytes(*bytes)))
    });
    let aspect = ffi::sample_aspect(stream);
    Ok(PacketFormat {
        codec,
        extradata: extradata.into(),
        width,
        height,
        turn,
        sample_aspect: aspect.map(|aspect| {
            (
                aspect.numerator().unsigned_abs(),
                aspect.denominator().unsigned_abs(),
            )
        }),
        sound: sound.map(|sound| sound.format().clone()),
    })
}

/// Packets of a source for its tap, which is set after the source was opened.
pub(super) struct TappedPackets {
    /// Format of the packets, or the reason why they cannot be observed.
    format: Result<PacketFormat, String>,
    tick_ms: f64,
    /// Sound that is copied, until the reader takes it.
    sound: Option<Sound>,
    reader: Option<PacketReader>,
}

impl TappedPackets {
    /// The packets of a stream with ticks of `tick_ms`, without a tap.
    pub(super) fn new(stream: &Stream<'_>, tick_ms: f64, stamped: bool, sound: Option<Sound>) -> Self {
        Self {
            format: packet_format(stream, stamped, sound.as_ref()),
            tick_ms,
            sound,
            reader: None,
        }
    }

    /// Hands the packets that follow to a tap.
    pub(super) fn set_tap(&mut self, tap: Arc<PacketTap>) {
        tap.on_open(self.format.clone());
        let (format, sound) = (self.format.clone().ok(), self.sound.take());
        self.reader = format.map(|format| PacketReader::new(tap, format, self.tick_ms, sound));
    }

    /// The reader, if a tap is set and the packets can be observed.
    pub(super) fn reader(&mut self) -> Option<&mut PacketReader> {
        self.reader.as_mut()
    }
}

/// Copies packets for a tap, while it is observed.
pub(super) struct PacketReader {
    tap: Arc<PacketTap>,
    /// Of the packets so far.
    format: PacketFormat,
    tick_ms: f64,
    sound: Option<Sound>,
    /// When a packet without a time is decoded.
    next_dts_ms: f64,
    /// A key frame of which the next packet shows whether it is the first after a jump of the clock.
    undecided: Option<Packet>,
}

impl PacketReader {
    pub(super) fn new(tap: Arc<PacketTap>, format: PacketFormat, tick_ms: f64, sound: Option<Sound>) -> Self {
        Self {
            tap,
            format,
            tick_ms,
            sound,
            next_dts_ms: 0.0,
            undecided: None,
        }
    }

    /// A camera sends other parameter sets with a key frame, or beside a packet.
    fn new_format(&self, packet: &Packet) -> Option<PacketFormat> {
        let beside = packet
            .side_data()
            .find(|data| data.kind() == side_data::Type::NewExtraData);
        match beside {
            Some(beside) if *beside.data() == *self.format.extradata => None,
            Some(beside) => Some(parameter_sets::with_extradata(&self.format, beside.data())),
            None if packet.is_key() => parameter_sets::new_format(&self.format, packet.data()?),
            None => None,
        }
    }

    /// Hands over a packet that `times` has corrected. A key frame whose time stamp is suspect follows with the next packet, so that
    /// a file begins with it if the clock jumped before it.
    pub(super) fn on_packet(&mut self, packet: &Packet, times: &mut PacketTimes) {
        if times.take_jump() {
            self.tap.on_jump();
        }
        if let Some(before) = self.undecided.take() {
            self.give(&before);
        }
        if packet.is_key() && times.has_suspect() {
            self.undecided = Some(packet.clone());
        } else {
            self.give(packet);
        }
    }

    fn give(&mut self, packet: &Packet) {
        // Also while nobody observes it: what begins later has to know.
        if let Some(format) = self.new_format(packet) {
            self.format = format.clone();
            self.tap.on_format(format);
        }
        if !self.tap.is_observed() {
            return;
        }
        let Some(data) = packet.data() else { return };
        let ms = |ticks: i64| ticks as f64 * self.tick_ms;
        let duration_ms = ms(packet.duration().max(0));
        let dts_ms = packet.dts().or(packet.pts()).map_or(self.next_dts_ms, ms);
        self.next_dts_ms = dts_ms
            + if duration_ms > 0.0 {
                duration_ms
            } else {
                USUAL_STEP_MS
            };
        self.tap.on_packet(weir_flow::Packet {
            data: data.into(),
            pts_ms: packet.pts().map_or(dts_ms, ms),
            dts_ms,
            duration_ms,
            key: packet.is_key(),
            sound: false,
            // The tap's own clock.
            time_ms: 0,
        });
        self.give_sound(|sound| sound.on_picture(dts_ms));
    }

    /// Handles a packet that is not of the pictures. `offset_ms` is the correction of times of the pictures.
    pub(super) fn on_other(&mut self, packet: &Packet, offset_ms: f64) {
        self.give_sound(|sound| {
            if sound.is_own(packet) {
                sound.on_packet(packet, offset_ms)
            } else {
                Vec::new()
            }
        });
    }

    /// No packets follow.
    pub(super) fn on_end(&mut self) {
        if let Some(before) = self.undecided.take() {
            self.give(&before);
        }
        let end_ms = self.next_dts_ms;
        self.give_sound(|sound| sound.end(end_ms));
        self.tap.on_end();
    }

    /// Hands over what `work` makes of the sound, if an observer wants sound.
    fn give_sound(&mut self, work: impl FnOnce(&mut Sound) -> Vec<weir_flow::Packet>) {
        let Some(sound) = &mut self.sound else { return };
        if self.tap.wants_sound() {
            work(sound)
                .into_iter()
                .for_each(|piece| self.tap.on_packet(piece));
        } else {
            sound.pause();
        }
    }
}

impl Drop for PacketReader {
    fn drop(&mut self) {
        self.on_end();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Mutex, PoisonError};

    use weir_flow::PacketObserver;

    use super::*;

    /// Formats, key frames, other packets and jumps, a letter each.
    #[derive(Default)]
    struct Seen(Mutex<String>);

    impl Seen {
        fn push(&self, letter: char) {
            self.0.lock().unwrap_or_else(PoisonError::into_inner).push(letter);
        }
    }

    impl PacketObserver for Seen {
        fn on_format(&self, _stream: &Arc<str>, _format: &Arc<PacketFormat>) {
            self.push('F');
        }

        fn on_packet(&self, _stream: &Arc<str>, packet: &weir_flow::Packet) {
            self.push(if packet.key { 'K' } else { 'p' });
        }

        fn on_jump(&self, _stream: &Arc<str>) {
            self.push('|');
        }
    }

    /// Ends of the pictures and of the sound in milliseconds, when the clock jumped.
    #[derive(Default)]
    struct Ends(Mutex<([f64; 2], Option<[f64; 2]>)>);

    impl PacketObserver for Ends {
        fn on_format(&self, _stream: &Arc<str>, _format: &Arc<PacketFormat>) {}

        fn on_packet(&self, _stream: &Arc<str>, packet: &weir_flow::Packet) {
            let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            ends.0[usize::from(packet.sound)] = packet.dts_ms + packet.duration_ms;
        }

        fn on_jump(&self, _stream: &Arc<str>) {
            let mut ends = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            ends.1 = Some(ends.0);
        }

        fn wants_sound(&self) -> bool {
            true
        }
    }

    #[test]
    fn sound_before_a_jump_is_as_long_as_the_pictures() {
        let ends = Arc::<Ends>::default();
        read(Arc::clone(&ends) as _, Some(Sound::of_opus()), |number| {
            if number < 10 { 0 } else { 3_600_000 }
        });
        let at_jump = ends.0.lock().unwrap_or_else(PoisonError::into_inner).1;
        let [pictures_ms, sound_ms] = at_jump.expect("a jump");
        // Packets of pictures say no duration; the last one is shown for 40 ms.
        assert!((pictures_ms - 360.0).abs() < 1.0, "{pictures_ms}");
        assert!((sound_ms - 400.0).abs() <= 20.0, "{sound_ms}");
    }

    /// Observed packets of a live camera with a key frame at each fifth packet; `moved` is added to the time stamp by number.
    fn observed(moved: impl Fn(i64) -> i64) -> String {
        let seen = Arc::<Seen>::default();
        read(Arc::clone(&seen) as _, None, moved);
        seen.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn read(observer: Arc<dyn PacketObserver>, sound: Option<Sound>, moved: impl Fn(i64) -> i64) {
        let tap = PacketTap::new("north", || 0);
        let subscription = tap.observe(observer);
        let format = PacketFormat {
            codec: PacketCodec::H264,
            extradata: Arc::new([]),
            width: 64,
            height: 48,
            turn: None,
            sample_aspect: None,
            sound: sound.as_ref().map(|sound| sound.format().clone()),
        };
        tap.on_open(Ok(format.clone()));
        tap.on_frame(0.0, 0.0);
        let mut reader = PacketReader::new(Arc::clone(&tap), format, 1.0, sound);
        let mut times = PacketTimes::new(1.0, 25.0, true);
        for number in 0..20 {
            let mut packet = Packet::copy(&[0; 4]);
            let stamp = Some(number * 40 + moved(number));
            packet.set_dts(stamp);
            packet.set_pts(stamp);
            if number % 5 == 0 {
                packet.set_flags(codec::packet::Flags::KEY);
            }
            times.correct(&mut packet, None, 40.0 * number as f64);
            reader.on_packet(&packet, &mut times);
        }
        drop((reader, subscription));
    }

    #[test]
    fn jump_of_a_live_camera_at_a_key_frame_is_reported_before_that_frame() {
        let from = |first: i64| move |number: i64| if number < first { 0 } else { 3_600_000 };
        assert_eq!(observed(|_| 0), "FKppppKppppKppppKpppp");
        assert_eq!(observed(from(10)), "FKppppKpppp|KppppKpppp");
        assert_eq!(observed(from(12)), "FKppppKppppKpppp|Kpppp");
        assert_eq!(observed(from(19)), "FKppppKppppKppppKpppp");
        // A wild time stamp of a key frame, and of the last packet that was read.
        let wild = |number: i64| {
            if number == 5 || number == 19 {
                -3_600_000
            } else {
                0
            }
        };
        assert_eq!(observed(wild), "FKppppKppppKppppKpppp");
    }
}
