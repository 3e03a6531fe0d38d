//! Comparison of the pictures of a camera, which finds a frozen one: a picture a second is hashed.

use weir_flow::{Image, PixelFormat};

use super::{Playback, SourceThread};

impl SourceThread {
    /// Compares a picture of a camera with earlier ones, and publishes whether they are frozen.
    pub(super) fn watch_frozen(&self, image: &Image, playback: &mut Playback) {
        let now = self.clock.now();
        if playback.endless != Some(true) || !playback.frozen.is_due(now) {
            return;
        }
        let since = playback.frozen.on_picture(picture_hash(image), now);
        if let (None, Some(_)) = (self.control.frozen_since(), since) {
            tracing::warn!(
                stream = %self.name,
                "its picture has not changed at all for {}, although frames arrive: restart the camera if it does not show a still \
                 picture",
                now.since(since.unwrap_or(now))
            );
        }
        self.control.set_frozen_since(since);
    }
}

/// Hash of the luma samples, or of all samples of an RGB picture, without what pads its rows.
fn picture_hash(image: &Image) -> u64 {
    let (samples, stride) = image.planes.plane(0);
    let (width, height) = (image.width as usize, image.height as usize);
    let row_bytes = if image.format == PixelFormat::Rgb24 {
        3 * width
    } else {
        width
    };
    let rows = samples.chunks(stride.max(1)).take(height);
    let mut hash = u64::from(image.width) << 32 | u64::from(image.height);
    let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
    for row in rows {
        let (words, rest) = row[..row.len().min(row_bytes)].as_chunks::<8>();
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| mix(u64::from(*byte)));
    }
    hash
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weir_flow::OwnedPlanes;

    use super::*;

    #[test]
    fn every_pixel_counts_and_no_padding_does() {
        let image = |luma: &[u8]| {
            let planes = vec![(luma.to_vec(), 12), (vec![128; 5], 5), (vec![128; 5], 5)];
            Image {
                format: PixelFormat::Yuv420,
                planes: Arc::new(OwnedPlanes { planes }),
                ..Image::from_rgb(10, 2, vec![0; 60])
            }
        };
        let mut luma: Vec<u8> = (0..24).collect();
        let first = picture_hash(&image(&luma));
        for padding in [10, 11, 22, 23] {
            luma[padding] = 0;
        }
        assert_eq!(picture_hash(&image(&luma)), first);
        for pixel in [0, 8, 9, 12, 21] {
            luma[pixel] ^= 1;
            assert_ne!(picture_hash(&image(&luma)), first, "{pixel}");
            luma[pixel] ^= 1;
        }
    }
}
