//! Boxes in pixels as parts of their picture, as the policy has them.

use weir_flow::{Image, Item, Rect, Region};
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

/// The part of its picture that an item covers.
pub(crate) fn part_of_picture(item: &Item) -> PicturePart {
    match &item.region {
        Region::Whole => PicturePart {
            left: 0.0,
            top: 0.0,
            right: 1.0,
            bottom: 1.0,
        },
        Region::Crop { rect, .. } => part_of(rect, &item.frame.image),
    }
}
