//! Encoded packets of a stream as its source read them, before decoding: for recording, and for live
//! pictures.
//!
//! A [`PacketTap`](crate::PacketTap) belongs to a stream for as long as the stream exists, over all openings
//! of its source. A consumer of packets [observes](crate::PacketTap::observe) it. Without observers, a source
//! copies nothing.

use std::sync::Arc;

use crate::Frame;

/// Codecs of packets that can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketCodec {
    /// H.264 (AVC).
    H264,
    /// H.265 (HEVC).
    H265,
}

impl PacketCodec {
    /// Name of the codec as users see it: `"h264"`, `"h265"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H264 => "h264",
            Self::H265 => "h265",
        }
    }
}

/// Codecs of sound beside pictures. Sources turn other codecs of cameras into AAC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SoundCodec {
    /// AAC, in frames without ADTS headers.
    Aac,
    /// Opus (RFC 6716).
    Opus,
}

/// Format of the sound that goes along with pictures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SoundFormat {
    /// Codec of the sound.
    pub codec: SoundCodec,
    /// `AudioSpecificConfig` of AAC (ISO/IEC 14496-3), or `OpusHead` of Opus (RFC 7845).
    pub extradata: Arc<[u8]>,
    /// Samples per second.
    pub rate: u32,
    /// Number of channels.
    pub channels: u16,
}

/// Format that is needed to read packets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFormat {
    /// Codec of the video.
    pub codec: PacketCodec,
    /// Parameter sets in the container's form. If the first byte is 1, this is an `avcC` or `hvcC` record
    /// (ISO/IEC 14496-15), and packets are units prefixed with their lengths. Otherwise both are byte streams
    /// with start codes (Annex B). Empty if the stream has its parameter sets only in its key frames.
    pub extradata: Arc<[u8]>,
    /// Width in pixels as it is encoded; 0 if unknown.
    pub width: u32,
    /// Height in pixels as it is encoded; 0 if unknown.
    pub height: u32,
    /// Rotation of the pictures on display that the container states: a matrix as in ISO/IEC 14496-12, 8.3.2.
    pub turn: Option<[i32; 9]>,
    /// Aspect ratio of a pixel, width and height; `None` if the container does not state it.
    pub sample_aspect: Option<(u32, u32)>,
    /// Format of the sound, if the source has sound and is asked for it.
    pub sound: Option<SoundFormat>,
}

impl PacketFormat {
    /// The format for an observer: without the sound, unless it wants sound.
    #[must_use]
    pub fn with_sound_if(self: &Arc<Self>, wants_sound: bool) -> Arc<Self> {
        if wants_sound || self.sound.is_none() {
            return Arc::clone(self);
        }
        Arc::new(Self {
            sound: None,
            ..Self::clone(self)
        })
    }
}

/// A coded picture, or a piece of sound.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// Bytes as they were read.
    pub data: Arc<[u8]>,
    /// Presentation time in milliseconds, on the time base of the `pts_ms` of the stream's frames.
    pub pts_ms: f64,
    /// Decoding timestamp in milliseconds, on the same time base. May go back if a camera sends invalid
    /// timestamps.
    pub dts_ms: f64,
    /// Duration in milliseconds; 0 if unknown.
    pub duration_ms: f64,
    /// True for a key frame, which begins a group of pictures and is decoded without earlier ones.
    pub key: bool,
    /// True for a piece of sound, of which `key` is false.
    pub sound: bool,
    /// Time of reading, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

/// Receives packets of streams on the threads that read them, so it must return at once and must not call the
/// tap. For each stream it gets a format, then packets from a key frame on, in the order of reading.
pub trait PacketObserver: Send + Sync {
    /// Reports the format of the packets that follow. It is called again when the source was opened again, or when times of packets
    /// have another offset: later packets do not continue earlier ones.
    fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>);
    /// Delivers the next packet.
    fn on_packet(&self, stream: &Arc<str>, packet: &Packet);
    /// Reports the time zone of the stream, by its name in the IANA database, in which schedules are read that have none of their own.
    /// It is called before the first format, and again when another graph is in force.
    fn on_time_zone(&self, _stream: &Arc<str>, _zone: &str) {}
    /// Reports that the clock of the camera jumped and that the next packet, a key frame, is the first since then to begin a file.
    /// Times of packets continue, so an observer that has no files ignores it.
    fn on_jump(&self, _stream: &Arc<str>) {}
    /// Reports that the stream has no observable packets while its source is open; the reason is shown to the
    /// user.
    fn on_refused(&self, _stream: &Arc<str>, _reason: &str) {}
    /// Reports that the packets of the stream are withheld, and that no picture may take their place.
    fn on_private(&self, stream: &Arc<str>, reason: &str) {
        self.on_refused(stream, reason);
    }
    /// Delivers a frame outside the times at which the stream is analysed, which arrived at `time_ms` (since 1970, UTC), if the observer
    /// is a view. Such frames are rare; one may come for each view that begins.
    fn on_idle_frame(&self, _stream: &Arc<str>, _frame: &Frame, _time_ms: u64) {}
    /// True if packets are shown to people at once. Those of a camera whose pictures hide something are withheld.
    fn is_view(&self) -> bool {
        false
    }
    /// True if it gets the sound of the stream, too: in the order of time, so that pictures may be delayed until their sound is there.
    fn wants_sound(&self) -> bool {
        false
    }
}
