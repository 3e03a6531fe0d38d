//! The one place where FFmpeg's safe wrapper says less than is so.
#![expect(
    unsafe_code,
    reason = "a converter may move between threads, which its wrapper leaves unsaid"
)]

use ffmpeg_next::frame;
use ffmpeg_next::software::scaling;

/// A conversion of pixel formats or sizes that may move between threads.
pub(crate) struct Converter(scaling::Context);

// SAFETY: a context belongs to no thread; it must only not be used by two at once, and `run` takes `&mut self`.
unsafe impl Send for Converter {}

impl Converter {
    /// From pictures of one kind to another, bilinear.
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
