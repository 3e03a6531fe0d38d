//! Boxes in pixels as parts of their picture, as the policy has them.

use weir_flow::{Image, Rect};
use weir_policy::Region as PicturePart;

/// A box in fractions of the width and height of its picture.
pub(crate) fn part_of(rect: &Rect, image: &Image) -> PicturePart {
    let (width, height) = (image.width.max(1) as f32, image.height.max(1) as f32);
    PicturePart {
        left: rect.x0 / width,
        top: rect.y0 / height,
        right: rect.x1 / width,
        bottom: rect.y1 / height,
    }
}
