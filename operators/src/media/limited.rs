//! Decoding within the limit on sources that decode at once, and watched for references that are missing.

use std::sync::Arc;

use ffmpeg_next::{Error, Packet, codec, frame};
use weir_flow::{DecodeLimit, PacketKind};

use super::damage::Damage;
use super::log;
use super::stream_decoder::StreamDecoder;

/// A decoder that decodes within a limit, once one is set, and whose damaged pictures are known.
pub(super) struct LimitedDecoder {
    pub(super) decoder: StreamDecoder,
    /// Set for a codec whose decoder does not report the pictures that it made up.
    damage: Option<Damage>,
    limit: Option<Arc<dyn DecodeLimit>>,
}

impl LimitedDecoder {
    /// `decoder` for a stream of `codec_id`, without a limit.
    pub(super) fn new(decoder: StreamDecoder, codec_id: codec::Id) -> Self {
        Self {
            decoder,
            damage: (codec_id == codec::Id::HEVC).then(Damage::default),
            limit: None,
        }
    }

    pub(super) fn set_limit(&mut self, limit: Arc<dyn DecodeLimit>) {
        self.limit = Some(limit);
    }

    /// Reports to the limit that a packet was read.
    pub(super) fn on_packet(&self, kind: PacketKind) {
        if let Some(limit) = &self.limit {
            limit.on_packet(kind);
        }
    }

    /// Reports to the limit that a packet is not decoded.
    pub(super) fn on_left_out(&self) {
        if let Some(limit) = &self.limit {
            limit.on_left_out();
        }
    }

    /// Decodes a packet.
    ///
    /// # Errors
    /// FFmpeg's.
    pub(super) fn send_packet(&mut self, packet: &Packet) -> Result<(), Error> {
        if let Some(damage) = &mut self.damage {
            damage.on_packet(packet.is_key(), packet.pts());
        }
        decode_watched(self.limit.as_deref(), &mut self.damage, || {
            self.decoder.send_packet(packet)
        })
    }

    /// The next picture that the decoder has ready.
    ///
    /// # Errors
    /// FFmpeg's, also where it has none.
    pub(super) fn receive_frame(&mut self, picture: &mut frame::Video) -> Result<(), Error> {
        decode_watched(self.limit.as_deref(), &mut self.damage, || {
            self.decoder.receive_frame(picture)
        })
    }

    /// Whether the picture of that time, which came out, is made up, in part or as a whole.
    pub(super) fn is_made_up(&mut self, pts: Option<i64>) -> bool {
        self.damage.as_mut().is_some_and(|damage| damage.is_made_up(pts))
    }
}

/// Decodes under the limit.
fn decode_limited<T>(limit: Option<&dyn DecodeLimit>, mut decode: impl FnMut() -> T) -> T {
    let Some(limit) = limit else { return decode() };
    let mut result = None;
    limit.decode(&mut || result = Some(decode()));
    // No limit skips the work; if one did, the limit would be exceeded rather than the frame lost.
    result.unwrap_or_else(decode)
}

/// As [`decode_limited`]; `damage` hears of references that are missing.
fn decode_watched<T>(
    limit: Option<&dyn DecodeLimit>,
    damage: &mut Option<Damage>,
    mut decode: impl FnMut() -> T,
) -> T {
    let Some(damage) = damage else {
        return decode_limited(limit, decode);
    };
    let (result, misses) = decode_limited(limit, || log::watching_references(&mut decode));
    if misses {
        damage.on_missing();
    }
    result
}
