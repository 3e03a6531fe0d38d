//! Pictures of objects: copies of some pixels of a frame, which become a JPEG where one is asked for.

use std::fmt::Debug;
use std::sync::Arc;

use crate::frame::Frame;
use crate::geometry::Rect;

/// Bounds of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureLimits {
    /// Its longer side in pixels.
    pub max_side: u32,
    /// Bytes of its JPEG.
    pub max_bytes: u32,
}

/// Takes pictures of objects out of frames. Called where deliveries come out, which must not wait for it: it copies, and
/// encodes nothing.
pub trait PictureTaker: Debug + Send + Sync {
    /// How sharp the frame is within `rect`: 0 (even or blurred) to 1, at one small size, so that near and far objects can be
    /// compared.
    fn sharpness(&self, frame: &Frame, rect: &Rect) -> f32;
    /// Copies what is within `rect`, so that nothing of the frame itself is kept. `None` where that is next to nothing.
    fn take(&self, frame: &Frame, rect: &Rect, limits: PictureLimits) -> Option<Arc<dyn Picture>>;
}

/// A picture that was taken.
pub trait Picture: Debug + Send + Sync {
    /// The JPEG. It is encoded when it is asked for first, by the thread that asks.
    fn jpeg(&self) -> &[u8];
}

/// One that is encoded already.
impl Picture for Vec<u8> {
    fn jpeg(&self) -> &[u8] {
        self
    }
}
