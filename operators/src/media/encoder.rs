//! Encoders of libx264 and libx265, on the calling thread: the same pictures give the same bytes.

use ffmpeg_next::codec::threading;
use ffmpeg_next::format::Pixel;
use ffmpeg_next::{Dictionary, Error, Rational, codec, color, encoder};

/// Ticks per second of the timestamps.
pub(super) const TICKS: i32 = 90_000;

/// Codec of a video.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum VideoCodec {
    /// H.264, by libx264.
    H264,
    /// H.265, by libx265, which an FFmpeg may lack.
    Hevc,
}

/// Settings of an encoder and its file.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Encoding {
    /// Codec and encoder.
    pub codec: VideoCodec,
    /// Constant rate factor, 0 to 51: lower is better and larger.
    pub crf: f64,
    /// Longest distance between key frames, in frames.
    pub gop: u32,
    /// Longest run of frames predicted from later ones; 0 for live pictures.
    pub b_frames: u32,
    /// Approximate frames per second.
    pub fps: f64,
    /// Whether pictures arrive in real time. Then each is encoded on arrival and the file is fragmented: a fragment can
    /// be played as soon as it is written. Otherwise the encoder looks ahead, and the file has its index at the front.
    pub live: bool,
    /// Every n-th packet is dropped, as by a network that loses some.
    pub drop_every: Option<u64>,
}

impl Encoding {
    /// H.264 of pictures that arrive in real time.
    #[must_use]
    pub fn live(crf: f64) -> Self {
        Self {
            codec: VideoCodec::H264,
            crf,
            // Also the length of a fragment.
            gop: 50,
            b_frames: 0,
            fps: 25.0,
            live: true,
            drop_every: None,
        }
    }
}

impl VideoCodec {
    /// FFmpeg's name of the encoder.
    pub(super) const fn encoder(self) -> &'static str {
        match self {
            Self::H264 => "libx264",
            Self::Hevc => "libx265",
        }
    }

    /// FFmpeg's id of the codec.
    pub(super) const fn id(self) -> codec::Id {
        match self {
            Self::H264 => codec::Id::H264,
            Self::Hevc => codec::Id::HEVC,
        }
    }

    /// Whether this FFmpeg has the encoder.
    #[must_use]
    pub fn is_available(self) -> bool {
        encoder::find_by_name(self.encoder()).is_some()
    }
}

/// Place of the headers of an encoded stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Headers {
    /// Once, in the container.
    Container,
    /// Before each key frame, for a stream that changes its size.
    InBand,
}

/// Opens an encoder for pictures of even width and height.
pub(super) fn encoder(
    encoding: &Encoding,
    (width, height): (u32, u32),
    headers: Headers,
) -> Result<encoder::Video, Error> {
    let codec = encoder::find_by_name(encoding.codec.encoder()).ok_or(Error::EncoderNotFound)?;
    let mut context = codec::Context::new_with_codec(codec);
    if headers == Headers::Container {
        context.set_flags(codec::Flags::GLOBAL_HEADER);
    }
    // One thread: cores belong to the workers, and the number of threads would change the bytes.
    context.set_threading(threading::Config {
        kind: threading::Type::None,
        count: 1,
        ..Default::default()
    });
    let mut video = context.encoder().video()?;
    video.set_width(width);
    video.set_height(height);
    video.set_format(Pixel::YUV420P);
    video.set_time_base(Rational::new(1, TICKS));
    video.set_frame_rate(Some(Rational::new((encoding.fps * 1000.0).round() as i32, 1000)));
    video.set_gop(encoding.gop);
    video.set_max_b_frames(if encoding.live {
        0
    } else {
        encoding.b_frames as usize
    });
    // Matches the conversion at any size; without a tag, players guess by the size.
    video.set_colorspace(color::Space::SMPTE170M);
    video.set_color_range(color::Range::MPEG);
    video.open_with(options(encoding))
}

fn options(encoding: &Encoding) -> Dictionary<'static> {
    let mut options = Dictionary::new();
    options.set("crf", &format!("{:.1}", encoding.crf.clamp(0.0, 51.0)));
    options.set("preset", if encoding.live { "veryfast" } else { "medium" });
    if encoding.live {
        // No look-ahead: with a camera that delivers rarely, the encoder would hold dozens of pictures for half a
        // minute.
        options.set("tune", "zerolatency");
    }
    if encoding.codec == VideoCodec::Hevc {
        // libx265 writes to standard error and starts its own threads unless set otherwise.
        options.set("x265-params", "log-level=none:pools=none:frame-threads=1:wpp=0");
    }
    options
}
