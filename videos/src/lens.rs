//! Effects of a camera on a picture: exposure over time, blur, light, grain.

use rand_pcg::Pcg32;
use rand_pcg::rand_core::{Rng, SeedableRng};

use crate::canvas::Picture;

/// Properties of a camera.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Lens {
    /// Standard deviation of the grain, in steps of 255; the same for the three channels of a pixel by four fifths.
    pub grain: f32,
    /// Factor of all pixel values.
    pub gain: f32,
    /// Darkening towards the corners, 0 to 1.
    pub vignette: f32,
    /// Radius of a soft blur in pixels; 0: none.
    pub blur: f32,
}

/// The mean of pictures taken during one exposure: what moves is smeared. All are of one size.
#[must_use]
pub fn exposed(pictures: &[Picture]) -> Option<Picture> {
    let (first, rest) = pictures.split_first()?;
    if rest.is_empty() {
        return Some(first.clone());
    }
    let count = pictures.len() as u32;
    let mut sums: Vec<u32> = first.rgb.iter().map(|value| u32::from(*value)).collect();
    for picture in rest {
        for (sum, value) in sums.iter_mut().zip(&picture.rgb) {
            *sum += u32::from(*value);
        }
    }
    let rgb = sums.iter().map(|sum| ((sum + count / 2) / count) as u8).collect();
    Some(Picture { rgb, ..*first })
}

impl Lens {
    /// Applies the effects to `picture`; `key` seeds the grain.
    #[must_use]
    pub fn seen(&self, picture: Picture, key: u64) -> Picture {
        let mut picture = if self.blur > 0.0 {
            blurred(&picture, self.blur)
        } else {
            picture
        };
        let (width, height) = (picture.width as f32, picture.height as f32);
        let reach = (width.hypot(height) / 2.0).powi(2);
        let mut rng = Pcg32::seed_from_u64(key);
        for (index, pixel) in picture.rgb.chunks_exact_mut(3).enumerate() {
            let (x, y) = (index as u32 % picture.width, index as u32 / picture.width);
            let (dx, dy) = (x as f32 - width / 2.0, y as f32 - height / 2.0);
            let light = self.gain * (1.0 - self.vignette * (dx * dx + dy * dy) / reach);
            // Eight dice of a byte each, four for the pixel and four for its channels: near enough to normal.
            let dice = rng.next_u64().to_le_bytes().map(|byte| f32::from(byte) - 127.5);
            let common = (dice[0] + dice[1] + dice[2] + dice[3]) * (0.8 / 147.8);
            for (value, own) in pixel.iter_mut().zip(&dice[4..]) {
                let grain = self.grain * (common + own * (0.6 / 73.9));
                *value = (f32::from(*value) * light + grain).clamp(0.0, 255.0) as u8;
            }
        }
        picture
    }
}

/// Two passes of a box in each direction, by about `radius` pixels.
fn blurred(picture: &Picture, radius: f32) -> Picture {
    let sigma = f64::from(radius);
    let size = (picture.width, picture.height);
    let image = image::RgbImage::from_raw(size.0, size.1, picture.rgb.clone());
    image.map_or_else(
        || picture.clone(),
        |image| Picture {
            rgb: image::imageops::fast_blur(&image, sigma as f32).into_raw(),
            ..*picture
        },
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn grain_has_its_deviation_and_is_the_same_for_the_same_key() {
        let grey = Picture {
            width: 64,
            height: 64,
            rgb: vec![128; 64 * 64 * 3],
        };
        let lens = Lens {
            grain: 6.0,
            gain: 1.0,
            vignette: 0.0,
            blur: 0.0,
        };
        let seen = lens.seen(grey.clone(), 5);
        assert_eq!(seen, lens.seen(grey.clone(), 5));
        assert_ne!(seen, lens.seen(grey, 6));
        let mean = seen.rgb.iter().map(|value| f32::from(*value)).sum::<f32>() / seen.rgb.len() as f32;
        let squares = seen
            .rgb
            .iter()
            .map(|value| (f32::from(*value) - mean).powi(2))
            .sum::<f32>();
        let deviation = (squares / seen.rgb.len() as f32).sqrt();
        assert!(
            (mean - 127.5).abs() < 0.6 && (deviation - 6.0).abs() < 0.6,
            "{mean} {deviation}"
        );
    }

    #[test]
    fn an_exposure_is_the_mean() {
        let of = |value| Picture {
            width: 1,
            height: 1,
            rgb: vec![value; 3],
        };
        assert_eq!(exposed(&[of(10), of(20), of(60)]), Some(of(30)));
        assert_eq!(exposed(&[]), None);
    }
}
