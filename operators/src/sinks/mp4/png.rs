//! Single pictures with their objects drawn on them.

use std::io::Cursor;

use image::{ImageFormat, RgbImage};
use weir_flow::Delivery;

use super::annotate;
use super::canvas::Canvas;
use crate::ShownPicture;
use crate::media::Rgb;
use crate::pixels::Sampler;

/// The frame of a delivery as PNG, with objects and their attributes drawn on it as in a video.
///
/// # Errors
/// The reason where it cannot be encoded.
pub fn annotated_png(delivery: &Delivery) -> Result<Vec<u8>, String> {
    let (mut canvas, mut sampler) = (Canvas::default(), Sampler::new());
    canvas.begin(&ShownPicture::of(&delivery.frame), &mut sampler);
    annotate::draw(&mut canvas, &delivery.objects, &delivery.overlays, 0.0);
    png(canvas.rgb())
}

pub(super) fn png(rgb: Rgb<'_>) -> Result<Vec<u8>, String> {
    let picture = RgbImage::from_raw(rgb.width, rgb.height, rgb.samples.to_vec());
    let mut png = Cursor::new(Vec::new());
    picture
        .ok_or("the picture has no samples")?
        .write_to(&mut png, ImageFormat::Png)
        .map_err(|error| error.to_string())?;
    Ok(png.into_inner())
}
