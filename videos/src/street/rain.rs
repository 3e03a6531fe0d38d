//! Rain before the camera: drops near it, smeared by the exposure.

use rand::RngExt;
use rand_pcg::Pcg64;
use rand_pcg::rand_core::SeedableRng;

use crate::canvas::Picture;

/// Draws this many raindrops; `key` determines their positions.
pub(super) fn fall(picture: &mut Picture, drops: u32, key: u64) {
    let mut rng = Pcg64::seed_from_u64(key);
    for _ in 0..drops {
        let (x, y) = (
            rng.random_range(0..picture.width),
            rng.random_range(0..picture.height),
        );
        // What is nearer is longer and fainter.
        let length = rng.random_range(6..26_u32);
        let part = 0.55 - 0.016 * length as f32;
        for step in 0..length {
            let (x, y) = (x + step / 9, y + step);
            if x < picture.width && y < picture.height {
                let at = 3 * (y * picture.width + x) as usize;
                for value in &mut picture.rgb[at..at + 3] {
                    *value = (f32::from(*value) * (1.0 - part) + 205.0 * part) as u8;
                }
            }
        }
    }
}
