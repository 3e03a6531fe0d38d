//! The picture of a frame as it may leave the engine. Everything that encodes a frame takes a [`ShownPicture`], so that no
//! encoder can show what the camera hides; a test of the house names the files that encode.

use weir_flow::{Frame, Image, Rect};

use super::crop::crop;
use super::hide::hide;

/// Picture of a frame in which everything is hidden that its camera hides. Of a frame that is not delivered, or of which
/// the objects are not known, it is black.
#[derive(Debug, Clone)]
pub struct ShownPicture(Image);

impl ShownPicture {
    /// Picture of the whole frame.
    #[must_use]
    pub fn of(frame: &Frame) -> Self {
        Self(frame.privacy.picture(&frame.image, hide))
    }

    pub(crate) fn image(&self) -> &Image {
        &self.0
    }

    /// A part of it, reduced so that its longer side is less than twice `max_side`. `None` if it is almost empty.
    pub(super) fn part(&self, rect: &Rect, max_side: u32) -> Option<Self> {
        crop(&self.0, rect, max_side).map(Self)
    }
}
