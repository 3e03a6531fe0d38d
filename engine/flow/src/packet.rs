//! Encoded packets of a stream as its source read them, before decoding: for recording, and for live pictures.
//!
//! A [`PacketTap`](crate::PacketTap) belongs to a stream for as long as there is the stream, over all openings of its source.
//! Whoever wants its packets [observes](crate::PacketTap::observe) it. While nobody does, a source copies nothing.

use std::sync::Arc;

/// Codecs of packets that can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PacketCodec {
    /// H.264 (AVC).
    H264,
    /// H.265 (HEVC).
    H265,
}

impl PacketCodec {
    /// As it is shown: `"h264"`, `"h265"`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::H264 => "h264",
            Self::H265 => "h265",
        }
    }
}

/// What packets are to be read by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PacketFormat {
    /// Codec of the video.
    pub codec: PacketCodec,
    /// Parameter sets as the container has them. Begins with 1: an `avcC` or `hvcC` record (ISO/IEC 14496-15), and packets are
    /// units with their lengths before them. Otherwise both are a byte stream with start codes (Annex B). Empty where the stream
    /// has its parameter sets in its key frames alone.
    pub extradata: Arc<[u8]>,
    /// Width in pixels as it is encoded; 0 if unknown.
    pub width: u32,
    /// Height in pixels as it is encoded; 0 if unknown.
    pub height: u32,
    /// Rotation of the pictures on display that the container states: a matrix as in ISO/IEC 14496-12, 8.3.2.
    pub turn: Option<[i32; 9]>,
    /// Width and height of a pixel, where the container states them.
    pub sample_aspect: Option<(u32, u32)>,
}

/// A coded picture.
#[derive(Debug, Clone, PartialEq)]
pub struct Packet {
    /// As it was read.
    pub data: Arc<[u8]>,
    /// Presentation time in milliseconds, on the time base of the `pts_ms` of the stream's frames.
    pub pts_ms: f64,
    /// Decoding time in milliseconds, on the same time base. It need not grow where a camera sends nonsense.
    pub dts_ms: f64,
    /// Duration in milliseconds; 0 if unknown.
    pub duration_ms: f64,
    /// Whether it begins a group of pictures: it is decoded without earlier ones.
    pub key: bool,
    /// When it was read, in milliseconds since 1970 (UTC).
    pub time_ms: u64,
}

/// Takes the packets of streams, on the threads that read them: it must return at once, and must not call the tap. Of each
/// stream comes a format, then packets from a key frame on, in the order in which they were read.
pub trait PacketObserver: Send + Sync {
    /// What comes next of the stream has this format. Comes again where the source was opened again, or its time stamps
    /// jumped: the packets after it continue nothing.
    fn on_format(&self, stream: &Arc<str>, format: &Arc<PacketFormat>);
    /// The next packet.
    fn on_packet(&self, stream: &Arc<str>, packet: &Packet);
    /// The stream has no packets that can be observed, as long as its source is open: the reason is for the user.
    fn on_refused(&self, _stream: &Arc<str>, _reason: &str) {}
}
