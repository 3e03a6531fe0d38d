//! The only unsafe code of media: gaps in FFmpeg's safe wrapper.
#![expect(
    unsafe_code,
    reason = "a converter may move between threads, and streams have side data: its wrapper has neither"
)]

use ffmpeg_next::software::scaling;
use ffmpeg_next::{format, frame};

/// A conversion of pixel formats and sizes that may move between threads.
pub(crate) struct Converter(scaling::Context);

// SAFETY: a context belongs to no thread; it must only not be used by two at once, and `run` takes `&mut self`.
unsafe impl Send for Converter {}

impl Converter {
    /// A bilinear conversion between two formats and sizes.
    pub(crate) fn new(from: scaling::context::Definition, to: scaling::context::Definition) -> Option<Self> {
        let flags = scaling::Flags::BILINEAR | scaling::Flags::ACCURATE_RND;
        scaling::Context::get(
            from.format,
            from.width,
            from.height,
            to.format,
            to.width,
            to.height,
            flags,
        )
        .ok()
        .map(Self)
    }

    /// Format and size of its input.
    pub(crate) fn from(&self) -> &scaling::context::Definition {
        self.0.input()
    }

    /// Converts one picture.
    pub(crate) fn run(
        &mut self,
        from: &frame::Video,
        to: &mut frame::Video,
    ) -> Result<(), ffmpeg_next::Error> {
        self.0.run(from, to)
    }
}

/// The display matrix that the container stores with a stream: nine native integers of four bytes. From FFmpeg 8 on it
/// is stored with the pictures instead.
pub(crate) fn display_matrix(stream: &format::stream::Stream<'_>) -> Option<[u8; 36]> {
    #[cfg(ffmpeg_8)]
    {
        let _ = stream;
        None
    }
    #[cfg(not(ffmpeg_8))]
    {
        use ffmpeg_next::ffi;
        let kind = ffi::AVPacketSideDataType::AV_PKT_DATA_DISPLAYMATRIX;
        let mut size = 0;
        // SAFETY: the stream lives as long as the reference to it, and `size` is written before it is read.
        let data = unsafe { ffi::av_stream_get_side_data(stream.as_ptr(), kind, &raw mut size) };
        if data.is_null() || size < 36 {
            return None;
        }
        // SAFETY: the data belong to the stream, and are at least as long as what is copied here.
        Some(unsafe { data.cast::<[u8; 36]>().read_unaligned() })
    }
}
