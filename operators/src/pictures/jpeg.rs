//! JPEGs within bounds: of lower quality, and then smaller, where they would have too many bytes.

use image::codecs::jpeg::JpegEncoder;
use image::{ExtendedColorType, ImageEncoder};
use weir_flow::{Image, PictureLimits};

use super::{ShownPicture, spec};
use crate::pixels::{Channels, Sampler};

const QUALITIES: [u8; 4] = [85, 70, 50, 30];

/// A JPEG of a whole picture; empty where even the smallest exceeds the bound.
pub(super) fn encode(picture: &ShownPicture, limits: PictureLimits) -> Vec<u8> {
    let image = picture.image();
    let longest = image.width.max(image.height).max(1);
    let mut side = longest.min(limits.max_side.max(1));
    while side > 0 {
        let scaled = |length: u32| {
            let length = f64::from(length) * f64::from(side) / f64::from(longest);
            (length.round() as u32).max(1)
        };
        let (width, height) = (scaled(image.width), scaled(image.height));
        let samples = rgb(image, width, height);
        for quality in QUALITIES {
            let mut bytes = Vec::new();
            let encoder = JpegEncoder::new_with_quality(&mut bytes, quality);
            match encoder.write_image(&samples, width, height, ExtendedColorType::Rgb8) {
                Ok(()) if bytes.len() <= limits.max_bytes as usize => return bytes,
                Ok(()) => {}
                Err(error) => {
                    tracing::warn!("a picture of {width} x {height} is no JPEG: {error}");
                    return Vec::new();
                }
            }
        }
        side /= 2;
    }
    Vec::new()
}

fn rgb(image: &Image, width: u32, height: u32) -> Vec<u8> {
    let spec = spec(Channels::Rgb, width, height);
    let mut values = vec![0.0; spec.len()];
    Sampler::new().stretch(image, &image.bounds(), &spec, &mut values);
    // Values are within 0..=255: adding a half rounds them.
    values.into_iter().map(|value| (value + 0.5) as u8).collect()
}

#[cfg(test)]
mod tests {
    use weir_flow::Frame;

    use super::*;

    #[test]
    fn noise_becomes_smaller_until_it_is_within_its_bytes() {
        let mut state = 1_u32;
        let mut random = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        };
        let samples: Vec<u8> = (0..300 * 200 * 3).map(|_| random()).collect();
        let image = Image::from_rgb(300, 200, samples);
        let picture = ShownPicture::of(&Frame::new(0, 0.0, image));
        for max_bytes in [128 << 10, 16 << 10, 4096] {
            let bytes = encode(
                &picture,
                PictureLimits {
                    max_side: 300,
                    max_bytes,
                },
            );
            assert!(!bytes.is_empty() && bytes.len() <= max_bytes as usize);
            let shown = image::load_from_memory(&bytes).expect("a JPEG");
            assert!(
                shown.width() <= 300 && shown.width() * 2 == shown.height() * 3,
                "{max_bytes}"
            );
        }
    }
}
