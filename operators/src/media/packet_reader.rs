//! What a source hands to those who observe its packets: copies of them, with the times of the container.

use std::sync::Arc;

use ffmpeg_next::codec::{Id, Parameters};
use ffmpeg_next::{Packet, codec};
use weir_flow::{PacketCodec, PacketFormat, PacketTap};

use super::ffi;

/// Step in milliseconds after a packet without a time and without a duration.
const USUAL_STEP_MS: f64 = 40.0;

/// The format of packets, or why they cannot be recorded or shown as they are.
pub(super) fn packet_format(parameters: &Parameters, stamped: bool) -> Result<PacketFormat, String> {
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
    let (width, height, extradata) = ffi::video_parameters(parameters);
    Ok(PacketFormat {
        codec,
        extradata: extradata.into(),
        width,
        height,
    })
}

/// Copies packets for a tap, while it is observed.
pub(super) struct PacketReader {
    tap: Arc<PacketTap>,
    tick_ms: f64,
    /// When a packet without a time is decoded.
    next_dts_ms: f64,
}

impl PacketReader {
    pub(super) fn new(tap: Arc<PacketTap>, tick_ms: f64) -> Self {
        Self {
            tap,
            tick_ms,
            next_dts_ms: 0.0,
        }
    }

    pub(super) fn on_packet(&mut self, packet: &Packet) {
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
            // The tap's own clock.
            time_ms: 0,
        });
    }
}
