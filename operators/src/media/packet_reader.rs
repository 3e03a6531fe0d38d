//! Packets for the observers of a source: copies of its packets, with the times of the container.

use std::sync::Arc;

use ffmpeg_next::codec::Id;
use ffmpeg_next::codec::packet::side_data;
use ffmpeg_next::format::stream::Stream;
use ffmpeg_next::{Packet, codec};
use weir_flow::{PacketCodec, PacketFormat, PacketTap};

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

/// Copies packets for a tap, while it is observed.
pub(super) struct PacketReader {
    tap: Arc<PacketTap>,
    /// Of the packets so far.
    format: PacketFormat,
    tick_ms: f64,
    sound: Option<Sound>,
    /// When a packet without a time is decoded.
    next_dts_ms: f64,
}

impl PacketReader {
    pub(super) fn new(tap: Arc<PacketTap>, format: PacketFormat, tick_ms: f64, sound: Option<Sound>) -> Self {
        Self {
            tap,
            format,
            tick_ms,
            sound,
            next_dts_ms: 0.0,
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

    pub(super) fn on_packet(&mut self, packet: &Packet) {
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
