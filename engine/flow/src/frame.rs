//! A decoded frame of a stream: its picture with its place and time in the stream.

use std::fmt;
use std::sync::Arc;

use crate::image::Image;
use crate::privacy_mask::PrivacyMask;

/// Guard that is dropped with the frame and then releases the frame's share of the memory budget; `None`
/// without a budget.
pub type MemoryGuard = Option<Box<dyn std::any::Any + Send + Sync>>;

/// Decoded frame of a stream.
pub struct Frame {
    /// Position in its stream, from 0, counting every decoded frame.
    pub index: u64,
    /// Presentation time of the media in milliseconds from its first frame: data, never the clock of the SLO.
    pub pts_ms: f64,
    /// Timestamp of the container in milliseconds, before any correction; `None` if it has none.
    pub stamp_ms: Option<f64>,
    /// Decoded picture of the frame.
    pub image: Image,
    /// True if the decoder concealed errors in the picture.
    pub concealed: bool,
    /// Name of its file, if each frame is a file.
    pub file: Option<Arc<str>>,
    /// Name of its stream; empty before the frame belongs to one.
    pub stream: Arc<str>,
    /// Releases the frame's memory budget when the frame is dropped.
    pub memory_guard: MemoryGuard,
    /// Parts that pictures of the frame hide; models see them.
    pub privacy: PrivacyMask,
}

impl Frame {
    /// Width and height of the picture.
    #[must_use]
    pub fn size(&self) -> (u32, u32) {
        (self.image.width, self.image.height)
    }

    /// A frame without a [`MemoryGuard`].
    #[must_use]
    pub fn new(index: u64, pts_ms: f64, image: Image) -> Self {
        Self {
            index,
            pts_ms,
            stamp_ms: None,
            image,
            concealed: false,
            file: None,
            stream: Arc::default(),
            memory_guard: None,
            privacy: PrivacyMask::default(),
        }
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Frame(#{} at {:.1} ms, {:?})",
            self.index, self.pts_ms, self.image
        )
    }
}
