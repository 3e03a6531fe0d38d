//! The two places where FFmpeg's safe wrapper does not reach.
#![expect(unsafe_code, reason = "FFmpeg through its C interface")]

use ffmpeg_next::format::context::Input;
use ffmpeg_next::software::scaling;
use ffmpeg_next::{ffi, frame};

/// Whether the container carries no time stamps: a raw elementary stream. What FFmpeg then reports is made up.
pub(super) fn without_time_stamps(input: &Input) -> bool {
    // SAFETY: an open input has a format, which is static data of the library.
    unsafe { (*(*input.as_ptr()).iformat).flags & ffi::AVFMT_NOTIMESTAMPS != 0 }
}

/// A conversion of pixel formats or sizes that may move between threads.
pub(crate) struct Converter(scaling::Context);

// SAFETY: a context belongs to no thread; it must only not be used by two at once, and `run` takes `&mut self`.
unsafe impl Send for Converter {}

impl Converter {
    /// From pictures of one kind to another, bilinear.
    pub(crate) fn new(from: scaling::context::Definition, to: scaling::context::Definition) -> Option<Self> {
        let flags = scaling::Flags::BILINEAR | scaling::Flags::FULL_CHR_H_INT | scaling::Flags::ACCURATE_RND;
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

    /// What it converts.
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
