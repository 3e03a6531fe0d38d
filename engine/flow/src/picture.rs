//! Pictures of objects: copies of some pixels of a frame, encoded as JPEG on request.

use std::fmt::Debug;
use std::sync::Arc;

use crate::frame::Frame;
use crate::geometry::Rect;

/// Bounds of a picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PictureLimits {
    /// Limit of the longer side in pixels.
    pub max_side: u32,
    /// Bytes of its JPEG.
    pub max_bytes: u32,
}

/// Takes pictures of objects from frames. It is called where deliveries are emitted, which must not wait: it
/// copies pixels and encodes nothing.
pub trait PictureTaker: Debug + Send + Sync {
    /// Sharpness of the frame within `rect`: 0 (even or blurred) to 1. It is measured at one small size, so
    /// that near and far objects can be compared.
    fn sharpness(&self, frame: &Frame, rect: &Rect) -> f32;
    /// Copies the pixels within `rect`, so that the frame is not retained. `None` if the rectangle is almost
    /// empty.
    fn take(&self, frame: &Frame, rect: &Rect, limits: PictureLimits) -> Option<Arc<dyn Picture>>;
}

/// A picture that was taken.
pub trait Picture: Debug + Send + Sync {
    /// JPEG of the picture. The first call encodes it on the calling thread.
    fn jpeg(&self) -> &[u8];
}

/// Picture that is already encoded.
impl Picture for Vec<u8> {
    fn jpeg(&self) -> &[u8] {
        self
    }
}
