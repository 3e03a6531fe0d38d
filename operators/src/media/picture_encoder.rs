//! Pictures as they arrive into packets of H.264, for those who send them on.

use ffmpeg_next::{Error, Packet, codec, encoder};
use weir_flow::{PacketCodec, PacketFormat};

use super::encoder::{Encoding, Headers, TICKS, encoder};
use super::rgb_converter::RgbConverter;
use super::{Rgb, ffi, init_ffmpeg};

/// Encoder of one stream.
pub(crate) struct PictureEncoder {
    encoder: encoder::Video,
    converter: RgbConverter,
    format: PacketFormat,
    last_tick: Option<i64>,
}

impl PictureEncoder {
    /// For pictures of that size, rounded down to even; others are scaled to it.
    ///
    /// # Errors
    /// The reason, if there is no such encoder or the size is too small.
    pub(crate) fn new((width, height): (u32, u32), encoding: &Encoding) -> Result<Self, String> {
        let (width, height) = (width & !1, height & !1);
        if width == 0 || height == 0 {
            return Err("the frames are smaller than two pixels".to_owned());
        }
        init_ffmpeg().map_err(|error| format!("FFmpeg does not start: {error}"))?;
        let name = encoding.codec.encoder();
        let encoder =
            encoder(encoding, (width, height), Headers::Container).map_err(|error| match error {
                Error::EncoderNotFound => format!("this FFmpeg has no {name}: install one that has it"),
                other => format!("FFmpeg's {name} does not start: {other}"),
            })?;
        let (width, height, extradata) = ffi::video_parameters(&codec::Parameters::from(&encoder));
        Ok(Self {
            encoder,
            converter: RgbConverter::new((width, height)),
            format: PacketFormat {
                codec: PacketCodec::H264,
                extradata: extradata.into(),
                width,
                height,
                turn: None,
                sample_aspect: None,
                sound: None,
            },
            last_tick: None,
        })
    }

    pub(crate) fn format(&self) -> &PacketFormat {
        &self.format
    }

    /// Encodes a picture that is shown from `pts_ms` on. Returns its packets.
    ///
    /// # Errors
    /// The reason of the encoder.
    pub(crate) fn encode(&mut self, picture: Rgb<'_>, pts_ms: f64) -> Result<Vec<weir_flow::Packet>, String> {
        self.packets_of(picture, pts_ms)
            .map_err(|error| format!("the encoder fails: {error}"))
    }

    fn packets_of(&mut self, picture: Rgb<'_>, pts_ms: f64) -> Result<Vec<weir_flow::Packet>, Error> {
        let mut picture = self.converter.convert(picture)?;
        let tick = (pts_ms * f64::from(TICKS) / 1000.0).round() as i64;
        let tick = self.last_tick.map_or(tick, |last| tick.max(last + 1));
        self.last_tick = Some(tick);
        picture.set_pts(Some(tick));
        self.encoder.send_frame(&picture)?;
        let mut packets = Vec::new();
        loop {
            let mut packet = Packet::empty();
            match self.encoder.receive_packet(&mut packet) {
                Ok(()) => {}
                Err(Error::Other {
                    errno: ffmpeg_next::error::EAGAIN,
                }) => return Ok(packets),
                Err(error) => return Err(error),
            }
            let ms = |ticks: Option<i64>| ticks.unwrap_or(tick) as f64 * 1000.0 / f64::from(TICKS);
            packets.push(weir_flow::Packet {
                data: packet.data().unwrap_or_default().into(),
                pts_ms: ms(packet.pts()),
                dts_ms: ms(packet.dts()),
                duration_ms: 0.0,
                key: packet.is_key(),
                sound: false,
                time_ms: 0,
            });
        }
    }
}
